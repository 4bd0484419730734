// Factors of a kernel with a multiple of the identity, beside eigenvalues and torch's own solver.
#include <cdt/control/apply/shifted_factor.h>
#include <gtest/gtest.h>

#include "support/compare.h"

namespace cdt::control {
namespace {

using test::kDouble;
using torch::Tensor;

TEST(ShiftedFactor, SolvesAtEachShift) {
  const Tensor K = test::random_kernel(20, 12, 4, 7);
  ShiftedFactor factor(K);
  const Tensor b = torch::randn({20}, kDouble);
  const Tensor one = torch::eye(20, kDouble);
  for (const double shift : {1.0, 1e-3, 1e-3, 50.0}) {
    const Tensor wanted = torch::linalg_solve(K + shift * one, b, true);
    EXPECT_LE(test::relative_error(factor.solve(b, shift), wanted), 1e-9) << shift;
    const Tensor L = factor.lower(shift);
    EXPECT_LE(test::relative_error(L.mm(L.t()), K + shift * one), 1e-12);
    EXPECT_TRUE(torch::equal(L, L.tril()));
  }
  EXPECT_TRUE(torch::equal(factor.matrix(), K)) << "the diagonal is as it was";
}

TEST(ShiftedFactor, CountsEffectiveParameters) {
  const Tensor K = test::kernel_with({0, 0.01, 0.5, 2, 30}, 3);
  ShiftedFactor factor(K);
  const double shift = 0.3;
  double wanted = 0;
  for (const double each : {0.0, 0.01, 0.5, 2.0, 30.0}) wanted += each / (each + shift);
  EXPECT_NEAR(factor.freedom(shift), wanted, 1e-9);
  // Beyond 500 rows by probes.
  const Tensor wide = torch::diag(torch::linspace(0, 4, 600, kDouble));
  const Tensor values = torch::linspace(0, 4, 600, kDouble);
  const double exact = (values / (values + shift)).sum().item<double>();
  EXPECT_NEAR(ShiftedFactor(wide).freedom(shift), exact, 0.1 * exact);
}

TEST(ShiftedFactor, HasNoneWhereTheMatrixIsIndefinite) {
  ShiftedFactor factor(test::kernel_with({-2, 1, 3}, 3));
  EXPECT_FALSE(factor.solve(torch::ones({3}, kDouble), 1).defined());
  EXPECT_FALSE(factor.lower(1).defined());
  EXPECT_TRUE(std::isnan(factor.freedom(1)));
  EXPECT_TRUE(factor.solve(torch::ones({3}, kDouble), 2.5).defined());
}

}  // namespace
}  // namespace cdt::control
