// Damped steps that are solved: the step beside torch's own solver, the certificate beside
// eigenvalues of the loop.
#include <cdt/control/apply/solve.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"

namespace cdt::control {
namespace {

using test::kDouble;
using torch::Tensor;

const double kBoost = std::sqrt(11.0);

Plant plant_of(const Tensor& kernel, double rate) {
  return Plant::of_kernel(kernel, 1e-12, {.gradient_factor = 0.5, .rate = rate});
}

TEST(SolveController, SolvesTheEquationOfItsStep) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Tensor kernel = test::random_kernel(12, 9, 4, seed);
    for (const double rate : {1e-3, 1.0, 1e3}) {
      const SolveController controller(plant_of(kernel, rate), kBoost);
      const double mu = 1 / (0.5 * rate * kBoost);
      EXPECT_NEAR(controller.damping(), mu, 1e-14 * mu);
      const Tensor x = torch::randn({12}, kDouble);
      const Tensor shifted = kernel + mu * torch::eye(12, kDouble);
      const Tensor u = std::get<0>(torch::linalg_solve_ex(shifted, x.unsqueeze(1))).squeeze(1);
      for (const double share : {1.0, 0.25}) {
        const Step step = controller.step(x, share);
        EXPECT_LE(test::relative_error(step.u, u), 1e-9);
        EXPECT_LE((step.left - (x - share * kernel.mv(u))).norm().item<double>(), 1e-9);
        EXPECT_DOUBLE_EQ(step.merit, step.left.square().sum().item<double>());
        EXPECT_TRUE(step.complete);
      }
      // As the law of modes has it, which `steer` is.
      const ModalController modal(plant_of(kernel, rate), damped(damping_like(1, 0.1)));
      EXPECT_LE(test::relative_error(controller.steer(x), modal.steer(x)), 1e-9);
      EXPECT_LE((controller.predict(x) - modal.predict(x)).norm().item<double>(), 1e-9);
    }
  }
}

TEST(SolveController, ItsCertificateIsThatOfTheLoop) {
  const Tensor kernel = test::kernel_with({0, 0, 1e-3, 0.1, 2, 5}, 3);
  const double rate = 7;
  const SolveController controller(plant_of(kernel, rate), kBoost);
  const Tensor x = torch::randn({6}, kDouble);
  controller.step(x);
  const double mu = controller.damping();
  const auto factors = [&](double growth) {  // of the loop where the kernel has grown
    const Tensor G = torch::linalg_inv(kernel + mu * torch::eye(6, kDouble));
    return torch::linalg_eigvals(torch::eye(6, kDouble) - growth * kernel.mm(G));
  };
  const Certificate found = controller.certificate(kernel);
  EXPECT_LE(found.residual, 1e-12);
  EXPECT_GE(found.residual, 0);
  EXPECT_TRUE(found.radius.exact());
  // Of reachable modes, which four are.
  const Tensor sizes = std::get<0>(torch::abs(factors(1)).sort(0, /*descending=*/true));
  EXPECT_NEAR(found.radius.value, sizes[2].item<double>(), 1e-9);
  const auto radius = [&](double growth) {
    return torch::abs(factors(growth)).max().item<double>();
  };
  EXPECT_LE(radius(found.kernel_margin.value * (1 - 1e-6)), 1 + 1e-9);
  EXPECT_GT(radius(found.kernel_margin.value * (1 + 1e-6)), 1 + 1e-9);
  const auto lowest = [&](double growth) {
    return torch::real(factors(growth)).min().item<double>();
  };
  EXPECT_NEAR(lowest(found.overshoot_margin.value), 0, 1e-9);
  // Errors that no label reaches stay; the rest by their size.
  const Tensor spectrum = found.spectrum;
  ASSERT_EQ(spectrum.size(1), 6);
  EXPECT_LE(test::relative_error(spectrum[0], torch::linalg_eigvalsh(kernel).clamp_min(0)), 1e-9);
  // Without the kernel nothing is decomposed, and the slowest mode is not known.
  const Certificate cheap = controller.certificate();
  EXPECT_FALSE(SolveController(plant_of(kernel, rate), kBoost).certificate().radius.exact());
  EXPECT_EQ(cheap.digest, found.digest);
  EXPECT_NE(SolveController(plant_of(kernel, 2 * rate), kBoost).certificate().digest, found.digest);
}

/// Refuses until it was asked so often.
class Reluctant : public Solver {
 public:
  explicit Reluctant(int refusals) : refusals_(refusals) {}
  std::optional<Solution> solve(const Tensor& x, double mu) override {
    if (refusals_-- > 0) return std::nullopt;
    Solution solution;
    solution.delta = x / mu;
    solution.left = x / 2;
    solution.complete = false;
    return solution;
  }
  bool takes_any() const override { return false; }
  double residual(const Tensor&, const Solution&, double) override { return 0.25; }
  Known largest() const override { return Known::within(2, 8); }
  std::optional<Spectrum> spectrum() override { return std::nullopt; }
  Tensor probe() const override { return torch::ones({1}, kDouble); }
  std::string name() const override { return "patience"; }

 private:
  int refusals_;
};

TEST(SolveController, DampsUntilThereIsASolution) {
  const Plant plant = Plant::of_products(3, 2, {.rate = 0.5});
  const auto with = [&](int refusals) {
    return SolveController(
        plant, 1, [refusals](const Plant&) { return std::make_shared<Reluctant>(refusals); });
  };
  const SolveController controller = with(3);
  const Tensor x = torch::ones({3}, kDouble);
  EXPECT_TRUE(std::isnan(controller.certificate().residual)) << "nothing was solved yet";
  const Step step = controller.step(x, 0.5);
  EXPECT_DOUBLE_EQ(controller.damping(), 2 * 64);
  EXPECT_TRUE(step.delta.allclose(x / 128));
  EXPECT_TRUE(step.left.allclose(0.75 * x));
  EXPECT_FALSE(step.complete);
  EXPECT_THROW(controller.steer(x), InvalidArgument);
  const Certificate found = controller.certificate(torch::eye(3, kDouble));
  EXPECT_EQ(found.residual, 0.25);
  EXPECT_EQ(found.controller, "damped, by patience");
  EXPECT_DOUBLE_EQ(found.kernel_margin.lower, 2 * (1 + 128.0 / 8));
  EXPECT_THROW(with(100000).step(x), NumericalError);
}

TEST(SolveController, AKernelThatIsNoneIsDampedUntilItHasAFactor) {
  const Tensor indefinite = torch::diag(torch::tensor({1.0, -5.0}, torch::kFloat64));
  const SolveController controller(plant_of(indefinite, 1e6), kBoost);
  EXPECT_TRUE(controller.step(torch::ones({2}, kDouble)).u.isfinite().all().item<bool>());
  EXPECT_GT(controller.damping(), 5);
}

TEST(SolveController, KeepsItsSolverForAnotherRateAndMakesOneForAnotherKernel) {
  int made = 0;
  const auto make = [&made](const Plant& plant) {
    ++made;
    return make_cholesky(plant);
  };
  const Plant plant = plant_of(test::random_kernel(5, 5, 1, 1), 1);
  const SolveController controller(plant, kBoost, make);
  const auto faster = controller.redesigned(plant.at(4));
  EXPECT_EQ(made, 1);
  EXPECT_DOUBLE_EQ(dynamic_cast<const SolveController&>(*faster).damping(),
                   controller.damping() / 4);
  controller.redesigned(plant_of(test::random_kernel(5, 5, 1, 2), 1));
  EXPECT_EQ(made, 2);
}

TEST(Plant, OfProductsKnowsItsLargestEigenvalueAlone) {
  const Plant plant = Plant::of_products(3, 4, {.gradient_factor = 0.5, .samples = 2});
  EXPECT_EQ(plant.size(), 3);
  EXPECT_DOUBLE_EQ(plant.unit_rate(), 1);  // c = ¼
  EXPECT_DOUBLE_EQ(plant.at(3).step_scale(), 0.75);
  EXPECT_THROW(plant.modes(), InvalidArgument);
  EXPECT_THROW(plant.matrix(), InvalidArgument);
  EXPECT_TRUE(plant.shares(plant.at(7)));
  EXPECT_FALSE(plant.shares(Plant::of_products(3, 4, {})));
}

// One step as a guard judges it: what is left, its merit, and the augment, by plain products.
TEST(Step, OfEveryControllerIsSteerAndPredict) {
  const Tensor kernel = test::random_kernel(6, 6, 3, 2);
  const Plant plant = plant_of(kernel, 0.4);
  const Tensor x = torch::randn({6}, kDouble);
  const Tensor K = 0.3 * torch::eye(6, kDouble);
  const auto linear = [](const Tensor& e) { return -0.3 * e; };
  std::vector<std::unique_ptr<Controller>> all;
  all.push_back(design(plant));
  all.push_back(from_gain(plant, K));
  all.push_back(from_function(plant, linear));
  for (const auto& each : all) {
    for (const double share : {1.0, 0.2}) {
      const Step step = each->step(x, share);
      const Tensor v = each->steer(x);
      const Tensor left = x - share * 0.2 * kernel.mv(v);
      EXPECT_LE(test::relative_error(step.v, v), 1e-12);
      EXPECT_LE(test::relative_error(step.left, left), 1e-12);
      EXPECT_NEAR(step.merit, each->merit(left), 1e-12 * step.merit);
      EXPECT_NEAR(step.augment, (v - x).norm().item<double>(), 1e-12);
    }
    const Tensor& V = plant.modes().vectors;
    const Tensor modal = torch::randn({6}, kDouble);
    EXPECT_LE(test::relative_error(V.mv(each->steer_modes(modal)), each->steer(V.mv(modal))),
              1e-12);
  }
}

}  // namespace
}  // namespace cdt::control
