// Finite horizons against brute-force minimisation and the stationary gain; detectability against
// the PBH test.
#include <cdt/control/finite_horizon.h>
#include <cdt/control/riccati.h>
#include <cdt/control/riccati/detectability.h>
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

using control::solve_finite_horizon;
using test::relative_error;
using torch::Tensor;

using test::kDouble;
using test::spectrum_of;

TEST(FiniteHorizon, MinimisesTheCostOfTheWholeSequence) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int64_t n = 4, N = 5;
    const Tensor S = 0.8 * test::random_kernel(n, 9, 3.0, seed);
    const Tensor I = torch::eye(n, kDouble);
    const Tensor A = I - S;
    const Tensor Q = test::random_kernel(n, 2, 1.0, seed + 10);  // singular
    const Tensor R = 0.2 * I + 0.1 * test::random_kernel(n, 6, 1.0, seed + 20);
    const Tensor terminal = test::random_kernel(n, 6, 2.0, seed + 30);
    const Tensor e = torch::randn({n}, kDouble);
    const auto solved = solve_finite_horizon(A, S, Q, R, terminal, N);
    ASSERT_EQ(solved.gains.size(), 5u);
    const auto cost = [&](const Tensor& inputs) {
      Tensor x = e, sum = torch::zeros({}, kDouble);
      for (int64_t k = 0; k < N; ++k) {
        sum = sum + torch::dot(x, Q.mv(x)) + torch::dot(inputs[k], R.mv(inputs[k]));
        x = A.mv(x) + S.mv(inputs[k]);
      }
      return 0.5 * (sum + torch::dot(x, terminal.mv(x)));
    };
    // The cost is quadratic in the N·n inputs: its minimum by one Newton step.
    const Tensor inputs = torch::zeros({N, n}, kDouble).requires_grad_();
    const Tensor gradient =
        torch::autograd::grad({cost(inputs)}, {inputs}, {}, true, true)[0].reshape({-1});
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < N * n; ++i) {
      rows.push_back(torch::autograd::grad({gradient[i]}, {inputs}, {}, true)[0].reshape({-1}));
    }
    const Tensor best = -torch::linalg_solve(torch::stack(rows), gradient.detach()).view({N, n});
    EXPECT_NEAR(0.5 * torch::dot(e, solved.P.mv(e)).item<double>(), cost(best).item<double>(),
                test::tol::kRiccati);
    Tensor x = e;
    for (int64_t k = 0; k < N; ++k) {
      const Tensor u = -solved.gains[k].mv(x);
      EXPECT_LE(relative_error(u, best[k]), 1e-8) << "step " << k;
      x = A.mv(x) + S.mv(u);
    }
  }
}

TEST(FiniteHorizon, TendsToTheStationaryGain) {
  const int64_t n = 5;
  const Tensor I = torch::eye(n, kDouble);
  const Tensor S = test::kernel_with({0.2, 0.5, 1.0, 2.5, 4.0}, 4);
  const auto stationary = control::solve_riccati(I - S, S, I, 0.1 * I);
  double previous = INFINITY;
  for (int64_t N : {1, 3, 10, 100}) {
    const auto finite = solve_finite_horizon(I - S, S, I, 0.1 * I, I, N);
    const double gap = relative_error(finite.gains.front(), stationary.K);
    EXPECT_LT(gap, previous);
    previous = gap;
  }
  EXPECT_LE(previous, test::tol::kRiccati);

  const Tensor s = torch::tensor({0.2, 0.5, 1.0, 2.5, 4.0, 100.0}, kDouble);
  const auto limit = control::lqr(1, 0.1);
  const auto receding = control::receding(1, 0.1, 200);
  EXPECT_LE(relative_error(receding.augments(s), limit.augments(s)), test::tol::kRiccati);
  EXPECT_LE(relative_error(receding.steering(s), limit.steering(s)), test::tol::kRiccati);
  EXPECT_LE(relative_error(receding.leaves(s), limit.leaves(s)), test::tol::kRiccati);
  // Mode by mode it is the dense recursion.
  const Tensor V = torch::diag(s);
  const Tensor E = torch::eye(6, kDouble);
  for (int64_t N : {1, 2, 7}) {
    const auto dense = solve_finite_horizon(E - V, V, E, 0.1 * E, E, N);
    const Tensor gain = control::receding(1, 0.1, N).augments(s);
    EXPECT_LE(relative_error(gain, dense.gains.front().diagonal()), test::tol::kRiccati);
    EXPECT_LE(relative_error(control::receding(1, 0.1, N).steering(s), 1 + gain),
              test::tol::kRiccati);
  }
}

TEST(FiniteHorizon, RefusesBadInput) {
  const Tensor I = torch::eye(3, kDouble);
  EXPECT_THROW(solve_finite_horizon(I, I, I, I, I, 0), InvalidArgument);
  EXPECT_THROW(solve_finite_horizon(I, I, -I, I, I, 2), InvalidArgument);
  EXPECT_THROW(solve_finite_horizon(I, I, I, 0 * I, I, 2), InvalidArgument);
  EXPECT_THROW(solve_finite_horizon(I, I, I, I, -I, 2), InvalidArgument);
  EXPECT_THROW(solve_finite_horizon(I, torch::ones({2, 3}, kDouble), I, I, I, 2), InvalidArgument);
  EXPECT_THROW(solve_finite_horizon(1e200 * I, 0 * I, I, I, I, 3), NumericalError);
  const Tensor s = torch::ones({3}, kDouble);
  EXPECT_THROW(control::receding(1, 1, 0), InvalidArgument);
  EXPECT_THROW(control::receding(1, 0, 1), InvalidArgument);
  EXPECT_THROW(control::receding(1, 1, 1).steering(-s), InvalidArgument);
}

/// The PBH test: [A − zI; Q] loses rank at an eigenvalue |z| ≥ 1 of the reachable part.
bool detectable_by_pbh(const Tensor& theta, double scale, const Tensor& Q) {
  const int64_t n = theta.size(0);
  const Tensor A = torch::eye(n, kDouble) - scale * theta;
  const Tensor z = torch::linalg_eigvalsh(A);
  for (int64_t i = 0; i < n; ++i) {
    const double at = z[i].item<double>();
    if (std::abs(at) < 1 || std::abs(at - 1) < 1e-12) continue;
    const Tensor pencil = torch::cat({A - at * torch::eye(n, kDouble), Q}, 0);
    if (torch::linalg_svdvals(pencil).min().item<double>() < 1e-9) return false;
  }
  return true;
}

TEST(Detectability, AgreesWithThePbhTest) {
  const Tensor theta = test::kernel_with({0, 0.5, 1, 3, 3, 5}, 2);
  const auto spectrum = spectrum_of(theta);
  const Tensor& V = spectrum.vectors;
  const auto without = [&](const Tensor& direction) {
    const Tensor d = direction / direction.norm();
    const Tensor gone = torch::eye(6, kDouble) - torch::outer(d, d);
    return (gone + gone.t()) / 2;
  };
  struct Case {
    Tensor Q;
    double scale;
    bool detectable;
    int64_t unseen;
  };
  const std::vector<Case> cases{
      {torch::eye(6, kDouble), 1.0, true, 0},
      {without(V.select(1, 1)), 1.0, true, 0},   // a mode that dies out by itself
      {without(V.select(1, 5)), 1.0, false, 1},  // the fastest
      {without(V.select(1, 5)), 0.3, true, 0},   // the same at a smaller rate
      // A mixture inside the double eigenvalue: invisible to a look at single eigenvectors.
      {without(V.select(1, 3) + 0.7 * V.select(1, 4)), 1.0, false, 1},
      {without(V.select(1, 3) + V.select(1, 5)), 1.0, true, 0},  // no eigenvector of A
      {without(V.select(1, 0)), 1.0, true, 0},                   // unreachable anyway
      {torch::zeros({6, 6}, kDouble), 1.0, false, 3},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const auto& c = cases[i];
    const auto found = control::assess_detectability(spectrum, c.scale, c.Q);
    EXPECT_EQ(found.detectable, c.detectable);
    EXPECT_EQ(found.unseen, c.unseen);
    EXPECT_EQ(found.detectable, detectable_by_pbh(theta, c.scale, c.Q));
  }
  EXPECT_NEAR(control::assess_detectability(spectrum, 1.0, cases[2].Q).worst_factor, -4, 1e-12);
  // s = 2 exactly: the error keeps its size for ever.
  const auto marginal = spectrum_of(torch::diag(torch::tensor({0.5, 1.0, 2.0}, kDouble)));
  const Tensor blind = torch::diag(torch::tensor({1.0, 1.0, 0.0}, kDouble));
  EXPECT_FALSE(control::assess_detectability(marginal, 1.0, blind).detectable);
  EXPECT_THROW(test::gain_of(spectrum, 1.0, cases[4].Q, torch::eye(6, kDouble)), NumericalError);
  EXPECT_THROW(control::assess_detectability(spectrum, 1.0, torch::eye(5, kDouble)),
               InvalidArgument);
}

}  // namespace
}  // namespace cdt
