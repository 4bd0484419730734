// Stability criteria, rates and margins against dense eigenvalues and simulation.
#include <cdt/analysis/preflight.h>
#include <cdt/analysis/stability.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/simulation.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/modes.h"
#include "support/plants.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using analysis::assess_stability;
using loss::LossPtr;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;
using test::spectrum_of;

TEST(Stability, AgreesWithTheEigenvaluesOfTheStepMatrix) {
  for (uint64_t seed : {1, 2, 3}) {
    const Tensor theta = test::random_kernel(8, 20, 4.0, seed);
    const auto spectrum = spectrum_of(theta);
    for (double rate : {0.01, 0.2, 0.3, 0.49, 0.51, 2.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " rate " << rate);
      const auto stability = assess_stability(spectrum, rate);
      const Tensor A = torch::eye(8, kDouble) - rate * theta;
      const double radius = torch::linalg_eigvals(A).abs().max().item<double>();
      EXPECT_TRUE(stability.kappa.exact());
      EXPECT_NEAR(stability.kappa.value, radius, 1e-12);
      EXPECT_EQ(stability.stable, radius <= 1);
      EXPECT_EQ(stability.exponential, radius < 1);
      EXPECT_EQ(stability.strictly_contracting, rate * 4.0 < 1);
      EXPECT_TRUE(stability.margin.exact());
      EXPECT_NEAR(stability.margin.value * rate, 0.5, 1e-12);
      // The bound of eq. LinearizedExpBoundedness holds along a trajectory.
      const Tensor e = torch::randn({8}, kDouble);
      const auto run = dynamics::simulate(dynamics::step_matrix(theta, rate), e, 30);
      for (int k = 0; k <= 30; ++k) {
        EXPECT_LE(run.errors[k].norm().item<double>(), stability.gamma *
                                                           std::pow(stability.kappa.upper, k) *
                                                           e.norm().item<double>() * (1 + 1e-12));
      }
    }
  }
}

TEST(Stability, BordersCount) {
  const auto spectrum = spectrum_of(torch::diag(torch::tensor({0.25, 1.0}, kDouble)));
  EXPECT_FALSE(assess_stability(spectrum, 1.0).strictly_contracting);
  EXPECT_TRUE(assess_stability(spectrum, 2.0).stable);
  EXPECT_FALSE(assess_stability(spectrum, 2.0).exponential);
}

TEST(Stability, UsesTheLossFactor) {
  const auto spectrum = spectrum_of(test::kernel_with({1, 2, 5, 10}, 1));
  const Tensor theta = test::kernel_with({1, 2, 5, 10}, 1);
  for (const auto& [loss, lr_max] :
       {std::pair{loss::sse(), 0.2}, {loss::half_mse(), 0.8}, {loss::mse(), 0.4}}) {
    analysis::PreflightOptions options;
    options.loss = loss;
    options.outputs_per_sample = 1;
    const auto found = analysis::analyze(theta, spectrum, options);
    EXPECT_NEAR(found.rates.stable.value, lr_max, 1e-12);
    EXPECT_NEAR(found.rates.monotone.value, lr_max / 2, 1e-12);
    EXPECT_NEAR(found.stability.kappa.value, 1 - 0.1 * (0.2 / lr_max), 1e-12);
  }
  analysis::PreflightOptions options;
  options.loss = loss::mae();
  EXPECT_THAT(
      [&] { analysis::analyze(theta, spectrum, options); },
      ThrowsMessage<InvalidArgument>(HasSubstr("quadratic loss (sse, half-mse or mse), got mae")));
}

TEST(Stability, NullDirectionsNeitherGrowNorShrink) {
  const auto spectrum = spectrum_of(test::kernel_with({0, 0, 1, 2}, 2));
  const auto stability = assess_stability(spectrum, 0.4);
  EXPECT_TRUE(stability.stable);
  EXPECT_TRUE(stability.exponential);  // on the reachable subspace
  EXPECT_NEAR(stability.kappa.value, 0.6, 1e-12);
  const auto frozen = assess_stability(spectrum_of(torch::zeros({3, 3}, kDouble)), 0.4);
  EXPECT_TRUE(frozen.stable);
  EXPECT_FALSE(frozen.exponential);
  EXPECT_EQ(frozen.kappa.value, 1);
  EXPECT_TRUE(std::isinf(frozen.margin.value));
  EXPECT_FALSE(assess_stability(spectrum, 0.0).exponential);
  EXPECT_THROW(assess_stability(spectrum, -1), InvalidArgument);
  EXPECT_THROW(assess_stability(spectrum, NAN), InvalidArgument);
}

TEST(Margins, AreWhereTheLoopLosesStability) {
  for (double rate : {0.05, 0.3, 1.0, 20.0}) {
    SCOPED_TRACE(testing::Message() << "rate " << rate);
    const Tensor theta = test::random_kernel(7, 20, 3.0, 5);
    analysis::PreflightOptions options;
    options.learning_rate = rate;
    options.loss = loss::sse();
    options.outputs_per_sample = 1;
    const auto found = analysis::analyze(theta, spectrum_of(theta), options);
    const double gd = found.stability.margin.value, cdt = found.controller.kernel_margin.value;
    const Tensor I = torch::eye(7, kDouble);
    const auto radius = [&](double factor, const Tensor& G) {
      return torch::linalg_eigvals(I - factor * rate * theta.mm(G)).abs().max().item<double>();
    };
    const Tensor G = analysis::usual_controller(found).matrix();
    EXPECT_LT(radius(cdt * 0.999, G), 1);
    EXPECT_GT(radius(cdt * 1.001, G), 1);
    EXPECT_LT(radius(gd * 0.999, I), 1);
    EXPECT_GT(radius(gd * 1.001, I), 1);
    EXPECT_GT(cdt, 1);
    EXPECT_NEAR(analysis::kernel_margin(*found.plant, G) / cdt, 1, 1e-9);
    EXPECT_NEAR(analysis::kernel_margin(*found.plant, I) / gd, 1, 1e-9);
  }
}

TEST(Margins, OfAnyGainAreWhereTheLoopLosesStability) {
  for (double rate : {0.05, 0.3, 1.0, 20.0}) {
    for (uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << " seed " << seed);
      const Tensor theta = test::random_kernel(7, 20, 3.0, seed);
      const Tensor root = torch::randn({7, 7}, kDouble);
      const auto plant = control::Plant::of_modes(spectrum_of(theta), {.rate = rate});
      const auto controller = control::design(
          plant, {.Q = root.mm(root.t()), .R = torch::diag(torch::rand({7}, kDouble) + 0.05)});
      const Tensor G = controller->matrix();
      const double margin = analysis::kernel_margin(plant, G);
      const auto radius = [&](double factor) {
        const Tensor loop = torch::eye(7, kDouble) - factor * rate * theta.mm(G);
        return torch::linalg_eigvals(loop).abs().max().item<double>();
      };
      EXPECT_LT(radius(margin * 0.999), 1);
      EXPECT_GT(radius(margin * 1.001), 1);
      EXPECT_GT(margin, 1);
    }
  }
}

}  // namespace
}  // namespace cdt
