/// NumPy's .npy files: float32 and float64, C and Fortran order, any rank.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cdt {

/// Reads a .npy file (format 1.0, 2.0 or 3.0) as a contiguous CPU tensor of the file's dtype and
/// shape. Files in Fortran order are converted to C order.
/// @throws InvalidArgument if the file cannot be read, is not a .npy file, has another dtype or
///   byte order (the message says how to convert it), its header states a wrong size, or it has
///   more or fewer bytes than its shape needs.
torch::Tensor load_npy(const std::filesystem::path& path);
/// The same from bytes in memory; messages call them `file`.
torch::Tensor parse_npy(std::string_view bytes, const std::string& file);

/// The header of a .npy file, for callers that map the file instead of reading it.
struct NpyLayout {
  torch::ScalarType dtype;
  bool fortran_order;
  std::vector<int64_t> shape;
  size_t offset;  ///< start of the data, which extends to the end
};
/// Accepts float16, signed integers, bytes and bools as well as float32 and float64.
/// @throws InvalidArgument as parse_npy.
NpyLayout npy_layout(std::string_view bytes, const std::string& file);

/// Writes a float32 or float64 tensor in C order, atomically. Bool, integer and half tensors are
/// refused.
/// @throws InvalidArgument on another dtype, an undefined tensor, or a path that cannot be written.
void save_npy(const std::filesystem::path& path, const torch::Tensor& tensor);

}  // namespace cdt
