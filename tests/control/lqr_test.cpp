// The closed-form gain against long double arithmetic, value iteration, its limits and its own
// Riccati equation.
#include <cdt/control/apply/modal_products.h>
#include <cdt/control/controller.h>
#include <cdt/control/riccati.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/simulation.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"
#include "support/plants.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using test::lqr_of;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;

Tensor scalar(double value) { return torch::full({1}, value, kDouble); }

struct Mode {
  double w, gain, steering, closed_loop;
};

Mode mode(double s, double q, double rho) {
  const auto law = control::lqr(q, rho);
  const Tensor step = scalar(s);
  return {law.cost(step).item<double>(), law.augments(step).item<double>(),
          law.steering(step).item<double>(), law.leaves(step).item<double>()};
}

/// The root of w² + βw − qρ = 0 by bisection in long double: no formula of the library in it.
Mode long_double_mode(double s_, double q_, double rho_) {
  const long double s = s_, q = q_, rho = rho_;
  const long double beta = rho * (2 - s) - q * s;
  long double low = 0, high = 1;
  while (high * high + beta * high - q * rho < 0) high *= 2;
  for (int i = 0; i < 20000 && high - low > 0; ++i) {
    const long double middle = low > 0 ? std::sqrt(low) * std::sqrt(high) : high / 16;
    if (middle <= low || middle >= high) break;
    (middle * (middle + beta) - q * rho < 0 ? low : high) = middle;
  }
  const long double w = low > 0 ? low : high;
  const long double below = rho + s * w;
  return {static_cast<double>(w), static_cast<double>((1 - s) * w / below),
          static_cast<double>((rho + w) / below), static_cast<double>(rho * (1 - s) / below)};
}

TEST(LqrLaw, AgreeWithLongDoubleFromTinyToHugeSteps) {
  for (double exponent = -16; exponent <= 8; exponent += 0.25) {
    for (double offset : {1.0, 1.2345}) {
      const double s = offset * std::pow(10.0, exponent);
      for (const auto& [q, rho] :
           {std::pair{1.0, 0.1}, {1.0, 1e-6}, {1.0, 1e6}, {3.0, 0.7}, {1.0, 1e280}, {1e280, 1.0}}) {
        SCOPED_TRACE(testing::Message() << "s " << s << " q " << q << " rho " << rho);
        const Mode ours = mode(s, q, rho);
        const Mode exact = long_double_mode(s, q, rho);
        EXPECT_NEAR(ours.w / exact.w, 1, 100 * test::tol::kScalar);
        EXPECT_NEAR(ours.steering / exact.steering, 1, 100 * test::tol::kScalar);
        // Of their own size: k is 5·10⁻⁷ at ρ = 10⁶, and the closed loop of a huge step as small.
        EXPECT_NEAR(ours.gain, exact.gain, 100 * test::tol::kScalar * std::abs(exact.gain));
        EXPECT_NEAR(ours.closed_loop, exact.closed_loop,
                    100 * test::tol::kScalar * std::abs(exact.closed_loop));
        EXPECT_LE(std::abs(ours.closed_loop), 1.0);
        if (s > 1e-15) {
          EXPECT_LT(std::abs(ours.closed_loop), 1.0);
        }
      }
    }
  }
}

TEST(LqrLaw, SolveTheScalarRiccatiEquation) {
  // P = q + (1−s)²P − ((1−s)sP)²/(ρ + s²P), with P = w/s; the last two terms are (1−s)²Pρ/(ρ +
  // s²P).
  for (double s : {1e-6, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.5, 2.0, 3.0, 50.0, 1e4}) {
    for (double rho : {1e-3, 0.1, 10.0}) {
      SCOPED_TRACE(testing::Message() << "s " << s << " rho " << rho);
      const long double P = static_cast<long double>(mode(s, 1, rho).w) / s;
      const long double a = 1 - static_cast<long double>(s);
      const long double residual = 1 + a * a * P * (rho / (rho + s * s * P)) - P;
      EXPECT_LE(std::abs(static_cast<double>(residual / P)), 1e-13);
    }
  }
}

TEST(LqrLaw, EqualValueIterationOfTheCost) {
  // P ← q + (1−s)²Pρ/(ρ + s²P) from P = 0 is the cost of ever longer horizons.
  for (double s : {0.01, 0.1, 0.7, 1.0, 1.9, 2.5, 20.0}) {
    for (double rho : {0.01, 0.1, 5.0}) {
      SCOPED_TRACE(testing::Message() << "s " << s << " rho " << rho);
      double P = 0;
      for (int k = 0; k < 200000; ++k) P = 1 + (1 - s) * (1 - s) * P * rho / (rho + s * s * P);
      EXPECT_NEAR(mode(s, 1, rho).gain, s * P * (1 - s) / (rho + s * s * P), 1e-9);
    }
  }
}

TEST(LqrLaw, HaveTheLimitsOfTheTheory) {
  for (double q : {0.5, 1.0, 7.0}) {
    for (double rho : {0.01, 0.1, 1.0, 30.0}) {
      SCOPED_TRACE(testing::Message() << "q " << q << " rho " << rho);
      const double k0 = std::sqrt(1 + q / rho) - 1;
      EXPECT_NEAR(mode(0, q, rho).gain, k0, test::tol::kScalar * (1 + k0));
      EXPECT_NEAR(mode(1e-14, q, rho).gain, k0, 1e-12 * (1 + k0));
      EXPECT_EQ(mode(0, q, rho).closed_loop, 1.0);
      EXPECT_EQ(mode(1, q, rho).gain, 0.0);
      EXPECT_EQ(mode(1, q, rho).closed_loop, 0.0);
      EXPECT_GT(mode(0.5, q, rho).gain, 0.0);
      for (double s : {1.01, 2.0, 100.0}) EXPECT_LT(mode(s, q, rho).gain, 0.0);
    }
  }
  for (double s : {0.01, 0.5, 1.7, 30.0}) {
    SCOPED_TRACE(testing::Message() << "s " << s);
    // ρ → 0: Gauss-Newton, the error is gone in one step.
    EXPECT_NEAR(mode(s, 1, 1e-14).closed_loop, 0, 1e-6);
    EXPECT_NEAR(mode(s, 1, 1e-14).steering, 1 / s, 1e-6 / s);
    // ρ → ∞: gradient descent where it is stable, else the cheapest stabilizer, which mirrors the
    // mode into the unit disc.
    const double cheap = std::abs(1 - s) < 1 ? 1 - s : 1 / (1 - s);
    EXPECT_NEAR(mode(s, 1, 1e14).closed_loop, cheap, 1e-6);
  }
}

TEST(LqrLaw, NeitherOverflowNorCancel) {
  for (double s : {0.0, 1e-300, 1e-16, 1e8, 1e100}) {
    for (double rho : {1e-30, 1e-8, 1e8, 1e30}) {
      SCOPED_TRACE(testing::Message() << "s " << s << " rho " << rho);
      const Mode m = mode(s, 1, rho);
      for (double value : {m.w, m.gain, m.steering, m.closed_loop})
        EXPECT_TRUE(std::isfinite(value));
      EXPECT_GT(m.w, 0);
      EXPECT_GT(m.steering, 0);
      EXPECT_LE(std::abs(m.closed_loop), 1.0);
    }
  }
  // The steering factor keeps its digits where 1 + k has lost them.
  const double s = 1e8;
  EXPECT_NEAR(mode(s, 1, 0.1).steering / long_double_mode(s, 1, 0.1).steering, 1,
              test::tol::kScalar * 10);
}

TEST(LqrLaw, RefuseBadInput) {
  const auto law = control::lqr(1, 1);
  EXPECT_THROW(law.steering(scalar(-1)), InvalidArgument);
  EXPECT_THROW(law.steering(scalar(NAN)), InvalidArgument);
  EXPECT_THROW(law.steering(torch::ones({1})), InvalidArgument);
  EXPECT_THROW(law.steering(scalar(1e160)), InvalidArgument);
  EXPECT_THROW(control::lqr(0, 1), InvalidArgument);
  EXPECT_THROW(control::lqr(1, 0), InvalidArgument);
  EXPECT_THROW(control::lqr(INFINITY, 1), InvalidArgument);
  const auto two = [](const Tensor&) { return torch::ones({2}, kDouble); };
  EXPECT_THROW(control::lqr(1, 1, two).steering(scalar(1)), InvalidArgument);
  EXPECT_THROW(control::lqr(1e300, 1e-300).steering(scalar(1e150)), InvalidArgument);
}

class ModalLqr : public testing::TestWithParam<uint64_t> {};

TEST_P(ModalLqr, SolvesThePapersProblem) {
  const int64_t n = 12;
  const Tensor theta = test::random_kernel(n, 2 * n, 3.0, GetParam());
  for (double rate : {0.05, 0.5, 2.0}) {
    SCOPED_TRACE(testing::Message() << "seed " << GetParam() << " rate " << rate);
    const auto controller = lqr_of(theta, rate);
    const Tensor S = dynamics::step_matrix(theta, rate);
    const Tensor I = torch::eye(n, kDouble);
    const Tensor K = controller.gain_matrix();
    const Tensor P = controller.cost_matrix();
    EXPECT_LE(relative_error(controller.matrix(), I + K), test::tol::kRiccati);
    // K from P by the textbook formula, with dense matrices.
    const Tensor A = I - S;
    const Tensor textbook = torch::linalg_solve(0.1 * I + S.mm(P).mm(S), S.mm(P).mm(A));
    EXPECT_LE(relative_error(K, textbook), test::tol::kRiccati);
    EXPECT_LE(controller.riccati_residual(theta), test::tol::kRiccati);
    EXPECT_LE(relative_error(P, I + A.mm(P).mm(A - S.mm(K))), test::tol::kRiccati);
    const double radius = torch::linalg_eigvals(A - S.mm(K)).abs().max().item<double>();
    EXPECT_NEAR(controller.closed_loop_radius(), radius, 1e-9);
    EXPECT_LT(radius, 1);

    // The augmented form of the paper: eq. riccati, control-feedback, cloop, and the cost.
    const Tensor y = torch::randn({n}, kDouble);
    const Tensor y_hat = torch::randn({n}, kDouble);
    const auto view = control::augmented_view(S, K, P, I, y);
    const Tensor BP = view.B.t().mm(view.P);
    const Tensor inverse = torch::linalg_inv(0.1 * I + BP.mm(view.B));
    const Tensor right = view.A.t().mm(view.P).mm(view.A) + view.Q -
                         view.A.t().mm(view.P).mm(view.B).mm(inverse).mm(BP).mm(view.A);
    EXPECT_LE(relative_error(right, view.P), test::tol::kRiccati);
    EXPECT_LE(relative_error(inverse.mm(BP).mm(view.A), view.K), test::tol::kRiccati);
    const Tensor state = torch::cat({y_hat, torch::ones({1}, kDouble)});
    const Tensor next = view.closed_loop.mv(state);
    EXPECT_LE(relative_error(next.narrow(0, 0, n) - y, controller.predict(y_hat - y)),
              test::tol::kRiccati);
    EXPECT_NEAR(next[n].item<double>(), 1, test::tol::kScalar);
    const double cost = controller.optimal_cost(y_hat - y);
    EXPECT_NEAR(0.5 * torch::dot(state, view.P.mv(state)).item<double>() / cost, 1,
                test::tol::kRiccati);

    // The cost is what simulation pays, and any other gain pays more.
    const auto paid = [&](const Tensor& gain) {
      const auto run = dynamics::simulate(S, y_hat - y, 4000, gain);
      return 0.5 * (run.errors.square().sum() + 0.1 * run.augments.square().sum()).item<double>();
    };
    EXPECT_NEAR(paid(K) / cost, 1, 1e-8);
    EXPECT_GT(paid(K * 0.9), cost);
    EXPECT_GT(paid(K + 0.02 * torch::randn({n, n}, kDouble)), cost);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModalLqr, testing::Values(1, 2, 3));

TEST(ModalLqrController, IsExactOnNullDirections) {
  const Tensor theta = test::random_kernel(10, 4, 2.0, 5);
  const auto controller = lqr_of(theta, 0.5);
  EXPECT_EQ(controller.plant().modes().rank, 4);
  const Tensor null = controller.plant().modes().null_vectors();
  const double k0 = std::sqrt(11.0) - 1;
  EXPECT_LE(relative_error(controller.gain_matrix().mm(null), k0 * null), test::tol::kRiccati);
  EXPECT_LE(controller.riccati_residual(theta), test::tol::kRiccati);
  EXPECT_TRUE(std::isinf(controller.optimal_cost(torch::ones({10}, kDouble))));
  EXPECT_TRUE(std::isfinite(controller.optimal_cost(theta.mv(torch::ones({10}, kDouble)))));

  const auto frozen = lqr_of(torch::zeros({3, 3}, kDouble), 0.5);
  EXPECT_EQ(frozen.plant().modes().rank, 0);
  EXPECT_EQ(frozen.closed_loop_radius(), 1);  // nothing moves
  EXPECT_TRUE(torch::isfinite(frozen.gain_matrix()).all().item<bool>());
}

TEST(ModalLqrController, ShapesTheWeightsModeByMode) {
  const Tensor theta = test::random_kernel(8, 16, 2.0, 6);
  const auto shaped = [&](std::function<Tensor(const Tensor&)> shape) {
    return control::ModalController(test::plant_of(theta, 0.5),
                                    control::lqr(1, 2.5, std::move(shape)));
  };
  const auto controller = shaped([](const Tensor& s) { return 1 / (1 + s.square()); });
  // The same with dense Q = q(Θ), R = ρI in the textbook formula.
  const Tensor V = controller.plant().modes().vectors;
  const Tensor Q = (V * controller.law().weight(controller.steps())).mm(V.t());
  const Tensor R = 2.5 * torch::eye(8, kDouble);
  const Tensor S = 0.5 * theta;
  const Tensor A = torch::eye(8, kDouble) - S;
  const Tensor P = controller.cost_matrix();
  const Tensor K = torch::linalg_solve(R + S.mm(P).mm(S), S.mm(P).mm(A));
  EXPECT_LE(relative_error(controller.gain_matrix(), K), test::tol::kRiccati);
  EXPECT_LE(relative_error(P, Q + A.mm(P).mm(A - S.mm(K))), test::tol::kRiccati);
  EXPECT_LE(controller.riccati_residual(theta), test::tol::kRiccati);

  EXPECT_THAT([&] { shaped([](const Tensor& s) { return s - 0.5; }); },
              ThrowsMessage<InvalidArgument>(HasSubstr("positive for every mode")));
  EXPECT_THROW(shaped([](const Tensor&) { return torch::ones({3}, kDouble); }), InvalidArgument);
}

TEST(ModalLqrController, RefusesBadKernelsAndRates) {
  const Tensor good = test::random_kernel(4, 8, 1.0, 7);
  for (double rate : {0.0, -1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    EXPECT_THROW(lqr_of(good, rate), InvalidArgument);
  }
  Tensor bad = good.clone();
  bad[0][1] += 0.1;
  EXPECT_THAT([&] { lqr_of(bad, 0.1); }, ThrowsMessage<InvalidArgument>(HasSubstr("symmetric")));
  bad = good - 0.5 * torch::eye(4, kDouble);
  EXPECT_THAT([&] { lqr_of(bad, 0.1); },
              ThrowsMessage<InvalidArgument>(HasSubstr("positive semidefinite")));
  bad = good.clone();
  bad[2][2] = NAN;
  EXPECT_THAT([&] { lqr_of(bad, 0.1); }, ThrowsMessage<InvalidArgument>(HasSubstr("[2, 2]")));
  EXPECT_THROW(lqr_of(good.narrow(0, 0, 2), 0.1), InvalidArgument);
  EXPECT_THROW(lqr_of(good.to(torch::kFloat32), 0.1), InvalidArgument);
  EXPECT_THROW(lqr_of(torch::empty({0, 0}, kDouble), 0.1), InvalidArgument);
  EXPECT_THROW(lqr_of(good[0], 0.1), InvalidArgument);
}

TEST(AugmentedView, RefusesWrongShapes) {
  const Tensor I = torch::eye(3, kDouble);
  const Tensor y = torch::ones({3}, kDouble);
  EXPECT_NO_THROW(control::augmented_view(I, I, I, I, y));
  EXPECT_THROW(control::augmented_view(I, torch::eye(2, kDouble), I, I, y), InvalidArgument);
  EXPECT_THROW(control::augmented_view(I, I, I, I, torch::ones({2}, kDouble)), InvalidArgument);
  EXPECT_THROW(control::augmented_view(I, I, I, I, y * NAN), InvalidArgument);
  EXPECT_THROW(control::augmented_view(I, I, I, I, y.to(torch::kFloat32)), InvalidArgument);
}

TEST(RiccatiResidual, IsThatOfTheEquationRelativeToItsTerms) {
  const int64_t n = 7;
  const Tensor theta = test::random_kernel(n, 20, 2.0, 8);
  for (const double rate : {0.01, 0.7, 30.0}) {
    for (const double error : {1e-8, 1e-3, 0.5}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << ", error " << error);
      const auto controller = lqr_of(theta, rate);
      const Tensor& s = controller.steps();
      const Tensor w = controller.law().cost(s);
      const Tensor steering = controller.steering().clone();
      w[3] *= 1 + error;
      steering[5] *= 1 - error;
      const Tensor S = rate * theta;
      const Tensor I = torch::eye(n, kDouble);
      const dynamics::Modes& modes = controller.plant().modes();
      const Tensor P = (modes.vectors * (w / s)).mm(modes.vectors.t());
      const Tensor G = (modes.vectors * steering).mm(modes.vectors.t());
      const Tensor gap = P - I - (I - S).mm(P).mm(I - S.mm(G));
      const auto largest = [](const Tensor& t) { return t.abs().max().item<double>(); };
      const double terms =
          P.norm().item<double>() * (1 + largest(1 - s)) * (1 + largest(s) * largest(steering));
      const double expected = gap.norm().item<double>() / terms;
      EXPECT_NEAR(
          control::riccati_residual(modes, s, w, steering, torch::ones_like(s), rate, 0, theta),
          expected, 1e-6 * expected);
    }
  }
}

}  // namespace
}  // namespace cdt
