// Where no single step descends: over a kink, or the run says that it is stuck. And the kernel that
// somebody has computed already.
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/ntk.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::small_network;
using test::smooth_data;
using torch::Tensor;

/// ŷ = 1 + u for u ≥ 0 and 1 − u/10 + gain·v behind the kink at u = 0, where it starts: its
/// gradient points over the kink, behind which ŷ rises at first, and v moves it.
struct Kink {
  explicit Kink(double gain) : gain(gain) {}

  kernel::Model model() {
    return {
        [this](const Tensor& x) { return x * torch::where(u >= 0, 1 + u, 1 - 0.1 * u + gain * v); },
        {u, v}};
  }
  bool at_start() const { return u.item<double>() == 0 && v.item<double>() == 0; }

  double gain;
  Tensor u = torch::zeros({1}, torch::kFloat64).requires_grad_(true);
  Tensor v = torch::zeros({1}, torch::kFloat64).requires_grad_(true);
};

TrainData one_sample() {
  TrainData data;
  data.x = torch::ones({1, 1}, torch::kFloat64);
  data.y = torch::zeros({1, 1}, torch::kFloat64);
  return data;
}

dynamics::Modes modes_at(const kernel::Model& model, const Tensor& x) {
  const Tensor theta = kernel::empirical_ntk(model, x).theta;
  return dynamics::decompose(theta, tol::rank_of_computed(theta.size(0), model.dtype()));
}

TEST(Escape, LeadsOverAKinkInTwoSteps) {
  for (const double gain : {1.0, 30.0}) {
    for (const bool adopted : {false, true}) {
      SCOPED_TRACE(testing::Message() << "gain " << gain << ", adopted " << adopted);
      Kink net(gain);
      TrainOptions options;
      options.steps = 20;
      options.stop_loss = 1e-12;
      Trainer trainer(net.model(), one_sample(), options);
      // Of the parameters before the kink, where v moves nothing: behind it another holds.
      if (adopted) trainer.adopt(modes_at(net.model(), one_sample().x), 0);
      const auto result = trainer.run();
      EXPECT_EQ(result.outcome, Outcome::kTarget) << result.in_words();
      EXPECT_LT(net.u.item<double>(), 0);
      EXPECT_GE(result.history[0].refreshed, 2) << "here and behind the kink";
      EXPECT_LT(result.history[1].train_loss, result.history[0].train_loss);
    }
  }
}

TEST(Escape, SaysThatItIsStuckAndLeavesTheParametersAlone) {
  Kink net(0);  // behind the kink nothing helps
  TrainOptions options;
  options.steps = 20;
  Trainer trainer(net.model(), one_sample(), options);
  const auto result = trainer.run();
  EXPECT_EQ(result.outcome, Outcome::kStuck);
  EXPECT_EQ(result.steps, 0);
  EXPECT_TRUE(net.at_start());
  EXPECT_EQ(result.train_loss, 1);
  EXPECT_THAT(result.in_words(), testing::HasSubstr("no step lowers the error"));
}

TEST(Escape, AnErrorOnTheWayBringsTheParametersBack) {
  Kink net(1);
  bool armed = false;
  const kernel::Model model = net.model();
  const kernel::Model fails(
      [&](const Tensor& x) {
        if (armed && !net.at_start()) throw NumericalError("behind the kink");
        return model.forward(x);
      },
      {net.u, net.v});
  Trainer trainer(fails, one_sample(), {});
  armed = true;
  EXPECT_THROW(trainer.step(), NumericalError);
  EXPECT_TRUE(net.at_start());
}

TEST(Adopt, TheFirstLinearizationTakesTheKernelThatIsThere) {
  for (const Method method : {"guarded", "cdt", "gd"}) {
    SCOPED_TRACE(to_string(method));
    const TrainData data = smooth_data(12, 1, 5);
    TrainOptions options;
    options.method = method;
    options.steps = 6;
    const auto run = [&](double scale) {
      nn::Mlp net = small_network(4, 1, 5);
      Trainer trainer(net, data, options);
      if (scale > 0) {
        dynamics::Modes modes = modes_at(net, data.x);
        modes.values = modes.values * scale;
        trainer.adopt(modes, 100);
      }
      const auto result = trainer.run();
      return std::pair(result, test::parameters_of(net));
    };
    const auto [plain, end] = run(0);
    const auto [adopted, same_end] = run(1);
    for (size_t i = 0; i < end.size(); ++i) {
      EXPECT_LE(test::relative_error(same_end[i], end[i]), 1e-9);
    }
    EXPECT_EQ(adopted.linearizations, plain.linearizations);
    // The time that it took is part of the run's, where the run would have needed it.
    EXPECT_EQ(adopted.seconds > 100, method->controlled);
    // And it is the adopted kernel that the rate comes from.
    EXPECT_NEAR(run(4).first.learning_rate, plain.learning_rate / 4, 1e-6 * plain.learning_rate);
  }
}

TEST(Adopt, IsIgnoredWhereItDoesNotBelong) {
  const TrainData data = smooth_data(12, 1, 5);
  nn::Mlp net = small_network(4, 1, 5);
  dynamics::Modes wrong = modes_at(net, data.x);
  wrong.values = wrong.values * 4;
  TrainOptions options;
  options.steps = 3;
  options.batch = 4;
  const auto learning_rate = [&](bool adopt, bool classes) {
    nn::Mlp fresh = small_network(4, classes ? 3 : 1, 5);
    TrainOptions own = options;
    TrainData samples = data;
    if (classes) {
      own.loss = loss::cross_entropy();
      own.batch = 0;
      samples = test::class_data(4, 3, 5);
    }
    Trainer trainer(fresh, samples, own);
    if (adopt) trainer.adopt(wrong, 1);
    return trainer.run().learning_rate;
  };
  EXPECT_EQ(learning_rate(true, false), learning_rate(false, false)) << "batches have their own";
  EXPECT_EQ(learning_rate(true, true), learning_rate(false, true)) << "and so have classes";
  options.batch = 0;
  Trainer other(net, smooth_data(10, 1, 5), options);
  EXPECT_THROW(other.adopt(wrong, 0), InvalidArgument);
  // After the first step it is of other parameters.
  nn::Mlp moved = small_network(4, 1, 5);
  Trainer late(moved, data, options);
  late.step();
  const auto before = test::parameters_of(moved);
  late.adopt(wrong, 0);
  TrainOptions renewing = options;
  late.step();
  nn::Mlp again = small_network(4, 1, 5);
  Trainer plain(again, data, renewing);
  plain.step();
  plain.step();
  EXPECT_TRUE(test::same_bits(test::parameters_of(moved), test::parameters_of(again)));
}

}  // namespace
}  // namespace cdt::train
