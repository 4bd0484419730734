#include <cdt/control/spectral.h>
#include <cdt/train/loop/ridge_feedback.h>
#include <cdt/train/trainer.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using torch::Tensor;

/// A kernel of known modes, from fast to slower than any rate; the last one is null.
struct Known {
  Tensor vectors, values, kernel;

  explicit Known(int64_t n) {
    torch::manual_seed(4);
    vectors = std::get<0>(torch::linalg_qr(torch::randn({n, n}, torch::kFloat64)));
    values = torch::logspace(3, -9, n, 10, torch::kFloat64);
    values[n - 1] = 0;
    kernel = (vectors * values).mm(vectors.t());
    kernel = (kernel + kernel.t()) / 2;
  }
};

TEST(RidgeFeedback, EveryModeIsLeftWithItsShare) {
  const Known known(20);
  const Tensor labels = torch::randn({20}, torch::kFloat64);
  const RidgeFeedback::Options options{loss::sse(), 1.0, 0.1, 1e-12};
  RidgeFeedback feedback(known.kernel, labels, options);
  EXPECT_NEAR(feedback.unit_rate(), 1e-3, 1e-12);
  const double rate = 10.0;  // with c_L = 1, the steps s are 10 λ
  feedback.design(rate);
  const Tensor outputs = torch::randn({20, 1}, torch::kFloat64);
  const Tensor error = outputs.reshape({-1}) - labels;
  const Tensor modal = known.vectors.t().mv(error);
  const Tensor s = known.values * rate;
  for (const double share : {1.0, 0.3}) {
    const Proposal proposal = feedback.propose(feedback.state(outputs), rate * share);
    const Tensor left = 1 - share + share / (1 + s * std::sqrt(11.0));
    // Θ is off by ε·10³, a ten-thousandth of μ by 10⁻⁹.
    EXPECT_LE(test::relative_error(known.vectors.t().mv(proposal.prediction), left * modal), 1e-9);
    // And that is what the seed does to a linear network's outputs.
    EXPECT_LE(test::relative_error(error - known.kernel.mv(proposal.seed), proposal.prediction),
              1e-9);
  }
  const Steered steered = feedback.steer(outputs);
  const Proposal whole = feedback.propose(error, rate);
  EXPECT_LE(test::relative_error(steered.seed * rate, whole.seed), 1e-14);
  EXPECT_DOUBLE_EQ(steered.augment().norm().item<double>(), whole.augment_norm);
}

TEST(RidgeFeedback, AgreesWithTheControllerAtBothEndsOfTheSpectrum) {
  for (const double s : {1e-6, 1e-5, 1e-4, 1e3, 1e4, 1e5}) {
    const double ridge = 1 / (1 + s * std::sqrt(11.0));
    const Tensor one = torch::ones({1, 1}, torch::kFloat64);
    const auto modes = dynamics::decompose(one, 0);
    const auto controller = control::design_spectral(modes, s, {1.0, 0.1, {}});
    const double exact = 1 - s * controller.gains.steering.item<double>();
    // Slow: the same to first order in s. Fast: both next to nothing.
    if (s < 1) {
      EXPECT_NEAR(1 - ridge, 1 - exact, 6 * s * (1 - exact));
    } else {
      EXPECT_LE(std::abs(ridge - exact), 1 / s);
    }
  }
}

TEST(RidgeFeedback, IsSettledWhereOnlyErrorsOutOfReachAreLeft) {
  const Known known(20);
  const Tensor zero = torch::zeros({20}, torch::kFloat64);
  const RidgeFeedback feedback(known.kernel, zero, {loss::mse(), 1.0, 0.1, 1e-12});
  const Tensor null = known.vectors.select(1, 19);
  EXPECT_TRUE(feedback.settled(null, 0));
  EXPECT_FALSE(feedback.settled(null + 0.1 * known.vectors.select(1, 18), 0));
  EXPECT_TRUE(feedback.settled(null + 0.1 * known.vectors.select(1, 18), 0.2));
}

TEST(RidgeFeedback, AKernelThatIsNoneIsDampedUntilItHasAFactor) {
  const Tensor indefinite = torch::diag(torch::tensor({1.0, -5.0}, torch::kFloat64));
  RidgeFeedback feedback(indefinite, torch::zeros({2}, torch::kFloat64), {});
  feedback.design(1e6);
  const Proposal proposal = feedback.propose(torch::ones({2}, torch::kFloat64), 1e6);
  EXPECT_TRUE(proposal.seed.isfinite().all().item<bool>());
}

// Guarded runs that only want to arrive take it; those with a rate keep to the controller.
TEST(RidgeFeedback, ServesGuardedRunsWithoutARate) {
  const TrainData data = test::smooth_data(20, 1, 3);
  const auto kernel_in = [&](const TrainOptions& options) {
    nn::Mlp net = test::small_network(4, 1, 9);
    TrainHooks hooks;
    SafeTensors last;
    hooks.checkpoint = [&](const SafeTensors& content) { last = content; };
    const auto result = Trainer(net, data, options).run(hooks);
    EXPECT_LT(result.train_loss, 1e-3 * result.history.front().train_loss);
    return last.tensors.contains("plan.0.kernel");
  };
  TrainOptions options;
  options.steps = 20;
  EXPECT_TRUE(kernel_in(options));
  options.learning_rate = 1e4;
  EXPECT_FALSE(kernel_in(options));
  options.learning_rate.reset();
  options.linearization_error = true;
  EXPECT_FALSE(kernel_in(options));
}

}  // namespace
}  // namespace cdt::train
