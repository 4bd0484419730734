/// Norms: on a GPU by one call each, on a CPU by plain operators, which LibTorch vectorizes.
#pragma once

#include <torch/types.h>
#include <torch/version.h>

#include <cmath>
#include <vector>

namespace cdt::kernel {

/// The largest |entry| of each sample of t [b, …].
inline torch::Tensor largest_of_each(const torch::Tensor& t) {
  if (!t.is_cuda()) return t.abs().flatten(1).amax(1);
  std::vector<int64_t> others;
  for (int64_t d = 1; d < t.dim(); ++d) others.push_back(d);
  return at::linalg_vector_norm(t, INFINITY, at::IntArrayRef(others));
}

/// The largest |entry|.
inline torch::Tensor largest_of(const torch::Tensor& t) {
  if (!t.is_cuda()) return t.abs().amax().to(torch::kFloat64);
  return at::linalg_vector_norm(t, INFINITY, at::OptionalIntArrayRef(), /*keepdim=*/false,
                                torch::kFloat64);
}

/// ‖t‖, accumulated in float64. On a GPU the norm of a single tensor makes a float64 copy; that of
/// a list does not, but needs more calls, so it is used for large tensors only.
inline torch::Tensor size_of(const torch::Tensor& t) {
  if (!t.is_cuda()) return t.to(torch::kFloat64).square().sum().sqrt();
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11)
  constexpr int64_t kLarge = int64_t{1} << 20;
  if (t.numel() >= kLarge) return at::_foreach_norm({t}, 2, torch::kFloat64).front();
#endif
  return at::linalg_vector_norm(t, 2, at::OptionalIntArrayRef(), /*keepdim=*/false,
                                torch::kFloat64);
}

/// aᵀb in float64, in pieces, since float64 copies of a large parameter's gradients may not fit.
inline torch::Tensor dot_in_float64(const torch::Tensor& a, const torch::Tensor& b) {
  const int64_t entries = a.is_cuda() ? int64_t{1} << 22 : int64_t{1} << 16;
  const auto pieces = a.flatten().split(entries);
  const auto others = b.flatten().split(entries);
  torch::Tensor sum = torch::zeros({}, a.options().dtype(torch::kFloat64));
  for (size_t k = 0; k < pieces.size(); ++k) {
    sum += torch::dot(pieces[k].to(torch::kFloat64), others[k].to(torch::kFloat64));
  }
  return sum;
}

/// ‖·‖² of each tensor in float64.
inline std::vector<torch::Tensor> squares_in_float64(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> squares;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11)
  if (!tensors.empty() && tensors.front().is_cuda()) {
    squares = at::_foreach_norm(tensors, 2, torch::kFloat64);
    at::_foreach_mul_(squares, squares);
    return squares;
  }
#endif
  for (const torch::Tensor& t : tensors) {
    squares.push_back(t.is_cuda() ? size_of(t).square_() : dot_in_float64(t, t));
  }
  return squares;
}

/// ‖·‖ along the last dimension.
inline torch::Tensor sizes_along_last(const torch::Tensor& t) {
  const int64_t last = -1;  // a variable, since LibTorch keeps only its address
  return at::linalg_vector_norm(t, 2, at::IntArrayRef(last));
}

}  // namespace cdt::kernel
