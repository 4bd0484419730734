// The doubling solver against its equation, the closed form, value iteration and values of SciPy.
#include <cdt/control/riccati.h>
#include <cdt/core/error.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"
#include "support/plants.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using control::solve_riccati;
using control::spectral_radius;
using test::relative_error;
using testing::AllOf;
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
      const auto closed = test::lqr_of(theta, rate);
      EXPECT_LE(relative_error(solution.K, closed.gain_matrix()), 1e-8);
      EXPECT_LE(relative_error(solution.P, closed.cost_matrix()), 1e-8);
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
  EXPECT_LE(relative_error(test::lqr_of(S, 1.0).gain_matrix(), identity), 1e-11);
  const Tensor weighted =
      torch::tensor({{-0.3184162552402021, -0.4669004431071793, -0.20934239383422398},
                     {-0.49280400663086776, 0.5686305332836413, 0.48675065350489294},
                     {-0.03521842656691636, 0.07230024915419707, 0.48287514681747445}},
                    kDouble);
  const auto spectrum = dynamics::decompose(S, 1e-14);
  const auto general = test::gain_of(spectrum, 1.0, torch::tensor({1.0, 3.0, 0.2}, kDouble),
                                     torch::full({3}, 0.1, kDouble));
  EXPECT_LE(relative_error(general.gain, weighted), 1e-11);
}

TEST(Riccati, WeightsThatSeeGrowingModesOnlyTogether) {
  // One direction is weighed, and every mode grows by itself: doubling alone loses up to all
  // digits.
  const auto expect_solved = [](const Tensor& theta, const Tensor& Q) {
    const int64_t n = theta.size(0);
    const Tensor I = torch::eye(n, kDouble);
    const Tensor R = 0.1 * I;
    const Tensor A = I - theta;
    const auto general = test::gain_of(dynamics::decompose(theta, 1e-14), 1.0, Q, R);
    const auto plain = solve_riccati(A, theta, Q, R);
    for (const Tensor& P : {general.cost, plain.P}) {
      EXPECT_LE(riccati_gap(A, theta, Q, R, P), test::tol::kRiccati);
    }
    for (const Tensor& K : {general.gain, plain.K}) {
      EXPECT_LT(torch::linalg_eigvals(A - theta.mm(K)).abs().max().item<double>(), 1);
    }
    EXPECT_LE(relative_error(general.gain, plain.K), test::tol::kRiccati);
    EXPECT_LE(general.residual, 1e-12);
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

/// The paper's problem in ỹ = [ŷ; 1] (eq. LQC), of a random kernel whose largest step is `step`.
struct Augmented {
  Tensor S, y, Q, A, B, weight, R;
};

Augmented augmented_problem(int64_t n, double step, double label, uint64_t seed) {
  Augmented p;
  torch::manual_seed(seed);
  p.S = test::random_kernel(n, 3 * n, 1.0, seed);
  p.S = p.S * (step / torch::linalg_eigvalsh(p.S).max());
  p.y = label * torch::randn({n, 1}, kDouble);
  p.Q = seed % 2 == 0 ? random_psd(n, n) + 0.1 * torch::eye(n, kDouble)
                      : std::pow(10.0, static_cast<double>(seed % 5) - 2) * torch::eye(n, kDouble);
  p.R = std::pow(10.0, static_cast<double>(seed % 3) - 2) * torch::eye(n, kDouble);
  const Tensor I = torch::eye(n, kDouble);
  const Tensor zero = torch::zeros({1, n}, kDouble);
  p.A = torch::cat(
      {torch::cat({I - p.S, p.S.mm(p.y)}, 1), torch::cat({zero, torch::ones({1, 1}, kDouble)}, 1)});
  p.B = torch::cat({p.S, zero});
  const Tensor Qy = p.Q.mm(p.y);
  p.weight = torch::cat({torch::cat({p.Q, -Qy}, 1), torch::cat({-Qy.t(), p.y.t().mm(Qy)}, 1)});
  return p;
}

/// Every size and unit of labels, rates from slow to ones that descent does not survive.
template <class Check>
void for_augmented_problems(const Check& check) {
  uint64_t seed = 0;
  for (const int64_t n : {1, 2, 3, 5, 8, 13}) {
    for (const double step : {0.02, 0.9, 30.0}) {
      for (const double label : {1e-4, 1.0, 1e4}) {
        SCOPED_TRACE(testing::Message() << n << " outputs, step " << step << ", labels of " << label
                                        << ", seed " << seed);
        check(augmented_problem(n, step, label, ++seed));
      }
    }
  }
}

TEST(Riccati, RefusesThePapersStateByNameHoweverItIsWritten) {
  for_augmented_problems([](const Augmented& p) {
    const int64_t n = p.A.size(0);
    const Tensor I = torch::eye(n, kDouble);
    const Tensor turn = std::get<0>(torch::linalg_qr(torch::randn({n, n}, kDouble)));
    const Tensor units = torch::diag(torch::pow(10.0, 8 * torch::rand({n}, kDouble) - 4));
    for (const Tensor& T : {I, turn, units}) {
      const Tensor inverse = torch::linalg_inv(T);
      const Tensor Q = inverse.t().mm(p.weight).mm(inverse);
      EXPECT_THAT([&] { solve_riccati(T.mm(p.A).mm(inverse), T.mm(p.B), (Q + Q.t()) / 2, p.R); },
                  ThrowsMessage<InvalidArgument>(
                      AllOf(HasSubstr("eigenvalue 1;"), HasSubstr("augmented"))));
    }
  });
}

TEST(Riccati, OfTheAugmentedFormAnUnmovedModeIsNamedWithoutAdvisingThatForm) {
  // A kernel of rank 1 for two outputs.
  const Tensor A = torch::diag(torch::tensor({0.5, 1.0, 1.0}, kDouble));
  const Tensor B = torch::tensor({{0.5, 0.0}, {0.0, 0.0}, {0.0, 0.0}}, kDouble);
  const Tensor Q = torch::diag(torch::tensor({1.0, 1.0, 0.0}, kDouble));
  const Tensor R = torch::eye(2, kDouble);
  EXPECT_THAT(
      [&] { control::solve_augmented_riccati(A, B, Q, R); },
      ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("eigenvalue 1; project null modes out first"),
                                           testing::Not(HasSubstr("augmented=True")))));
  EXPECT_THAT([&] { solve_riccati(A, B, Q, R); },
              ThrowsMessage<InvalidArgument>(HasSubstr("augmented=True")));
}

/// The cost of N steps, by going backwards from the last: as N grows, the optimal cost.
Tensor cost_of_many_steps(const Augmented& p, int64_t steps) {
  Tensor P = torch::zeros_like(p.weight);
  for (int64_t k = 0; k < steps; ++k) {
    const Tensor K = torch::linalg_solve(p.R + p.B.t().mm(P).mm(p.B), p.B.t().mm(P).mm(p.A));
    const Tensor closed = p.A - p.B.mm(K);
    P = p.weight + K.t().mm(p.R).mm(K) + closed.t().mm(P).mm(closed);
    P = (P + P.t()) / 2;
  }
  return P;
}

TEST(AugmentedRiccati, IsThePapersSolution) {
  for_augmented_problems([](const Augmented& p) {
    const auto found = control::solve_augmented_riccati(p.A, p.B, p.weight, p.R);
    const int64_t n = p.S.size(0);
    EXPECT_LE(relative_error(found.equilibrium, p.y.squeeze(1)), 1e-8);
    EXPECT_LT(found.closed_loop_radius, 1);
    EXPECT_LE(found.relative_residual, test::tol::kRiccati);
    const Tensor I = torch::eye(n, kDouble);
    const auto inner = solve_riccati(I - p.S, p.S, p.Q, p.R);
    const auto view = control::augmented_view(p.S, inner.K, inner.P, p.Q, p.y.squeeze(1));
    EXPECT_LE(relative_error(found.K, view.K), 1e-7);
    EXPECT_LE(relative_error(found.P, view.P), 1e-7);
    // Large labels cost no digits of ½eᵀPe.
    const Tensor e = torch::randn({n}, kDouble);
    const Tensor start = torch::cat({p.y.squeeze(1) + e, torch::ones({1}, kDouble)});
    const double cost = 0.5 * torch::dot(e, inner.P.mv(e)).item<double>();
    EXPECT_NEAR(found.optimal_cost(start) / cost, 1, 1e-6);
  });
  for (uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Augmented p = augmented_problem(4, 1.5, 2.0, seed);
    const auto found = control::solve_augmented_riccati(p.A, p.B, p.weight, p.R);
    // Its slowest mode takes some hundred steps; rounding of each leaves a trace in P's open entry.
    EXPECT_LE(relative_error(found.P, cost_of_many_steps(p, 4000)), 1e-9);
  }
}

TEST(AugmentedRiccati, SaysWhatIsNotOfItsForm) {
  const Augmented p = augmented_problem(3, 0.5, 1.0, 1);
  const auto solve = [&](const Tensor& A, const Tensor& Q) {
    control::solve_augmented_riccati(A, p.B, Q, p.R);
  };
  EXPECT_NO_THROW(solve(p.A, p.weight));
  Tensor drifting = p.A.clone();
  drifting[3][3] = 0.9;
  EXPECT_THAT([&] { solve(drifting, p.weight); },
              ThrowsMessage<InvalidArgument>(HasSubstr("A must be [A₁, a; 0, 1]")));
  // A rest that costs something, each step anew.
  Tensor offset = p.weight.clone();
  offset[3][3] += 1;
  EXPECT_THAT([&] { solve(p.A, offset); },
              ThrowsMessage<InvalidArgument>(HasSubstr("every cost is infinite")));
  // Two samples that the network cannot tell apart: nothing moves their difference.
  Augmented twins = augmented_problem(2, 0.5, 1.0, 3);
  twins.A = torch::tensor({{0.5, -0.5, 1.0}, {-0.5, 0.5, 1.0}, {0.0, 0.0, 1.0}}, kDouble);
  twins.B = torch::tensor({{0.5, 0.5}, {0.5, 0.5}, {0.0, 0.0}}, kDouble);
  EXPECT_THAT([&] { control::solve_augmented_riccati(twins.A, twins.B, twins.weight, twins.R); },
              ThrowsMessage<InvalidArgument>(HasSubstr("eigenvalue 1")));
}

/// [A₀, coupling; 0, modes] in other coordinates, with the inputs and weights of the first block
/// alone moving, or seeing, the second.
TEST(Riccati, NamesModesThatDoNotDecayWhateverTheUnits) {
  const double c = std::cos(1.0), s = std::sin(1.0);
  const std::vector<Tensor> hidden = {
      torch::tensor({{1.0}}, kDouble),           torch::tensor({{-1.0}}, kDouble),
      torch::tensor({{1.7}}, kDouble),           torch::tensor({{1 + 1e-9}}, kDouble),
      torch::tensor({{c, -s}, {s, c}}, kDouble), torch::tensor({{1.0, 1.0}, {0.0, 1.0}}, kDouble)};
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const Tensor& modes = hidden[seed % hidden.size()];
    const int64_t k = modes.size(0);
    const auto n = static_cast<int64_t>(1 + seed % 11);
    const auto m = static_cast<int64_t>(1 + seed % 3);
    const auto random = [](int64_t rows, int64_t columns) {
      return torch::randn({rows, columns}, kDouble);
    };
    const Tensor inner = random(n, n) * (static_cast<double>(seed % 4) / 2 / std::sqrt(n));
    Tensor A = torch::cat({torch::cat({inner, random(n, k)}, 1),
                           torch::cat({torch::zeros({k, n}, kDouble), modes}, 1)});
    const Tensor few = torch::cat({random(n, m), torch::zeros({k, m}, kDouble)});
    const Tensor all = random(n + k, m);
    const Tensor turn = std::get<0>(torch::linalg_qr(random(n + k, n + k)));
    const Tensor T =
        seed % 3 == 0 ? turn : torch::pow(10.0, 6 * torch::rand({n + k, 1}, kDouble) - 3) * turn;
    const Tensor inverse = torch::linalg_inv(T);
    const Tensor R = std::pow(10.0, static_cast<double>(seed % 7) - 3) * torch::eye(m, kDouble);
    const auto solve = [&](const Tensor& A, const Tensor& B, const Tensor& C) {
      const Tensor Q = inverse.t().mm(C).mm(C.t()).mm(inverse);
      return solve_riccati(T.mm(A).mm(inverse), T.mm(B), (Q + Q.t()) / 2, R);
    };
    EXPECT_THAT(
        [&] { solve(A, few, all); },
        ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("stabilizable"), HasSubstr("eigenvalue"))));
    EXPECT_THAT(
        [&] { solve(A.t(), all, few); },
        ThrowsMessage<NumericalError>(AllOf(HasSubstr("detectable"), HasSubstr("eigenvalue"))));
  }
}

TEST(Riccati, NoSolutionWithARadiusOfOneLeaves) {
  // A mode z that no input moves costs q/(1 − z²), unless it is refused.
  const Tensor B = torch::tensor({{1.0}, {0.0}}, kDouble);
  int64_t refused = 0;
  for (double gap = 1e-3; gap >= 1e-17; gap /= 4) {
    for (const double sign : {1.0, -1.0}) {
      SCOPED_TRACE(testing::Message() << sign << " (1 − " << gap << ")");
      const double z = sign * (1 - gap);
      try {
        const auto found = solve_riccati(torch::diag(torch::tensor({0.5, z}, kDouble)), B,
                                         torch::eye(2, kDouble), torch::eye(1, kDouble));
        EXPECT_LT(found.closed_loop_radius, 1);
        EXPECT_NEAR(found.closed_loop_radius, std::abs(z), 1e-13);
        EXPECT_NEAR(found.P[1][1].item<double>() * (1 - std::abs(z)) * (1 + std::abs(z)), 1, 1e-3);
        EXPECT_EQ(refused, 0) << "farther from 1 it was refused";
      } catch (const InvalidArgument&) {
        ++refused;
        EXPECT_LT(gap, 1e-10);
      }
    }
  }
  EXPECT_GT(refused, 0);
  // Rates at which a mode's step does not show beside 1.
  const Tensor theta = test::random_kernel(6, 18, 1.0, 1);
  for (double rate = 1e-30; rate <= 1e30; rate *= 1e3) {
    EXPECT_LT(test::lqr_of(theta, rate).closed_loop_radius(), 1) << rate;
  }
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
