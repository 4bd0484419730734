// The local model's validity: trajectories with known constants, a network of one parameter worked
// out by hand, and recorded trials of real training.
#include <cdt/analysis/validity.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/bounds.h>
#include <cdt/dynamics/simulation.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/path.h>
#include <cdt/nn/mlp.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/plants.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using analysis::assess_trial;
using analysis::lipschitz_estimate;
using analysis::Trial;
using torch::Tensor;

using test::kDouble;

TEST(Lipschitz, IsThatOfALinearMapFromBelow) {
  for (uint64_t seed : {1, 2, 3}) {
    for (double rate : {0.1, 0.3, 0.9}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " rate " << rate);
      const Tensor theta = test::random_kernel(5, 15, 2.0, seed);
      const Tensor e = torch::randn({5}, kDouble);
      const Tensor S = dynamics::step_matrix(theta, rate);
      const auto run = dynamics::simulate(S, e, 25);
      const double truth = torch::linalg_matrix_norm(torch::eye(5, kDouble) - S, 2).item<double>();
      const double estimate = lipschitz_estimate(run.errors);
      EXPECT_LE(estimate, truth * (1 + 1e-9));
      EXPECT_GE(estimate, 0.8 * truth);
    }
  }
  // The best pair, by hand: 1 → 3 → 9.
  EXPECT_NEAR(lipschitz_estimate(torch::tensor({{1.0}, {3.0}, {9.0}}, kDouble)), 3, 1e-12);
  // A divergence does not hide its own beginning.
  EXPECT_NEAR(lipschitz_estimate(torch::tensor({{1.0}, {2.0}, {9.0}, {1e20}}, kDouble)), 1e20 / 7,
              1e10);
  EXPECT_EQ(lipschitz_estimate(torch::ones({5, 3}, kDouble)), 0);
  EXPECT_EQ(lipschitz_estimate(torch::rand({2, 3}, kDouble)), 0);
  EXPECT_THROW(lipschitz_estimate(torch::full({5, 3}, NAN, kDouble)), InvalidArgument);
  EXPECT_THROW(lipschitz_estimate(torch::ones({5}, kDouble)), InvalidArgument);
}

TEST(ValidityBound, IsViolatedBeyondItsSlack) {
  analysis::ValidityBound bound{8, 8};
  EXPECT_FALSE(bound.violated(8, 0));
  bound.advance(0.5);
  EXPECT_FALSE(bound.violated(3.9, 0.05));
  EXPECT_FALSE(bound.violated(4, 0));
  bound.advance(0.5);
  EXPECT_NEAR(bound.distance, 2, 1e-12);
  EXPECT_TRUE(bound.violated(1.9, 0.25));
  EXPECT_TRUE(bound.violated(NAN, 0));
}

// ŷ = θ + ½hθ² at θ₀ = 0: J₀ = 1, the Lagrange bound is exact, and the local training θ⁺ = θ − α(θ
// − y) is solved by θ(k) = y(1 − κᵏ). For y < 0 both errors point the same way: the bound with the
// Lagrange term added is attained, the printed difference is exceeded at every step.
TEST(GlobalBound, HoldsWithTheTermAddedAndFailsAsPrinted) {
  const double h = 0.7, y = -0.6, kappa = 0.8;
  for (int k = 1; k <= 40; ++k) {
    const double theta = y * (1 - std::pow(kappa, k));
    const double distance = std::abs(theta + 0.5 * h * theta * theta - y);
    const double lagrange = dynamics::lagrange_bound(h, std::abs(theta));
    EXPECT_NEAR(distance, dynamics::global_bound(1, kappa, k, std::abs(y), lagrange), 1e-12);
    EXPECT_GT(distance, dynamics::global_bound(1, kappa, k, std::abs(y), 0) - lagrange);
  }
}

/// Trains a tanh network and records what a trial needs.
Trial record(int64_t width, double rate_share, bool controlled, int64_t steps, uint64_t seed) {
  torch::manual_seed(seed);
  const int64_t n = 8;
  const Tensor x = torch::randn({n, 3}, kDouble);
  const Tensor y = torch::randn({n}, kDouble);
  nn::MlpOptions shape;
  shape.inputs = 3;
  shape.hidden = {width};
  shape.activation = nn::Activation::kTanh;
  shape.parametrization = nn::Parametrization::kNtk;
  nn::Mlp net(shape, seed, torch::kFloat64);
  const kernel::Model model(net);
  const auto ntk = kernel::empirical_ntk(model, x);
  const auto spectrum = dynamics::decompose(ntk.theta, tol::rank_of_computed(n, torch::kFloat64));
  const double rate = rate_share / spectrum.largest();
  const auto controller = test::lqr_of(spectrum, rate);
  kernel::PathOptions options;
  options.steps = steps;
  const auto path = kernel::record_path(
      model, x, rate,
      [&](const Tensor& outputs) {
        const Tensor e = outputs - y;
        return controlled ? controller.steer(e) : e;
      },
      options);
  Trial trial;
  trial.controlled = controlled;
  trial.outputs = path.outputs;
  trial.local_outputs = path.local_outputs;
  trial.displacements = path.displacements;
  trial.target = y;
  trial.hessian_norm = path.curvature.norm;
  trial.kappa = controlled ? controller.closed_loop_radius()
                           : (1 - rate * spectrum.values).abs().max().item<double>();
  return trial;
}

TEST(Trial, RealTrainingStaysWithinTheLagrangeBound) {
  for (uint64_t seed : {1, 2, 3}) {
    for (const bool controlled : {false, true}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " controlled " << controlled);
      const auto trial = record(400, 0.5, controlled, 20, seed);
      const auto found = assess_trial(trial);
      EXPECT_EQ(found.steps, 20);
      EXPECT_FALSE(found.diverged);
      EXPECT_EQ(found.controlled, controlled);
      EXPECT_GT(found.linearization_error, 0);
      EXPECT_LE(found.linearization_error, found.lagrange_bound);
      EXPECT_LT(found.relative_error, 0.1);
      EXPECT_NEAR(found.linearization_error,
                  (trial.outputs[20] - trial.local_outputs[20]).norm().item<double>(), 1e-12);
      EXPECT_EQ(found.lipschitz_local, trial.kappa);
      EXPECT_GT(found.lipschitz, 0.3);
      EXPECT_LT(found.lipschitz, 1.1);
    }
  }
  // A narrow network bends more.
  EXPECT_GT(assess_trial(record(6, 0.5, true, 20, 1)).relative_error,
            assess_trial(record(400, 0.5, true, 20, 1)).relative_error);
}

TEST(Trial, ReportsKcAndDivergence) {
  Trial trial;
  trial.target = torch::zeros({2}, kDouble);
  trial.kappa = 0.5;
  trial.hessian_norm = 2;
  trial.local_outputs = torch::tensor({{8.0, 0.0}, {4.0, 0.0}, {2.0, 0.0}, {1.0, 0.0}}, kDouble);
  trial.outputs = trial.local_outputs.clone();
  trial.displacements = torch::zeros({4}, kDouble);
  EXPECT_FALSE(assess_trial(trial).kc.has_value());  // the bound is met exactly
  EXPECT_EQ(assess_trial(trial).linearization_error, 0);
  trial.displacements = torch::tensor({0.0, 0.0, 0.5, 0.7}, kDouble);
  EXPECT_EQ(assess_trial(trial).kc, 2);
  EXPECT_NEAR(assess_trial(trial).lagrange_bound, 0.49, 1e-12);
  trial.displacements.zero_();
  trial.outputs[3].fill_(INFINITY);
  const auto found = assess_trial(trial);
  EXPECT_TRUE(found.diverged);
  EXPECT_EQ(found.steps, 2);
  EXPECT_EQ(found.kc, 3);
  // Parameters that overflow behind a tanh leave finite outputs.
  trial.outputs = trial.local_outputs.clone();
  trial.displacements = torch::tensor({0.0, 0.5, double{INFINITY}, double{NAN}}, kDouble);
  EXPECT_TRUE(assess_trial(trial).diverged);
  EXPECT_EQ(assess_trial(trial).steps, 1);
  trial.displacements.zero_();
  trial.outputs[0].fill_(NAN);
  EXPECT_THROW(assess_trial(trial), InvalidArgument);
  trial.outputs = trial.local_outputs.narrow(0, 0, 1);
  EXPECT_THROW(assess_trial(trial), InvalidArgument);
  trial.outputs = trial.local_outputs;
  trial.target = torch::zeros({3}, kDouble);
  EXPECT_THROW(assess_trial(trial), InvalidArgument);
}

}  // namespace
}  // namespace cdt
