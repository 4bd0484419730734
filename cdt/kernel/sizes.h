/// Norms: on a GPU one call each; on a CPU by plain operators, of which LibTorch makes vector
/// instructions.
#pragma once

#include <torch/types.h>

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

/// The largest |entry| of all.
inline torch::Tensor largest_of(const torch::Tensor& t) {
  if (!t.is_cuda()) return t.abs().amax().to(torch::kFloat64);
  return at::linalg_vector_norm(t, INFINITY, at::OptionalIntArrayRef(), /*keepdim=*/false,
                                torch::kFloat64);
}

/// ‖t‖, summed up in float64.
inline torch::Tensor size_of(const torch::Tensor& t) {
  if (!t.is_cuda()) return t.to(torch::kFloat64).square().sum().sqrt();
  return at::linalg_vector_norm(t, 2, at::OptionalIntArrayRef(), /*keepdim=*/false,
                                torch::kFloat64);
}

/// ‖·‖ along the last dimension.
inline torch::Tensor sizes_along_last(const torch::Tensor& t) {
  const int64_t last = -1;  // LibTorch keeps the address alone
  return at::linalg_vector_norm(t, 2, at::IntArrayRef(last));
}

}  // namespace cdt::kernel
