/// The safetensors format: named tensors and string metadata in one file, without code.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace cdt {

/// Contents of a safetensors file.
struct SafeTensors {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;  ///< The `__metadata__` record.
};

/// Reads a whole file into CPU tensors: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
/// @throws InvalidArgument if the file cannot be read or is not a regular file, its header is not
///   valid JSON of the format, a dtype is unknown, or offsets overlap, leave gaps, exceed the file
///   or disagree with shape and dtype. The message names the file and the tensor.
SafeTensors load_safetensors(const std::filesystem::path& path);
/// The same from bytes in memory; messages call them `file`.
SafeTensors parse_safetensors(std::string_view bytes, const std::string& file);

/// Writes atomically. Tensors are copied to the CPU in C order. Equal contents give equal bytes.
/// @throws InvalidArgument on an unsupported dtype, the reserved name `__metadata__`, or a path
///   that cannot be written.
void save_safetensors(const std::filesystem::path& path, const SafeTensors& content);
/// The bytes of such a file; messages call it `file`.
std::string dump_safetensors(const SafeTensors& content, const std::string& file);

}  // namespace cdt
