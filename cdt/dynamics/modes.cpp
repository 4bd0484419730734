#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/modes.h>

namespace cdt::dynamics {

Modes decompose(const torch::Tensor& theta, double rank_tolerance, torch::ScalarType precision) {
  require_kernel(theta);
  require_symmetric(theta, "kernel", tol::symmetry(precision));
  require_non_negative(rank_tolerance, "rank_tolerance");
  CDT_REQUIRE(rank_tolerance < 1, "rank_tolerance must be below 1, got ", rank_tolerance);
  Modes modes;
  const torch::Tensor matrix = theta.detach();
  std::tie(modes.values, modes.vectors) =
      decompose_aside(matrix, [matrix] { return torch::linalg_eigh(matrix); });
  const auto values = modes.values.to(torch::kCPU);
  const int64_t n = values.size(0);
  const double* lambda = values.data_ptr<double>();
  const double largest = lambda[n - 1];
  const double cut = rank_tolerance * std::max(largest, 0.0);
  modes.rank_tolerance = rank_tolerance;
  modes.smallest = lambda[0];
  CDT_REQUIRE(modes.smallest >= -cut,
              "kernel must be positive semidefinite; its smallest eigenvalue is ", modes.smallest,
              ", its largest ", largest);
  int64_t nullity = 0;
  while (nullity < n && lambda[nullity] <= cut) ++nullity;
  modes.rank = n - nullity;
  modes.values.narrow(0, 0, nullity).zero_();
  return modes;
}

void require_complete(const Modes& modes, std::string_view who) {
  CDT_REQUIRE(modes.complete(), who, " needs all ", modes.size(),
              " modes of the kernel (dynamics::decompose), not the leading ", modes.count());
}

double unit_rate(const Modes& modes, double gradient_factor) {
  require_positive(gradient_factor, "gradient_factor");
  const double largest = modes.upper_bound();
  return largest > 0 ? 1 / (gradient_factor * largest) : 1;
}

}  // namespace cdt::dynamics
