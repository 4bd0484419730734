#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/spectrum.h>

namespace cdt::dynamics {

Spectrum decompose(const torch::Tensor& theta, double rank_tolerance, torch::ScalarType precision) {
  require_symmetric(theta, "kernel", tol::symmetry(precision));
  require_non_negative(rank_tolerance, "rank_tolerance");
  CDT_REQUIRE(rank_tolerance < 1, "rank_tolerance must be below 1, not ", rank_tolerance);
  Spectrum spectrum;
  std::tie(spectrum.eigenvalues, spectrum.eigenvectors) = torch::linalg_eigh(theta.detach());
  const auto values = spectrum.eigenvalues.to(torch::kCPU);
  const int64_t n = values.size(0);
  const double* lambda = values.data_ptr<double>();
  const double largest = lambda[n - 1];
  const double cut = rank_tolerance * std::max(largest, 0.0);
  spectrum.rank_tolerance = rank_tolerance;
  spectrum.smallest = lambda[0];
  CDT_REQUIRE(spectrum.smallest >= -cut,
              "kernel must be positive semidefinite; its smallest eigenvalue is ",
              spectrum.smallest, ", its largest ", largest);
  int64_t nullity = 0;
  while (nullity < n && lambda[nullity] <= cut) ++nullity;
  spectrum.rank = n - nullity;
  spectrum.eigenvalues.narrow(0, 0, nullity).zero_();
  return spectrum;
}

double unit_rate(const Spectrum& spectrum, Loss loss) {
  const double largest = spectrum.largest();
  return largest > 0 ? 1 / (gradient_factor(loss, spectrum.size()) * largest) : 1;
}

}  // namespace cdt::dynamics
