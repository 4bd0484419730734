#include <ATen/CPUGeneratorImpl.h>
#include <cdt/control/apply/shifted_factor.h>
#include <cdt/core/interrupt.h>

#include <limits>

namespace cdt::control {

using torch::Tensor;

namespace {

/// Limits for the effective number of parameters.
constexpr int64_t kMostExact = 500;
constexpr int64_t kProbes = 32;

}  // namespace

const Tensor& ShiftedFactor::lower(double lambda) {
  if (factored_ == lambda) return factor_;
  Tensor shifted = matrix_.clone();
  shifted.diagonal().add_(lambda);
  const auto [L, info] =
      decompose_aside(shifted, [shifted] { return torch::linalg_cholesky_ex(shifted); });
  factor_ = info.item<int64_t>() == 0 ? L : Tensor();
  factored_ = lambda;
  return factor_;
}

Tensor ShiftedFactor::solve(const Tensor& b, double lambda) {
  const Tensor& L = lower(lambda);
  if (!L.defined()) return {};
  const Tensor right = b.to(L.scalar_type()).unsqueeze(1);
  return torch::cholesky_solve(right, L).squeeze(1).to(torch::kFloat64);
}

double ShiftedFactor::freedom(double lambda) {
  const Tensor& L = lower(lambda);
  if (!L.defined()) return std::numeric_limits<double>::quiet_NaN();
  const int64_t m = matrix_.size(0);
  if (m <= kMostExact) {
    return static_cast<double>(m) -
           lambda * torch::cholesky_inverse(L).diagonal().sum().item<double>();
  }
  const auto generator = at::detail::createCPUGenerator(/*seed=*/1);
  const Tensor signs = torch::randint(0, 2, {m, kProbes}, generator, torch::kFloat64);
  const Tensor probes = (2 * signs - 1).to(L.device());
  const double square =
      torch::linalg_solve_triangular(L, probes, /*upper=*/false).square().sum().item<double>();
  return static_cast<double>(m) - lambda * square / kProbes;
}

}  // namespace cdt::control
