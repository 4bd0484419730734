// Gain margins and rates against dense eigenvalues.
#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/modes.h"
#include "support/plants.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using torch::Tensor;

using test::kDouble;
using test::spectrum_of;

TEST(GainMargin, IsWhereTheScaledAugmentsLoseStability) {
  for (double rate : {0.02, 0.3, 0.6, 1.0, 20.0}) {
    for (double rho : {0.01, 0.1, 10.0}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << " rho " << rho);
      const Tensor theta = test::random_kernel(6, 18, 3.0, 5);
      const auto plant = control::Plant::of_modes(spectrum_of(theta), {.rate = rate});
      const control::ModalController controller(plant, control::lqr(1, rho));
      const auto found = controller.certificate();
      const control::Known& margin = found.gain_margin;
      const Tensor S = rate * theta;
      const Tensor A = torch::eye(6, kDouble) - S;
      const Tensor K = controller.gain_matrix();
      const auto radius = [&](double delta) {
        return torch::linalg_eigvals(A - delta * S.mm(K)).abs().max().item<double>();
      };
      const double width = 1e-3 * (margin.upper - margin.lower);
      EXPECT_LT(radius(margin.upper - width), 1);
      EXPECT_GT(radius(margin.upper + width), 1);
      EXPECT_LT(radius(margin.lower + width), 1);
      EXPECT_GT(radius(margin.lower - width), 1);
      // What the theory guarantees lies inside, around 1.
      EXPECT_LE(margin.lower, found.guaranteed_margin.lower);
      EXPECT_GE(margin.upper, found.guaranteed_margin.upper);
      EXPECT_LT(found.guaranteed_margin.lower, 1);
      EXPECT_GT(found.guaranteed_margin.upper, 1);
    }
  }
}

// The general statement: |1 + L(z)|² ≥ ρ/(ρ + s²P) on the unit circle, by sampling it.
TEST(GainMargin, TheReturnDifferenceIsAsLargeAsPromised) {
  for (double s : {0.01, 0.5, 1.5, 3.0, 50.0}) {
    SCOPED_TRACE(testing::Message() << "s " << s);
    const Tensor one = torch::ones({1}, kDouble);
    const auto law = control::lqr(1, 0.1);
    const double k = law.augments(s * one).item<double>();
    const double promise = 0.1 / (0.1 + s * law.cost(s * one).item<double>());
    double least = INFINITY;
    for (int i = 0; i < 1000; ++i) {
      const auto z = std::polar(1.0, 2 * M_PI * (i + 0.5) / 1000);
      least = std::min(least, std::norm(1.0 + k * s / (z - (1 - s))));
    }
    EXPECT_GE(least, promise * (1 - 1e-12));
  }
}

TEST(RateTable, ScalesTheSpectrum) {
  const Tensor theta = test::random_kernel(5, 15, 4.0, 7);
  const auto spectrum = spectrum_of(theta);
  const auto rows = analysis::rate_table(spectrum, 1.0, {0.01, 0.2, 0.3, 0.6, 10.0});
  ASSERT_EQ(rows.size(), 5u);
  for (const auto& row : rows) {
    SCOPED_TRACE(testing::Message() << "rate " << row.learning_rate);
    const Tensor A = torch::eye(5, kDouble) - row.learning_rate * theta;
    const double radius = torch::linalg_eigvals(A).abs().max().item<double>();
    EXPECT_NEAR(row.radius_gd, radius, 1e-12);
    EXPECT_EQ(row.stable, radius <= 1);
    EXPECT_EQ(row.strictly_contracting, row.learning_rate * 4 < 1);
    EXPECT_NEAR(row.margin_gd, 0.5 / row.learning_rate, 1e-9);
    EXPECT_LT(row.radius_cdt, 1);
    EXPECT_LE(row.radius_cdt, row.radius_gd);
    EXPECT_GT(row.margin_cdt, 1);
  }
  EXPECT_THROW(analysis::rate_table(spectrum, 1.0, {0.1, 0.0}), InvalidArgument);
}

}  // namespace
}  // namespace cdt
