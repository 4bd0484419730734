// Controllers from leading modes alone: the closed loop with the whole kernel, and how far they are
// from the controllers of all modes.
#include <cdt/analysis/stability.h>
#include <cdt/control/controller.h>
#include <cdt/control/riccati/detectability.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/forecast.h>
#include <cdt/dynamics/lanczos.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"
#include "support/modes.h"
#include "support/plants.h"

namespace cdt {
namespace {

using test::kDouble;
using test::lqr_of;
using test::relative_error;
using test::spectrum_of;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

dynamics::Modes leading(const Tensor& theta, int64_t count) {
  dynamics::LanczosOptions options;
  options.modes = count;
  options.trace = theta.trace().item<double>();
  options.squared_norm = theta.square().sum().item<double>();
  return dynamics::leading_modes([&](const Tensor& X) { return theta.mm(X); }, theta.size(0),
                                 options)
      .modes;
}

std::vector<Tensor> kernels() {
  std::vector<double> power, flat, twins;
  for (int i = 0; i < 40; ++i) {
    power.push_back(std::pow(1.0 + i, -2));
    flat.push_back(1 - 0.01 * i);
    twins.push_back(i < 25 ? 1 : 0.001);
  }
  return {test::kernel_with(power, 1), test::kernel_with(flat, 2), test::kernel_with(twins, 3),
          test::random_kernel(40, 6, 1.0, 4)};
}

Tensor in_loop(const Tensor& theta, double scale, const Tensor& G) {
  return torch::eye(theta.size(0), kDouble) - scale * theta.mm(G);
}

TEST(PartialModes, TheLoopIsStableAtEveryRate) {
  for (const Tensor& theta : kernels()) {
    for (const int64_t count : {1, 5, 12}) {
      const auto modes = leading(theta, count);
      for (double scale = 1e-6; scale <= 1e8; scale *= 10) {
        SCOPED_TRACE(testing::Message() << count << " modes, step " << scale);
        const auto controller = lqr_of(modes, scale);
        const Tensor loop = in_loop(theta, scale, controller.matrix());
        const double radius = torch::linalg_eigvals(loop).abs().max().item<double>();
        // Of I − scale·ΘG: its terms reach scale·λ_max and round with it.
        EXPECT_LE(radius, 1 + 1e-13 * (1 + scale));
        // Errors stay bounded by their own size, too: the loop in the basis of ΘG's symmetric form.
        torch::manual_seed(5);
        Tensor e = torch::randn({40}, kDouble);
        const double start = e.norm().item<double>();
        for (int k = 0; k < 50; ++k) e = e - scale * theta.mv(controller.steer(e));
        EXPECT_LE(e.norm().item<double>(), start * (1 + 1e-6 * (1 + scale * 1e-3)));
      }
    }
  }
}

TEST(PartialModes, AreWithinTheirBoundOfAllModes) {
  for (const Tensor& theta : kernels()) {
    for (const double scale : {0.1, 1.0, 30.0, 1e4}) {
      for (const int64_t count : {1, 5, 12}) {
        SCOPED_TRACE(testing::Message() << count << " modes, step " << scale);
        const auto modes = leading(theta, count);
        const auto partial = lqr_of(modes, scale);
        const auto dense = lqr_of(spectrum_of(theta), scale);
        const double k0 = control::gain_of_slow_modes(1.0, 0.1);
        const double gap =
            k0 -
            partial.law().augments(torch::full({1}, partial.tail_step(), kDouble)).item<double>();
        const Tensor difference = partial.gain_matrix() - dense.gain_matrix();
        const Tensor moved = scale * theta.mm(difference);
        const auto norm = [](const Tensor& M) {
          return torch::linalg_svdvals(M)[0].item<double>();
        };
        // Vectors turn by their residual of 10⁻¹⁰ over the distance to the next eigenvalue, 10⁻³.
        EXPECT_LE(norm(difference), gap + 1e-6);
        EXPECT_LE(norm(moved), partial.tail_step() * gap + 1e-6 * (1 + scale));
        EXPECT_GE(partial.tail_step(), 0);
      }
    }
  }
}

TEST(PartialModes, SteerAsTheirMatrixAndPromiseNoLess) {
  for (const Tensor& theta : kernels()) {
    const auto modes = leading(theta, 7);
    for (const double scale : {0.5, 40.0}) {
      const auto controller = lqr_of(modes, scale);
      torch::manual_seed(6);
      const Tensor e = torch::randn({40}, kDouble);
      const Tensor G = controller.matrix();
      EXPECT_LE(relative_error(controller.steer(e), G.mv(e)), 1e-12);
      EXPECT_LE(relative_error(G - torch::eye(40, kDouble), controller.gain_matrix()), 1e-12);
      EXPECT_LE(relative_error(controller.augment(e, torch::zeros_like(e)), e - G.mv(e)), 1e-12);
      const double next = (e - scale * theta.mv(controller.steer(e))).norm().item<double>();
      EXPECT_LE(next, controller.predict(e).norm().item<double>() * (1 + 1e-7));
      EXPECT_LE(controller.closed_loop_radius(), 1);
      EXPECT_TRUE(controller.tail_step() == 0 || controller.closed_loop_radius() == 1);
      EXPECT_TRUE(std::isinf(controller.optimal_cost(e)));
      const Tensor within = modes.reachable_vectors().mv(torch::ones({modes.rank}, kDouble));
      EXPECT_NEAR(
          controller.optimal_cost(within) /
              (0.5 * torch::dot(within, controller.cost_matrix().mv(within)).item<double>()),
          1, 1e-10);
    }
  }
}

TEST(PartialModes, AllModesGiveTheDenseController) {
  const Tensor theta = test::random_kernel(9, 9, 1.0, 7);
  const auto all = leading(theta, 9);
  for (const double scale : {0.5, 40.0}) {
    const auto one = lqr_of(all, scale);
    const auto other = lqr_of(spectrum_of(theta), scale);
    EXPECT_EQ(one.tail_step(), 0);
    EXPECT_LE(relative_error(one.matrix(), other.matrix()), 1e-11);
    EXPECT_NEAR(one.closed_loop_radius(), other.closed_loop_radius(), 1e-11);
  }
}

TEST(PartialModes, StabilityAndMarginsAreBounds) {
  for (const Tensor& theta : kernels()) {
    const auto modes = leading(theta, 5);
    const auto dense = spectrum_of(theta);
    for (const double scale : {0.5, 1.9, 2.1}) {
      const auto bound = analysis::assess_stability(modes, scale);
      const auto exact = analysis::assess_stability(dense, scale);
      EXPECT_GE(bound.kappa.upper, exact.kappa.value * (1 - 1e-12));
      EXPECT_LE(bound.kappa.lower, exact.kappa.value * (1 + 1e-12));
      EXPECT_LE(bound.margin.lower, exact.margin.value * (1 + 1e-12));
      EXPECT_GE(bound.margin.upper, exact.margin.value * (1 - 1e-12));
      EXPECT_TRUE(!bound.stable || exact.stable);
      const control::ModalController controller(control::Plant::of_modes(modes, {.rate = scale}),
                                                control::lqr(1, 0.1));
      const double margin = controller.certificate().kernel_margin.lower;
      const Tensor grown = in_loop(0.999 * margin * theta, scale, controller.matrix());
      EXPECT_LE(torch::linalg_eigvals(grown).abs().max().item<double>(), 1 + 1e-9);
    }
  }
}

TEST(PartialModes, AreRefusedWhereAllAreNeeded) {
  const Tensor theta = test::random_kernel(10, 10, 1.0, 8);
  const auto modes = leading(theta, 3);
  const Tensor ones = torch::ones({10}, kDouble);
  EXPECT_THAT([&] { test::gain_of(modes, 0.1, ones, ones); },
              ThrowsMessage<InvalidArgument>(HasSubstr("all 10 modes")));
  EXPECT_THROW(control::assess_detectability(modes, 0.1, ones), InvalidArgument);
  EXPECT_THROW(dynamics::modal_problem(modes, ones), InvalidArgument);
}

TEST(ModalLqrController, TakesTheRankFromTheNetworksPrecision) {
  // Between float64's tolerance of 4·2·10⁻¹⁶ and float32's of 4·10⁻¹⁴.
  const Tensor theta = torch::diag(torch::tensor({1e-14, 0.1, 0.5, 1.0}, kDouble));
  EXPECT_EQ(lqr_of(theta, 1.0).plant().modes().rank, 3);
  EXPECT_EQ(test::plant_of(theta, 1.0, torch::kFloat64).modes().rank, 4);
}

}  // namespace
}  // namespace cdt
