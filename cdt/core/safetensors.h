/// The safetensors format: named tensors and string metadata in one file, no code in it.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace cdt {

/// What a safetensors file holds.
struct SafeTensors {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;  ///< The `__metadata__` record.
};

/// Reads a whole file into CPU tensors: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
/// @throws InvalidArgument if the file cannot be read or is no regular one, its header is not the
///   JSON that the format asks for, a dtype is unknown, or offsets overlap, leave holes, run past
///   the end or disagree with shape and dtype. The message names the file and the tensor.
SafeTensors load_safetensors(const std::filesystem::path& path);
/// The same from the bytes of such a file, which messages call `file`.
SafeTensors parse_safetensors(std::string_view bytes, const std::string& file);

/// Writes atomically; tensors are brought to the CPU in C order. The same content gives the same
/// bytes.
/// @throws InvalidArgument on an unsupported dtype, the reserved name `__metadata__`, or a path
/// that cannot be written.
void save_safetensors(const std::filesystem::path& path, const SafeTensors& content);
/// The bytes of such a file, which messages call `file`.
std::string dump_safetensors(const SafeTensors& content, const std::string& file);

}  // namespace cdt
