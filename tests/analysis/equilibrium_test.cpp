// The four equilibria on systems made by hand; boundedness under other losses by simulation.
#include <cdt/analysis/parts/equilibrium.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/loss_linearization.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/modes.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using analysis::classify_equilibrium;
using analysis::lyapunov_lr_max;
using loss::LossPtr;
using torch::Tensor;
using Kind = analysis::Equilibrium::Kind;

using test::kDouble;
using test::spectrum_of;

TEST(Equilibrium, NamesTheCase) {
  torch::manual_seed(1);
  Tensor J = torch::randn({4, 9}, kDouble);
  J[3].copy_(J[1]);  // samples 1 and 3 are the same to the network
  const Tensor theta = J.mm(J.t());
  const auto spectrum = spectrum_of(theta);
  const Tensor g = torch::tensor({0.5, -0.2, 0.3, 0.1}, kDouble);
  const Tensor torn = torch::tensor({0.0, 1.0, 0.0, -1.0}, kDouble);  // pulled both ways

  const auto moving = classify_equilibrium(spectrum, g, 0.1, 1.0, 1);
  EXPECT_EQ(moving.kind, Kind::kNone);
  EXPECT_NEAR(moving.movement, 0.1 * theta.mv(g).norm().item<double>(), 1e-12);

  EXPECT_EQ(classify_equilibrium(spectrum, 1e-8 * g, 0.1, 1.0, 1).kind, Kind::kLossMinimum);
  EXPECT_EQ(classify_equilibrium(spectrum, 1e-8 * g, 0.1, 1e-8, 1).kind,
            Kind::kNone);  // all is small
  EXPECT_EQ(classify_equilibrium(spectrum, 0 * g, 0.0, 1.0, 1).kind, Kind::kLossMinimum);
  EXPECT_EQ(classify_equilibrium(spectrum, g, 0.0, 1.0, 1).kind, Kind::kFrozen);
  EXPECT_EQ(classify_equilibrium(spectrum_of(torch::zeros({4, 4}, kDouble)), g, 0.1, 1.0, 1).kind,
            Kind::kNullKernel);

  const auto stuck = classify_equilibrium(spectrum, torn, 0.1, 1.0, 1);
  EXPECT_EQ(stuck.kind, Kind::kNullSpace);
  EXPECT_EQ(stuck.rows, (std::vector<int64_t>{1, 3}));
  EXPECT_LE(stuck.movement, 1e-12);
  EXPECT_EQ(classify_equilibrium(spectrum, torn, 0.1, 1.0, 2).rows,
            (std::vector<int64_t>{0, 1}));  // two outputs a sample
  // A slow mode is slow, not stuck.
  const auto slow = spectrum_of(test::kernel_with({1e-9, 1, 2, 3}, 3));
  EXPECT_EQ(classify_equilibrium(slow, slow.vectors.select(1, 0), 0.1, 1.0, 1).kind, Kind::kNone);
  EXPECT_EQ(to_string(Kind::kNullSpace), "null-space");
  EXPECT_THROW(classify_equilibrium(spectrum, g.narrow(0, 0, 3), 0.1, 1.0, 1), InvalidArgument);
  EXPECT_THROW(classify_equilibrium(spectrum, g * NAN, 0.1, 1.0, 1), InvalidArgument);
  EXPECT_THROW(classify_equilibrium(spectrum, g, -0.1, 1.0, 1), InvalidArgument);
  EXPECT_THROW(classify_equilibrium(spectrum, g, 0.1, 1.0, 3), InvalidArgument);
}

TEST(Boundedness, AbsoluteErrorsSettleWithinTheRadius) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int64_t n = 6;
    const Tensor theta = test::random_kernel(n, 12, 3.0, seed);
    const double rate = 0.5;
    const double radius = analysis::mae_radius(theta, rate);
    Tensor e = 5 * torch::randn({n}, kDouble);
    const double V = torch::dot(e, torch::linalg_solve(theta, e)).item<double>();
    constexpr int kSteps = 4000;
    double sum = 0;
    for (int k = 0; k < kSteps; ++k) {
      sum += e.abs().mean().item<double>();
      const Tensor next = e - rate / n * theta.mv(e.sign());
      EXPECT_LE((next - e).abs().max().item<double>(), radius * (1 + 1e-12));
      e = next;
      if (k > 3 * kSteps / 4) {  // observed, not proved
        EXPECT_LE(e.abs().max().item<double>(), radius);
      }
    }
    // The mean over time, with what the start adds to it.
    EXPECT_LE(sum / kSteps, 0.5 * radius + V / (2 * rate * kSteps));
  }
  // In one dimension the ball is exact: the last steps jump over the label.
  double e = 0.37;
  const Tensor one = torch::full({1, 1}, 2.0, kDouble);
  for (int k = 0; k < 100; ++k) e -= 0.1 * 2.0 * (e > 0 ? 1 : -1);
  EXPECT_LE(std::abs(e), analysis::mae_radius(one, 0.1));
  EXPECT_NEAR(analysis::mae_radius(one, 0.1), 0.2, 1e-15);
  EXPECT_THROW(analysis::mae_radius(one, -1), InvalidArgument);
}

TEST(Boundedness, LyapunovRateIsWhereTheErrorStopsFalling) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const auto& loss : {loss::mse(), loss::cross_entropy(), loss::negative_log()}) {
      SCOPED_TRACE(to_string(loss) + c10::str(" seed ", seed));
      torch::manual_seed(seed);
      const int64_t r = 3, C = 3;
      const Tensor theta = test::random_kernel(r * C, 20, 2.0, seed);
      const Tensor y = torch::softmax(torch::randn({r, C}, kDouble), 1);
      Tensor outputs = torch::softmax(torch::randn({r, C}, kDouble), 1);
      Tensor equilibrium = y;
      if (loss->classes()) {
        outputs = torch::randn({r, C}, kDouble);
        outputs = outputs - outputs.mean(1, true);
        equilibrium = y.log() - y.log().mean(1, true);
      }
      const Tensor e = (outputs - equilibrium).reshape({-1});
      const Tensor g = dynamics::loss_gradient(loss, outputs, y).reshape({-1});
      const double limit = lyapunov_lr_max(theta, g, e);
      const auto distance = [&](double rate) {
        return (e - rate * theta.mv(g)).square().sum().item<double>();
      };
      const double now = e.square().sum().item<double>();
      if (limit > 0) {
        EXPECT_LT(distance(0.999 * limit), now);
        EXPECT_GT(distance(1.001 * limit), now);
      } else {
        EXPECT_GE(distance(1e-3), now);
      }
      if (loss == loss::mse()) {
        EXPECT_GE(limit, 2 / (2.0 / 9 * 2.0) * (1 - 1e-12));
      }
    }
  }
  const Tensor I = torch::eye(2, kDouble);
  EXPECT_EQ(lyapunov_lr_max(I, torch::zeros({2}, kDouble), torch::ones({2}, kDouble)), 0);
  EXPECT_THROW(lyapunov_lr_max(I, torch::ones({3}, kDouble), torch::ones({2}, kDouble)),
               InvalidArgument);
}

// The paper's V = ŷᵀŷ with the loss −yᵀlog ŷ: expanded, its difference is α²‖d‖² + 2αŷᵀd with d =
// Θ(y/ŷ), positive for a positive kernel at every rate. The printed form, with −2α, is negative for
// small rates and would promise a decrease.
TEST(Boundedness, ThePrintedLyapunovDifferenceHasTheWrongSign) {
  torch::manual_seed(3);
  const Tensor theta = torch::rand({4, 4}, kDouble);
  const Tensor positive = theta.mm(theta.t());
  const Tensor y = torch::rand({4}, kDouble), y_hat = 0.1 + torch::rand({4}, kDouble);
  const Tensor d = positive.mv(y / y_hat);
  const double rate = 1e-3;
  const double change = ((y_hat + rate * d).square().sum() - y_hat.square().sum()).item<double>();
  const double square = (rate * rate * d.square().sum()).item<double>();
  const double cross = 2 * rate * torch::dot(y_hat, d).item<double>();
  EXPECT_NEAR(change, square + cross, 1e-14);
  EXPECT_GT(change, 0);
  EXPECT_LT(square - cross, 0);
}

}  // namespace
}  // namespace cdt
