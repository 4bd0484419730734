// The gain of weights Q and R against the closed form, dense formulas and simulation; augmented
// labels in a training loop.
#include <cdt/control/controller.h>
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

using dynamics::decompose;
using test::gain_of;
using test::lqr_of;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;
using test::spectrum_of;
using test::weighted_of;

TEST(WeightedGain, EqualsTheSpectralOneForScaledIdentities) {
  for (uint64_t seed : {1, 2, 3}) {
    for (double rate : {1e-4, 0.2, 5.0, 1e4}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " rate " << rate);
      const int64_t n = 14;
      const auto spectrum = spectrum_of(test::random_kernel(n, 3 * n, 1.0, seed));
      const auto general =
          gain_of(spectrum, rate, torch::full({n}, 2.0, kDouble), 0.3 * torch::eye(n, kDouble));
      const auto closed = lqr_of(spectrum, rate, 2.0, 0.3);
      EXPECT_LE(relative_error(general.gain, closed.gain_matrix()), 1e-9);
      EXPECT_LE(relative_error(general.steering, closed.matrix()), 1e-9);
      EXPECT_LE(relative_error(general.cost, closed.cost_matrix()), 1e-9);
      EXPECT_NEAR(general.radius, closed.closed_loop_radius(), 1e-9);
      EXPECT_LE(general.residual, test::tol::kRiccati);
    }
  }
}

TEST(WeightedGain, IsTheSameOnEveryDevice) {
  const int64_t n = 10;
  const Tensor theta = test::random_kernel(n, 3 * n, 6.0, 4);  // some modes grow by themselves
  const Tensor Q = torch::ones({n, n}, kDouble);
  const Tensor r = torch::linspace(0.1, 0.3, n, kDouble);
  const auto here = gain_of(spectrum_of(theta), 1.0, Q, r);
  const auto closed = lqr_of(spectrum_of(theta), 1.0);
  for (const auto& device : test::devices()) {
    SCOPED_TRACE(device.str());
    const auto spectrum = spectrum_of(theta.to(device));
    const auto there = gain_of(spectrum, 1.0, Q.to(device), r.to(device));
    EXPECT_LE(relative_error(there.gain.cpu(), here.gain), 1e-9);
    EXPECT_NEAR(there.radius, here.radius, 1e-8);
    const auto spectral = lqr_of(spectrum, 1.0);
    EXPECT_LE(relative_error(spectral.gain_matrix().cpu(), closed.gain_matrix()), 1e-9);
    EXPECT_LE(spectral.riccati_residual(theta.to(device)), test::tol::kRiccati);
  }
}

TEST(WeightedGain, SolvesTheEquationForFullWeights) {
  for (uint64_t seed : {1, 2, 3}) {
    for (double rate : {0.1, 1.5}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " rate " << rate);
      const int64_t n = 9;
      const Tensor theta = test::random_kernel(n, 3 * n, 2.0, seed);
      const Tensor M = torch::randn({n, n}, kDouble);
      const Tensor Q = M.mm(M.t());
      const Tensor R = 0.1 * torch::eye(n, kDouble) + 0.05 * torch::ones({n, n}, kDouble);
      const auto controller = weighted_of(spectrum_of(theta), rate, Q, R);
      const Tensor S = rate * theta;
      const Tensor I = torch::eye(n, kDouble);
      const Tensor A = I - S;
      const Tensor P = controller.cost_matrix();
      const Tensor K = torch::linalg_solve(R + S.mm(P).mm(S), S.mm(P).mm(A));
      EXPECT_LE(relative_error(controller.gain_matrix(), K), 1e-8);
      EXPECT_LE(relative_error(controller.matrix(), I + K), 1e-8);
      EXPECT_LE(relative_error(Q + A.mm(P).mm(A - S.mm(K)), P), 1e-8);
      EXPECT_NEAR(controller.closed_loop_radius(),
                  torch::linalg_eigvals(A - S.mm(K)).abs().max().item<double>(), 1e-8);
      EXPECT_LT(controller.closed_loop_radius(), 1);
      EXPECT_GT(controller.gain().iterations, 1);

      const Tensor e = torch::randn({n}, kDouble);
      const auto paid = [&](const Tensor& gain) {
        const auto run = dynamics::simulate(S, e, 3000, gain);
        return 0.5 *
               ((run.errors.mm(Q) * run.errors).sum() + (run.augments.mm(R) * run.augments).sum())
                   .item<double>();
      };
      const double cost = controller.optimal_cost(e);
      EXPECT_NEAR(paid(controller.gain_matrix()) / cost, 1, 1e-7);
      EXPECT_GT(paid(controller.gain_matrix() * 1.05), cost);
    }
  }
}

TEST(WeightedGain, WorksOnTheReachablePartWithTheFullR) {
  const int64_t n = 8;
  const Tensor theta = test::random_kernel(n, 5, 2.0, 4);
  const auto spectrum = spectrum_of(theta);
  ASSERT_EQ(spectrum.rank, 5);
  const Tensor M = torch::randn({n, n}, kDouble);
  const Tensor R = M.mm(M.t()) + 0.1 * torch::eye(n, kDouble);
  const Tensor q = torch::linspace(0.5, 4.0, n, kDouble);
  const auto controller = weighted_of(spectrum, 0.4, q, R);
  const Tensor null = spectrum.null_vectors();
  EXPECT_LE(controller.gain_matrix().mm(null).norm().item<double>(), 1e-10);
  EXPECT_LE(relative_error(controller.matrix().mm(null), null), 1e-10);
  EXPECT_TRUE(std::isinf(controller.optimal_cost(null.select(1, 0))));
  // On a reachable error no other gain does better in simulation.
  const Tensor S = 0.4 * theta;
  const Tensor e = theta.mv(torch::randn({n}, kDouble));
  const auto paid = [&](const Tensor& gain) {
    const auto run = dynamics::simulate(S, e, 3000, gain);
    return 0.5 * ((run.errors.square() * q).sum() + (run.augments.mm(R) * run.augments).sum())
                     .item<double>();
  };
  const double cost = controller.optimal_cost(e);
  EXPECT_NEAR(paid(controller.gain_matrix()) / cost, 1, 1e-7);
  torch::manual_seed(9);
  for (int k = 0; k < 5; ++k) {
    EXPECT_GT(paid(controller.gain_matrix() + 1e-3 * torch::randn({n, n}, kDouble)), cost);
  }
}

// Mode by mode: a Frobenius norm would not see a small mode that is wrong altogether.
TEST(WeightedGain, ConvergesForSmallWeightsBesideLargeOnes) {
  struct Case {
    std::vector<double> s, q;
    double rho;
  };
  for (const auto& c : {Case{{1, 1e-10}, {1, 1e-6}, 1e-6},
                        {{1e3, 1e-6}, {1, 1e-8}, 1e-9},
                        {{1e3, 1e-9}, {1, 1e-4}, 1e-5}}) {
    SCOPED_TRACE(testing::Message() << "s " << c.s[0] << ", " << c.s[1]);
    const Tensor s = torch::tensor(c.s, kDouble);
    const Tensor q = torch::tensor(c.q, kDouble);
    const Tensor rho = torch::full({2}, c.rho, kDouble);
    const auto general = gain_of(decompose(torch::diag(s), 1e-14), 1.0, q, rho);
    for (int i = 0; i < 2; ++i) {
      const auto exact = control::lqr(c.q[i], c.rho);
      const double gain = exact.augments(s)[i].item<double>();
      // 1 − s keeps the step to ε/s.
      const double tolerance = 1e-8 + 4e-16 / c.s[1];
      EXPECT_NEAR(general.gain[i][i].item<double>(), gain, tolerance * (1 + std::abs(gain)));
      EXPECT_NEAR(general.steering[i][i].item<double>() / exact.steering(s)[i].item<double>(), 1,
                  tolerance);
    }
  }
}

TEST(WeightedGain, KeepsItsPromiseAtHugeSteps) {
  const int64_t n = 20;
  std::vector<double> s;
  for (int64_t i = 0; i < n; ++i)
    s.push_back(std::pow(10.0, 8.0 * static_cast<double>(i) / (n - 1)));
  const Tensor theta = test::kernel_with(s, 3);
  const auto controller =
      gain_of(spectrum_of(theta), 1.0, torch::ones({n}, kDouble), torch::full({n}, 0.1, kDouble));
  const Tensor loop = torch::eye(n, kDouble) - theta.mm(controller.steering);
  EXPECT_NEAR(torch::linalg_eigvals(loop).abs().max().item<double>(), controller.radius, 1e-4);
}

TEST(WeightedGain, LeavesModesAloneThatAreSlowerThanRounding) {
  const Tensor theta = torch::diag(torch::tensor({1.0, 1e-13}, kDouble));
  const Tensor ones = torch::ones({2}, kDouble);
  const auto spectrum = decompose(theta, 1e-15);
  const auto controller = gain_of(spectrum, 1e-4, ones, ones);
  EXPECT_EQ(controller.rank, 1);
  EXPECT_EQ(controller.gain[1][1].item<double>(), 0);
  EXPECT_NEAR(controller.gain[0][0].item<double>(),
              lqr_of(spectrum, 1e-4, 1, 1).gain_matrix()[0][0].item<double>(), 1e-9);
  EXPECT_THAT([&] { gain_of(spectrum, 1e-12, ones, ones); },
              ThrowsMessage<InvalidArgument>(HasSubstr("Raise the learning rate")));
}

TEST(Controllers, RefuseErrorsThatDoNotFit) {
  const Tensor theta = test::random_kernel(4, 9, 1.0, 2);
  const auto spectral = lqr_of(theta, 0.5);
  const auto general =
      weighted_of(spectrum_of(theta), 0.5, torch::ones({4}, kDouble), torch::ones({4}, kDouble));
  for (const Tensor& bad :
       {torch::ones({4}), torch::ones({3}, kDouble), torch::ones({4, 1}, kDouble),
        torch::full({4}, NAN, kDouble), Tensor()}) {
    EXPECT_THROW(spectral.steer(bad), InvalidArgument);
    EXPECT_THROW(spectral.predict(bad), InvalidArgument);
    EXPECT_THROW(spectral.optimal_cost(bad), InvalidArgument);
    EXPECT_THROW(general.steer(bad), InvalidArgument);
    EXPECT_THROW(general.optimal_cost(bad), InvalidArgument);
  }
  EXPECT_THROW(spectral.riccati_residual(theta * NAN), InvalidArgument);
  EXPECT_THROW(spectral.riccati_residual(theta.to(torch::kFloat32)), InvalidArgument);
}

TEST(WeightedGain, SaysWhyItCannot) {
  const int64_t n = 4;
  const Tensor theta = torch::diag(torch::tensor({0.5, 1.0, 2.0, 4.0}, kDouble));
  const auto spectrum = spectrum_of(theta);
  const Tensor ones = torch::ones({n}, kDouble);
  const Tensor blind = torch::tensor({1.0, 1.0, 1.0, 0.0}, kDouble);
  EXPECT_THAT([&] { gain_of(spectrum, 1.0, blind, ones); },
              ThrowsMessage<NumericalError>(HasSubstr("not detectable")));
  EXPECT_NO_THROW(gain_of(spectrum, 0.1, blind,
                          ones));  // stable by itself: no weight needed
  control::RiccatiOptions hasty;
  hasty.max_iterations = 1;
  EXPECT_THAT([&] { gain_of(spectrum, 1e-3, ones, ones, hasty); },
              ThrowsMessage<NumericalError>(HasSubstr("1 iterations")));
  EXPECT_THROW(gain_of(spectrum, 0.1, ones * NAN, ones), InvalidArgument);
  EXPECT_THROW(gain_of(spectrum, 0.1, ones, ones.to(torch::kFloat32)), InvalidArgument);
  EXPECT_THROW(gain_of(spectrum, 0.0, ones, ones), InvalidArgument);
  EXPECT_THROW(gain_of(spectrum, 0.1, -ones, ones), InvalidArgument);
  EXPECT_THROW(gain_of(spectrum, 0.1, ones, 0 * ones), InvalidArgument);
  EXPECT_THROW(gain_of(spectrum, 0.1, torch::ones({3}, kDouble), ones), InvalidArgument);
  EXPECT_THROW(gain_of(spectrum_of(torch::zeros({n, n}, kDouble)), 0.1, ones, ones),
               InvalidArgument);
}

TEST(Augment, IsOneLineInATrainingLoop) {
  const int64_t samples = 6;
  const Tensor theta = test::random_kernel(2 * samples, 50, 1.0, 3);
  const auto spectral = lqr_of(theta, 0.7);
  const auto general = weighted_of(spectrum_of(theta), 0.7, torch::ones({2 * samples}, kDouble),
                                   torch::full({2 * samples}, 0.1, kDouble));
  const Tensor y_hat = torch::randn({samples, 2}, torch::TensorOptions().requires_grad(true));
  const Tensor y = torch::randn({samples, 2});
  const Tensor label = spectral.augment(y_hat, y);
  EXPECT_EQ(label.sizes(), y_hat.sizes());
  EXPECT_EQ(label.scalar_type(), torch::kFloat32);
  EXPECT_FALSE(label.requires_grad());
  const Tensor e = (y_hat - y).detach().to(torch::kFloat64).reshape({-1});
  const Tensor expected = y.to(torch::kFloat64).reshape({-1}) - spectral.gain_matrix().mv(e);
  EXPECT_LE(relative_error(label.reshape({-1}), expected), 1e-6);
  EXPECT_LE(relative_error(general.augment(y_hat, y), label), 1e-6);
  // The gradient of ½‖ŷ − ȳ‖² is then G e.
  EXPECT_LE(relative_error((y_hat - label).reshape({-1}), spectral.steer(e)), 1e-6);
  EXPECT_TRUE(torch::equal(spectral.augment(y, y), y));  // no error, no augment

  EXPECT_THROW(spectral.augment(y_hat, y.t()), InvalidArgument);
  EXPECT_THROW(spectral.augment(y_hat.narrow(0, 0, 3), y.narrow(0, 0, 3)), InvalidArgument);
  EXPECT_THROW(spectral.augment(y_hat, y * NAN), InvalidArgument);
  EXPECT_THROW(spectral.augment(y_hat, y.to(torch::kInt64)), InvalidArgument);
}

}  // namespace
}  // namespace cdt
