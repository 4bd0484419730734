/// Relative errors and random matrices for the tests.
#pragma once

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <vector>

namespace cdt::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline const torch::TensorOptions kDouble = torch::TensorOptions().dtype(torch::kFloat64);

/// ‖a − b‖ / ‖b‖, Frobenius, in float64; ‖a‖ if b is zero.
inline double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  const auto wide_a = a.detach().cpu().to(torch::kFloat64);
  const auto wide_b = b.detach().cpu().to(torch::kFloat64);
  const double size = wide_b.norm().item<double>();
  return (wide_a - wide_b).norm().item<double>() / (size > 0 ? size : 1.0);
}

/// A symmetric PSD matrix [n, n] with the given rank and largest eigenvalue.
inline torch::Tensor random_kernel(int64_t n, int64_t rank, double largest, uint64_t seed) {
  torch::manual_seed(seed);
  const auto J = torch::randn({n, rank}, torch::kFloat64);
  const auto theta = J.mm(J.t());
  const auto scaled = theta * (largest / torch::linalg_eigvalsh(theta)[n - 1].item<double>());
  return (scaled + scaled.t()) / 2;
}

/// A symmetric matrix with exactly these eigenvalues, up to rounding.
inline torch::Tensor kernel_with(const std::vector<double>& eigenvalues, uint64_t seed) {
  torch::manual_seed(seed);
  const auto n = static_cast<int64_t>(eigenvalues.size());
  const auto V = std::get<0>(torch::linalg_qr(torch::randn({n, n}, torch::kFloat64)));
  const auto theta = (V * torch::tensor(eigenvalues, torch::kFloat64)).mm(V.t());
  return (theta + theta.t()) / 2;
}

/// The devices to test on: the CPU, and a GPU if available.
inline std::vector<torch::Device> devices() {
  std::vector<torch::Device> found{torch::kCPU};
  if (torch::cuda::is_available()) found.emplace_back(torch::kCUDA);
  return found;
}

}  // namespace cdt::test
