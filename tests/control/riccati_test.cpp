// The doubling solver against its equation, the closed form, value iteration and values of SciPy.
#include <cdt/control/general.h>
#include <cdt/control/riccati.h>
#include <cdt/control/spectral.h>
#include <cdt/core/error.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using control::solve_riccati;
using control::spectral_radius;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;

Tensor random_psd(int64_t n, int64_t rank) {
  const Tensor M = torch::randn({n, rank}, kDouble);
  return M.mm(M.t());
}

/// The equation as printed in the paper.
double riccati_gap(const Tensor& A, const Tensor& B, const Tensor& Q, const Tensor& R,
                   const Tensor& P) {
  const Tensor BPA = B.t().mm(P).mm(A);
  return relative_error(
      A.t().mm(P).mm(A) + Q - BPA.t().mm(torch::linalg_solve(R + B.t().mm(P).mm(B), BPA)), P);
}

TEST(Riccati, SolvesRandomProblems) {
  for (uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const int64_t n = 9;
    const int64_t m = 2 + static_cast<int64_t>(seed);
    const Tensor A = torch::randn({n, n}, kDouble) * 0.6;  // some eigenvalues outside the unit disc
    const Tensor B = torch::randn({n, m}, kDouble);
    const Tensor Q = random_psd(n, 4);
    const Tensor R = random_psd(m, 2 * m) + 0.1 * torch::eye(m, kDouble);
    const auto solution = solve_riccati(A, B, Q, R);
    EXPECT_LE(riccati_gap(A, B, Q, R, solution.P), test::tol::kRiccati);
    EXPECT_LE(solution.relative_residual, test::tol::kRiccati);
    EXPECT_TRUE(torch::allclose(solution.P, solution.P.t()));
    const double radius = torch::linalg_eigvals(A - B.mm(solution.K)).abs().max().item<double>();
    EXPECT_LT(radius, 1);
    EXPECT_NEAR(solution.closed_loop_radius, radius, 1e-8);
    EXPECT_GT(solution.iterations, 1);
    EXPECT_LT(solution.iterations, 30);
    // Value iteration from zero reaches the same matrix.
    Tensor P = torch::zeros({n, n}, kDouble);
    for (int k = 0; k < 3000; ++k) {
      const Tensor BPA = B.t().mm(P).mm(A);
      P = A.t().mm(P).mm(A) + Q - BPA.t().mm(torch::linalg_solve(R + B.t().mm(P).mm(B), BPA));
      P = (P + P.t()) / 2;  // an unstable A blows up any asymmetry
    }
    EXPECT_LE(relative_error(solution.P, P), 1e-8);
  }
}

TEST(Riccati, EqualsTheClosedFormOfCommutingWeights) {
  for (uint64_t seed : {1, 2, 3}) {
    for (double rate : {0.01, 0.3, 3.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " rate " << rate);
      const int64_t n = 10;
      const Tensor theta = test::random_kernel(n, 3 * n, 2.0, seed);
      const Tensor I = torch::eye(n, kDouble);
      const Tensor S = rate * theta;
      const auto solution = solve_riccati(I - S, S, I, 0.1 * I);
      const auto closed = control::design_spectral(theta, rate);
      EXPECT_LE(relative_error(solution.K, closed.gain_matrix()), 1e-8);
      EXPECT_LE(relative_error(solution.P, closed.riccati_matrix()), 1e-8);
      EXPECT_NEAR(solution.closed_loop_radius, closed.closed_loop_radius(), 1e-9);
    }
  }
}

// Values of SciPy 1.10's solve_discrete_are, printed by scipy_reference.py; its own accuracy is
// about 1e-12.
TEST(Riccati, EqualsSciPy) {
  const Tensor A = torch::tensor({{0.9, 0.2, 0.0}, {-0.1, 1.1, 0.3}, {0.0, 0.4, 0.5}}, kDouble);
  const Tensor B = torch::tensor({{1.0, 0.0}, {0.5, 1.0}, {0.0, 0.2}}, kDouble);
  const Tensor Q = torch::diag(torch::tensor({1.0, 2.0, 0.5}, kDouble));
  const Tensor R = torch::tensor({{0.5, 0.1}, {0.1, 0.3}}, kDouble);
  const Tensor P = torch::tensor({{1.2929087223105167, 0.014227408340453392, 0.005061456547102855},
                                  {0.014227408340453392, 2.3591182175147476, 0.15657366510004023},
                                  {0.005061456547102855, 0.15657366510004023, 0.652846254091697}},
                                 kDouble);
  EXPECT_LE(relative_error(solve_riccati(A, B, Q, R).P, P), 1e-11);
}

TEST(Riccati, TrainingGainsEqualSciPy) {
  const Tensor S = torch::tensor({{1.9, 0.6, 0.1}, {0.6, 0.8, -0.2}, {0.1, -0.2, 0.3}}, kDouble);
  const Tensor identity =
      torch::tensor({{-0.3182946683121975, -0.47179243153623146, -0.24082371719255585},
                     {-0.47179243153623074, 0.5401704570267662, 0.5205734292498758},
                     {-0.24082371719255527, 0.5205734292498757, 1.3550290943419019}},
                    kDouble);
  EXPECT_LE(relative_error(control::design_spectral(S, 1.0).gain_matrix(), identity), 1e-11);
  const Tensor weighted =
      torch::tensor({{-0.3184162552402021, -0.4669004431071793, -0.20934239383422398},
                     {-0.49280400663086776, 0.5686305332836413, 0.48675065350489294},
                     {-0.03521842656691636, 0.07230024915419707, 0.48287514681747445}},
                    kDouble);
  const auto spectrum = dynamics::decompose(S, 1e-14);
  const auto general = control::design_general(
      spectrum, 1.0, torch::tensor({1.0, 3.0, 0.2}, kDouble), torch::full({3}, 0.1, kDouble));
  EXPECT_LE(relative_error(general.K, weighted), 1e-11);
}

TEST(Riccati, WeightsThatSeeGrowingModesOnlyTogether) {
  // One direction is weighed, and every mode grows by itself: doubling alone loses up to all
  // digits.
  const auto expect_solved = [](const Tensor& theta, const Tensor& Q) {
    const int64_t n = theta.size(0);
    const Tensor I = torch::eye(n, kDouble);
    const Tensor R = 0.1 * I;
    const Tensor A = I - theta;
    const auto general = control::design_general(dynamics::decompose(theta, 1e-14), 1.0, Q, R);
    const auto plain = solve_riccati(A, theta, Q, R);
    for (const Tensor& P : {general.P, plain.P}) {
      EXPECT_LE(riccati_gap(A, theta, Q, R, P), test::tol::kRiccati);
    }
    for (const Tensor& K : {general.K, plain.K}) {
      EXPECT_LT(torch::linalg_eigvals(A - theta.mm(K)).abs().max().item<double>(), 1);
    }
    EXPECT_LE(relative_error(general.K, plain.K), test::tol::kRiccati);
    EXPECT_LE(general.relative_residual, 1e-12);
  };
  struct Case {
    int64_t n;
    double low, high;
  };
  for (const auto& [n, low, high] :
       {Case{4, 3, 6}, {6, 3, 30}, {8, 3, 50}, {10, 5, 100}, {20, 3, 50}}) {
    SCOPED_TRACE(testing::Message() << n << " modes from " << low << " to " << high);
    expect_solved(torch::diag(torch::linspace(low, high, n, kDouble)),
                  torch::ones({n, n}, kDouble));
  }
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto n = static_cast<int64_t>(4 + seed % 9);
    const Tensor theta = test::random_kernel(n, 3 * n, 10.0 * static_cast<double>(seed), seed);
    expect_solved(theta, random_psd(n, 1 + static_cast<int64_t>(seed % 3)));
  }
}

TEST(Riccati, TakesWeightsThatAreSingularUpToRounding) {
  for (const int64_t n : {2, 20, 40, 100, 200}) {
    SCOPED_TRACE(n);
    const Tensor ones = torch::ones({n, n}, kDouble);
    EXPECT_NO_THROW(control::require_state_weight(ones, n));
    EXPECT_THROW(control::require_state_weight(ones - 1e-9 * torch::eye(n, kDouble), n),
                 InvalidArgument);
  }
}

TEST(Riccati, TakesDiagonalsForWeights) {
  torch::manual_seed(3);
  const Tensor A = torch::randn({4, 4}, kDouble);
  const Tensor B = torch::randn({4, 3}, kDouble);
  const Tensor q = torch::tensor({1.0, 0.0, 2.0, 0.5}, kDouble);
  const Tensor r = torch::tensor({1.0, 0.2, 3.0}, kDouble);
  EXPECT_TRUE(torch::equal(solve_riccati(A, B, q, r).P,
                           solve_riccati(A, B, torch::diag(q), torch::diag(r)).P));
}

TEST(Riccati, SaysWhyThereIsNoSolution) {
  const Tensor I = torch::eye(2, kDouble);
  const Tensor A = torch::diag(torch::tensor({2.0, 0.5}, kDouble));
  const Tensor first = torch::tensor({{1.0}, {0.0}}, kDouble);
  const Tensor second = torch::tensor({{0.0}, {1.0}}, kDouble);
  const Tensor one = torch::ones({1, 1}, kDouble);
  EXPECT_NO_THROW(solve_riccati(A, first, I, one));
  EXPECT_THAT([&] { solve_riccati(A, second, I, one); },
              ThrowsMessage<InvalidArgument>(HasSubstr("stabilizable")));
  const Tensor blind = torch::diag(torch::tensor({0.0, 1.0}, kDouble));
  EXPECT_THAT([&] { solve_riccati(A, first, blind, one); },
              ThrowsMessage<NumericalError>(HasSubstr("detectable")));
  // All costs are there after one step, but not all states.
  EXPECT_THAT(
      [&] {
        solve_riccati(torch::diag(torch::tensor({2.0, 0.0}, kDouble)), first, blind, one);
      },
      ThrowsMessage<NumericalError>(HasSubstr("detectable")));
  // Rotations keep sizes; their eigenvalues may be computed as 1 − 1e-16.
  for (double angle = 0.1; angle < 3; angle += 0.1) {
    const double c = std::cos(angle);
    const double s = std::sin(angle);
    EXPECT_THAT(
        [&] {
          solve_riccati(torch::tensor({{c, -s}, {s, c}}, kDouble), first, 0 * I, one);
        },
        ThrowsMessage<NumericalError>(HasSubstr("detectable")))
        << angle;
  }
  // The paper's augmented state has an uncontrollable eigenvalue at exactly 1.
  const Tensor S = torch::tensor({{0.3}}, kDouble);
  const Tensor augmented = torch::tensor({{0.7, 0.3}, {0.0, 1.0}}, kDouble);
  const Tensor input = torch::tensor({{0.3}, {0.0}}, kDouble);
  const Tensor weight = torch::tensor({{1.0, -1.0}, {-1.0, 1.0}}, kDouble);
  EXPECT_THAT([&] { solve_riccati(augmented, input, weight + 0.1 * I, 0.1 * one); },
              ThrowsMessage<InvalidArgument>(HasSubstr("eigenvalue")));
  control::RiccatiOptions hasty;
  hasty.max_iterations = 2;
  const Tensor slow = torch::diag(torch::tensor({0.9999, 0.5}, kDouble));
  EXPECT_THAT([&] { solve_riccati(slow, 1e-3 * I, I, I, hasty); },
              ThrowsMessage<NumericalError>(HasSubstr("2 iterations")));
}

TEST(Riccati, RefusesBadInput) {
  const Tensor I = torch::eye(3, kDouble);
  EXPECT_THROW(solve_riccati(I.narrow(0, 0, 2), I, I, I), InvalidArgument);
  EXPECT_THROW(solve_riccati(I * 0.5, I.narrow(0, 0, 2), I, I), InvalidArgument);
  EXPECT_THROW(solve_riccati(I * 0.5, I, torch::eye(2, kDouble), I), InvalidArgument);
  EXPECT_THROW(solve_riccati(I * 0.5, I, I, torch::eye(2, kDouble)), InvalidArgument);
  EXPECT_THROW(solve_riccati((I * 0.5).to(torch::kFloat32), I, I, I), InvalidArgument);
  EXPECT_THROW(solve_riccati(I * 0.5, I.to(torch::kFloat32), I, I), InvalidArgument);
  EXPECT_THROW(solve_riccati(I * NAN, I, I, I), InvalidArgument);
  EXPECT_THAT([&] { solve_riccati(I * 0.5, I, -I, I); },
              ThrowsMessage<InvalidArgument>(
                  HasSubstr("Q must be positive semidefinite; its smallest eigenvalue is -1")));
  EXPECT_THAT([&] { solve_riccati(I * 0.5, I, I, 0 * I); },
              ThrowsMessage<InvalidArgument>(HasSubstr("R must be positive definite")));
  EXPECT_THAT(
      [&] {
        solve_riccati(I * 0.5, I, torch::ones({3, 3}, kDouble).triu(), I);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("symmetric")));
}

TEST(SpectralRadius, AgreesWithEigenvalues) {
  for (uint64_t seed : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const Tensor M = torch::randn({8, 8}, kDouble) * std::pow(10.0, static_cast<double>(seed) - 3);
    EXPECT_NEAR(spectral_radius(M) / torch::linalg_eigvals(M).abs().max().item<double>(), 1, 1e-8);
  }
  EXPECT_EQ(spectral_radius(torch::zeros({3, 3}, kDouble)), 0);
  const Tensor nilpotent = torch::tensor({{0.0, 1.0}, {0.0, 0.0}}, kDouble);
  EXPECT_EQ(spectral_radius(nilpotent), 0);
  const Tensor jordan = torch::tensor({{0.5, 1.0}, {0.0, 0.5}}, kDouble);
  EXPECT_NEAR(spectral_radius(jordan), 0.5, 1e-8);
  // Far from normal: at first the powers shrink like the eigenvalue of the large block.
  const Tensor hidden = torch::tensor({{0.5, 1e9, 0.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 1.1}}, kDouble);
  EXPECT_NEAR(spectral_radius(hidden), 1.1, 1e-7);
}

}  // namespace
}  // namespace cdt
