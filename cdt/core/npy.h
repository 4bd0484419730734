/// NumPy's .npy files: float32 and float64, C and Fortran order, any rank.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cdt {

/// Reads a .npy file (format 1.0, 2.0 or 3.0) as a contiguous CPU tensor of the file's own dtype
/// and shape. Files in Fortran order come out with the same logical entries, in C order.
/// @throws InvalidArgument if the file cannot be read, is no .npy file, holds another dtype or byte
/// order (the message
///   says how to convert it), its header lies about its size, or it has more or fewer bytes than
///   its shape needs.
torch::Tensor load_npy(const std::filesystem::path& path);
/// The same from the bytes of such a file, which messages call `file`.
torch::Tensor parse_npy(std::string_view bytes, const std::string& file);

/// What a .npy file says of itself: for those who map it instead of reading it.
struct NpyLayout {
  torch::ScalarType dtype;
  bool fortran_order;
  std::vector<int64_t> shape;
  size_t offset;  ///< of the data, which are the rest of the bytes
};
/// Besides float32 and float64 also float16, signed integers, bytes and bools.
/// @throws InvalidArgument as parse_npy.
NpyLayout npy_layout(std::string_view bytes, const std::string& file);

/// Writes a float32 or float64 tensor in C order, atomically. Bool, integer and half tensors are
/// refused.
/// @throws InvalidArgument on another dtype, an undefined tensor, or a path that cannot be written.
void save_npy(const std::filesystem::path& path, const torch::Tensor& tensor);

}  // namespace cdt
