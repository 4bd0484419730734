// Losses against autograd, the spectrum's rank, and simulated against closed-form dynamics.
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/modes.h>
#include <cdt/dynamics/simulation.h>
#include <cdt/loss/loss.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using loss::LossPtr;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;

TEST(Loss, FactorsAreThoseOfTheGradient) {
  torch::manual_seed(1);
  const Tensor y = torch::randn({5, 3}, kDouble);
  const Tensor y_hat = torch::randn({5, 3}, kDouble).requires_grad_();
  const Tensor e = (y_hat - y).detach();
  const std::vector<std::pair<LossPtr, Tensor>> cases{
      {loss::sse(), 0.5 * (y_hat - y).square().sum()},
      {loss::half_mse(), 0.5 * (y_hat - y).square().mean()},
      {loss::mse(), torch::mse_loss(y_hat, y)},
  };
  for (const auto& [loss, value] : cases) {
    SCOPED_TRACE(to_string(loss));
    EXPECT_NEAR(loss_value(loss, e), value.item<double>(), 1e-13);
    const Tensor gradient = torch::autograd::grad({value}, {y_hat})[0];
    EXPECT_LE(relative_error(gradient_factor(loss, 15) * e, gradient), 1e-13);
    EXPECT_EQ(loss::parse(to_string(loss)), loss);
  }
  EXPECT_THROW(loss::parse("MSE"), InvalidArgument);
  EXPECT_THROW(gradient_factor(loss::mse(), 0), InvalidArgument);
  EXPECT_EQ(loss::step_scale(0.5, loss::mse(), 4), 0.25);
  EXPECT_THROW(loss::step_scale(-0.5, loss::mse(), 4), InvalidArgument);
  for (const LossPtr& loss : {loss::mae(), loss::cross_entropy(), loss::negative_log()}) {
    EXPECT_FALSE(loss->quadratic());
    EXPECT_THAT([&] { gradient_factor(loss, 4); },
                ThrowsMessage<InvalidArgument>(HasSubstr("got " + to_string(loss))));
    EXPECT_THROW(loss_value(loss, e), InvalidArgument);
  }
  EXPECT_THROW(loss_value(loss::mse(), e * NAN), InvalidArgument);
}

TEST(Spectrum, FindsRankAndCleansTheNullSpace) {
  const Tensor theta = test::random_kernel(12, 7, 3.0, 2);
  const auto spectrum = dynamics::decompose(theta, tol::rank_of_stored(12, torch::kFloat64));
  EXPECT_EQ(spectrum.rank, 7);
  EXPECT_EQ(spectrum.nullity(), 5);
  EXPECT_EQ(spectrum.values.narrow(0, 0, 5).abs().max().item<double>(), 0);
  EXPECT_NEAR(spectrum.largest(), 3.0, 1e-12);
  EXPECT_LE(theta.mm(spectrum.null_vectors()).norm().item<double>(), 1e-12);
  const Tensor rebuilt = (spectrum.reachable_vectors() * spectrum.reachable_values())
                             .mm(spectrum.reachable_vectors().t());
  EXPECT_LE(relative_error(rebuilt, theta), 1e-13);
  // A kernel that was stored in float32 is neither symmetric nor definite to more than that.
  const Tensor stored =
      (theta + 1e-7 * torch::randn({12, 12}, kDouble)).to(torch::kFloat32).to(torch::kFloat64);
  EXPECT_THROW(dynamics::decompose(stored, tol::rank_of_stored(12, torch::kFloat64)),
               InvalidArgument);
  EXPECT_EQ(
      dynamics::decompose(stored, tol::rank_of_stored(12, torch::kFloat32), torch::kFloat32).rank,
      7);
}

TEST(LocalModel, SimulatesTheClosedForm) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Tensor theta = test::random_kernel(6, 12, 2.0, seed);
    const Tensor S =
        dynamics::step_matrix(theta, loss::step_scale(0.3, loss::half_mse(), theta.size(0)));
    EXPECT_LE(relative_error(S, theta * 0.05), 1e-14);
    const Tensor e = torch::randn({6}, kDouble);
    const Tensor K = 0.3 * torch::randn({6, 6}, kDouble);
    const Tensor I = torch::eye(6, kDouble);
    const auto descent = dynamics::simulate(S, e, 9);
    EXPECT_LE(relative_error(descent.errors[9], torch::matrix_power(I - S, 9).mv(e)),
              test::tol::kDynamics);
    EXPECT_EQ(descent.augments.abs().max().item<double>(), 0);
    const auto controlled = dynamics::simulate(S, e, 9, K);
    EXPECT_LE(relative_error(controlled.errors[9], torch::matrix_power(I - S.mm(I + K), 9).mv(e)),
              test::tol::kDynamics);
    EXPECT_LE(relative_error(controlled.augments[4], -K.mv(controlled.errors[4])),
              test::tol::kDynamics);
    EXPECT_LE(relative_error(dynamics::simulate_augments(S, e, controlled.augments).errors,
                             controlled.errors),
              test::tol::kDynamics);
  }
}

TEST(LocalModel, RefusesBadInput) {
  const Tensor S = torch::eye(3, kDouble);
  const Tensor e = torch::ones({3}, kDouble);
  EXPECT_THROW(dynamics::simulate(S, torch::ones({2}, kDouble), 3), InvalidArgument);
  EXPECT_THROW(dynamics::simulate(S, e * NAN, 3), InvalidArgument);
  EXPECT_THROW(dynamics::simulate(S, e, -1), InvalidArgument);
  EXPECT_THROW(dynamics::simulate(Tensor(), e, 3, S), InvalidArgument);
  EXPECT_THROW(
      dynamics::simulate_augments(torch::ones({}, kDouble), e, torch::ones({4, 3}, kDouble)),
      InvalidArgument);
  EXPECT_THROW(dynamics::decompose(S, 2.0), InvalidArgument);
  EXPECT_THROW(dynamics::decompose(S, -1e-3), InvalidArgument);
  EXPECT_THROW(dynamics::simulate(S, e, 3, torch::eye(2, kDouble)), InvalidArgument);
  EXPECT_THROW(dynamics::simulate(S * 1e30, e, 100), NumericalError);
  EXPECT_THROW(dynamics::step_matrix(S, -0.1), InvalidArgument);
  EXPECT_THROW(dynamics::simulate_augments(S, e, torch::ones({4, 2}, kDouble)), InvalidArgument);
}

}  // namespace
}  // namespace cdt
