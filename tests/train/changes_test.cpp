// What others do to a model between two steps, whatever version counters say of it.
#include <cdt/core/error.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::kDouble;
using test::small_network;
using test::smooth_data;
using torch::Tensor;

double loss_of(const kernel::Model& model, const TrainData& data) {
  const torch::NoGradGuard no_graph;
  return torch::mse_loss(model.forward(data.x), data.y).item<double>();
}

/// No version counts it.
void scale_parameters(const kernel::Model& model, double factor) {
  for (const Tensor& parameter : model.parameters()) parameter.data().mul_(factor);
}

TEST(Changes, OfParametersBetweenStepsAreSeenAndNoStepRaisesTheLoss) {
  for (const double factor : {1.001, 1.2, 0.0}) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", factor " << factor);
      const TrainData data = smooth_data(20, 1, seed);
      nn::Mlp net = small_network(4, 1, seed);
      const kernel::Model model(net);
      Trainer trainer(model, data, {});
      for (int k = 0; k < 4; ++k) trainer.step();
      for (int k = 0; k < 3; ++k) {
        scale_parameters(model, factor);
        const double before = loss_of(model, data);
        const StepResult done = trainer.step();
        EXPECT_NEAR(done.record.train_loss, before, 1e-12 * before);
        EXPECT_LE(loss_of(model, data), before);
      }
    }
  }
}

TEST(Changes, OfBuffersAndModesAreSeen) {
  const TrainData data = smooth_data(20, 1, 2);
  nn::Mlp net = small_network(4, 1, 2);
  Tensor scale = torch::ones({1}, kDouble);  // a buffer, which may be replaced
  const kernel::Model model([&](const Tensor& x) { return net->forward(x) * scale; },
                            net->parameters());
  Trainer trainer(model, data, {});
  for (int k = 0; k < 3; ++k) trainer.step();
  for (const double value : {2.0, -1.0}) {
    scale = torch::full({1}, value, kDouble);
    const double before = loss_of(model, data);
    EXPECT_NEAR(trainer.step().record.train_loss, before, 1e-12 * before);
    EXPECT_LE(loss_of(model, data), before);
  }
  bool training = false;
  const kernel::Model random(
      [&](const Tensor& x) { return torch::dropout(net->forward(x), 0.5, training); },
      net->parameters());
  Trainer other(random, data, {});
  other.step();
  training = true;
  EXPECT_THROW(other.step(), InvalidArgument);
  EXPECT_THROW(other.run(), InvalidArgument);
}

TEST(Changes, ByACallbackAreSeen) {
  const TrainData data = smooth_data(20, 1, 3);
  nn::Mlp net = small_network(4, 1, 3);
  const kernel::Model model(net);
  TrainOptions options;
  options.steps = 6;
  TrainHooks hooks;
  double expected = loss_of(model, data);
  hooks.on_step = [&](const StepRecord& row) {
    EXPECT_NEAR(row.train_loss, expected, 1e-12 * expected) << row.step;
    if (row.step == 2) scale_parameters(model, 1.3);
    expected = loss_of(model, data);
  };
  Trainer(model, data, options).run(hooks);
}

TEST(Changes, WithinAnEpochAreNotTakenBack) {
  const TrainData data = smooth_data(32, 1, 4);
  nn::Mlp net = small_network(4, 1, 4);
  const kernel::Model model(net);
  TrainOptions options;
  options.batch = 8;
  options.steps = 100;
  Trainer trainer(model, data, options);
  for (int k = 0; k < 9; ++k) trainer.step();  // into the third epoch
  const double learned = loss_of(model, data);
  scale_parameters(model, 0);  // from here only the last bias has a gradient
  const double there = loss_of(model, data);
  ASSERT_GT(there, 3 * learned);
  for (int k = 9; k < 12; ++k) trainer.step();
  const StepResult next = trainer.step();  // where the fourth begins
  EXPECT_GT(next.record.train_loss, 2 * learned) << "the third epoch was taken back";
  EXPECT_LE(next.record.train_loss, there);
}

TEST(Changes, AfterARunAreWhereItGoesOn) {
  const TrainData data = smooth_data(20, 1, 5);
  nn::Mlp net = small_network(4, 1, 5);
  const kernel::Model model(net);
  TrainOptions options;
  options.patience = 2;
  options.steps = 30;
  Trainer trainer(model, data, options);
  trainer.run();
  scale_parameters(model, 1.5);
  const double before = loss_of(model, data);
  EXPECT_NEAR(trainer.step().record.train_loss, before, 1e-12 * before);
}

TEST(Weights, ThatAreAllEqualAreNone) {
  for (const double each : {1.0, 2.0, 0.3}) {
    const TrainData plain = smooth_data(24, 2, 6);
    TrainData weighted = plain;
    weighted.sample_weights = torch::full({24}, each, kDouble);
    weighted.output_weights = torch::full({2}, each, kDouble);
    for (const Method method : {"guarded", "path"}) {
      TrainOptions options;
      options.method = method;
      options.steps = 8;
      nn::Mlp one = small_network(4, 2, 6), other = small_network(4, 2, 6);
      Trainer(one, plain, options).run();
      Trainer(other, weighted, options).run();
      EXPECT_TRUE(test::same_bits(test::parameters_of(one), test::parameters_of(other)));
    }
  }
}

TEST(Weights, TakeNoMoreStepsThanNone) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::vector<TrainResult> results;
    for (const bool weighted : {false, true}) {
      TrainData data = smooth_data(40, 1, seed);
      torch::manual_seed(seed);
      if (weighted) data.sample_weights = torch::rand({40}, kDouble) * 10 + 0.1;
      nn::Mlp net = small_network(4, 1, seed, torch::kFloat64, 48);
      TrainOptions options;
      options.steps = 300;
      options.stop_loss = 1e-6;
      results.push_back(Trainer(net, data, options).run());
      EXPECT_EQ(results.back().outcome, Outcome::kTarget);
    }
    EXPECT_LE(results[1].steps, 3 * results[0].steps + 10);
    EXPECT_LE(results[1].linearizations, 3 * results[0].linearizations + 10);
    for (size_t k = 1; k < results[1].history.size(); ++k) {
      EXPECT_LE(results[1].history[k].objective, results[1].history[k - 1].objective);
    }
  }
}

/// A step with weights is the damped Gauss-Newton step of Σ w e², whose normal equations are
/// written out here.
TEST(Weights, AStepSolvesTheWeightedLeastSquares) {
  TrainData data = smooth_data(12, 2, 7);
  torch::manual_seed(7);
  data.sample_weights = torch::rand({12}, kDouble) + 0.2;
  data.output_weights = torch::tensor({1.0, 5.0}, kDouble);
  nn::Mlp net = small_network(4, 2, 7);
  const kernel::Model model(net);
  const Tensor outputs = model.forward(data.x).reshape({-1});
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < outputs.size(0); ++i) {
    rows.push_back(kernel::flatten(
        model, torch::autograd::grad({outputs[i]}, model.parameters(), {}, /*retain_graph=*/true)));
  }
  const Tensor J = torch::stack(rows);
  const Tensor w = torch::outer(data.sample_weights, data.output_weights).reshape({-1});
  const Tensor e = (outputs.detach() - data.y.reshape({-1}));
  const Tensor before = kernel::flatten(model, test::parameters_of(net));
  Trainer trainer(net, data, {});
  const StepResult done = trainer.step();
  ASSERT_EQ(done.record.rejected, 0);
  // μ = 1/(αc√(1 + q/p)), α as recorded.
  const double factor = loss::gradient_factor(loss::mse(), 24);
  const double damping = 1 / (done.record.learning_rate * factor * std::sqrt(1 + 1 / 0.1));
  const Tensor A = (J.t() * w).mm(J) + damping * torch::eye(J.size(1), kDouble);
  const Tensor step = -torch::linalg_solve(A, J.t().mv(w * e));
  const Tensor moved = kernel::flatten(model, test::parameters_of(net)) - before;
  EXPECT_LE(test::relative_error(moved, step), 1e-6);
}

}  // namespace
}  // namespace cdt::train
