// The guard's promise: the objective of all training samples, weights, smoothing and weight decay
// included, never ends higher than it began, and is recorded beside the loss.
#include <gmock/gmock.h>

#include <cmath>

#include "train/problem.h"

namespace cdt::train {
namespace {

using torch::Tensor;

struct Promise {
  nn::Activation activation = nn::Activation::kTanh;
  int64_t batch = 0;
  bool reshuffle = false;
  bool weighted = false;
  double decay = 0;
  int64_t classes = 0;  ///< 0: numbers
  uint64_t seed = 1;

  std::string name() const {
    return c10::str("activation ", static_cast<int>(activation), ", batch ", batch,
                    reshuffle ? ", reshuffled" : "", weighted ? ", weighted" : "", ", decay ",
                    decay, ", classes ", classes, ", seed ", seed);
  }
  nn::Mlp network() const {
    nn::MlpOptions options;
    options.inputs = 4;
    options.hidden = {12, 12};
    options.outputs = classes > 0 ? classes : 1;
    options.activation = activation;
    return nn::Mlp(options, seed, torch::kFloat32);
  }
  /// Conflicts and noise, so that the batches want different things.
  TrainData data() const {
    TrainData data = classes > 0 ? test::class_data(24, classes, seed, torch::kFloat32)
                                 : test::smooth_data(24, 1, seed, torch::kFloat32);
    if (classes == 0) {
      data.y = data.y + 0.5 * torch::randn_like(data.y);
      data.x.narrow(0, 0, 4).copy_(data.x.narrow(0, 12, 4));
    }
    if (weighted) {
      data.sample_weights = torch::pow(10.0, torch::linspace(-2, 2, 24, torch::kFloat64));
    }
    return data;
  }
  TrainOptions options() const {
    TrainOptions options;
    options.batch = batch;
    options.reshuffle = reshuffle;
    options.weight_decay = decay;
    options.steps = batch > 0 ? 39 : 12;  // ends within an epoch
    if (classes > 0) options.loss = loss::cross_entropy();
    return options;
  }
};

/// F(θ), written out.
double objective_of(nn::Mlp net, const TrainData& data, const TrainOptions& options) {
  const torch::NoGradGuard no_graph;
  const Tensor outputs = net->forward(data.x).to(torch::kFloat64);
  double total = 0;
  if (options.loss->classes()) {
    const Tensor labels = 0.9 * data.y + 0.1 / static_cast<double>(data.y.size(1));
    Tensor each = -(labels * torch::log_softmax(outputs, 1)).sum(1);
    if (data.sample_weights.defined()) each = each * data.sample_weights;
    total = each.mean().item<double>();
  } else {
    Tensor square = (outputs - data.y).square();
    if (data.sample_weights.defined()) square = square * data.sample_weights.unsqueeze(1);
    total = square.mean().item<double>();
  }
  for (const Tensor& parameter : net->parameters()) {
    total += options.weight_decay / 2 * parameter.to(torch::kFloat64).square().sum().item<double>();
  }
  return total;
}

std::vector<Promise> promises() {
  std::vector<Promise> all;
  using nn::Activation;
  for (const Activation activation : {Activation::kTanh, Activation::kRelu, Activation::kGelu}) {
    for (const int64_t batch : {0, 6}) {
      for (const bool reshuffle : {false, true}) {
        if (reshuffle && batch == 0) continue;
        for (const double decay : {0.0, 1e-2}) {
          all.push_back({activation, batch, reshuffle, false, decay, 0});
          all.push_back({activation, batch, reshuffle, true, decay, 0});
          all.push_back({activation, batch, reshuffle, false, decay, 3});
          all.push_back({activation, batch, reshuffle, true, decay, 3});
        }
      }
    }
  }
  return all;
}

TEST(Promise, TheObjectiveNeverEndsHigherThanItBegan) {
  for (Promise promise : promises()) {
    for (const uint64_t seed : {1, 2}) {
      promise.seed = seed;
      SCOPED_TRACE(promise.name());
      nn::Mlp net = promise.network();
      const TrainData data = promise.data();
      const TrainOptions options = promise.options();
      const double began = objective_of(net, data, options);
      const auto result = Trainer(net, data, options).run();
      const double ended = objective_of(net, data, options);
      EXPECT_LE(ended, began * (1 + 1e-6));  // float32 outputs, summed in another order
      EXPECT_NEAR(result.history.front().objective, began, 1e-5 * began);
      EXPECT_NEAR(result.objective, ended, 1e-5 * ended);
      double last = result.history.front().objective;
      for (const StepRecord& row : result.history) {
        if (std::isnan(row.objective)) continue;
        ASSERT_LE(row.objective, last) << "step " << row.step;
        last = row.objective;
      }
      EXPECT_LE(result.objective, last);
      // Batches whose weights are 10⁴ apart may need more epochs than these until their rates fit.
      if (promise.weighted && promise.batch > 0) continue;
      EXPECT_LT(result.objective, 0.999 * began) << "and it learns";
    }
  }
}

/// And something is learned, however far the guard has to lower the rate.
TEST(Promise, HoldsWhateverTheRate) {
  // More labels than parameters, and smooth: steps of modes lie far apart.
  nn::MlpOptions shape;
  shape.inputs = 4;
  shape.hidden = {5, 5};
  shape.outputs = 2;
  shape.activation = nn::Activation::kSoftplus;
  for (const double rate : {1e-3, 1.0, 1e4, 1e7, 1e9, 1e12, 1e15, 1e18, 1e30, 1e100}) {
    for (const bool weighted : {false, true}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << (weighted ? ", weighted" : ""));
      constexpr uint64_t seed = 1;
      TrainData data = test::smooth_data(40, 2, seed, torch::kFloat32);
      if (weighted) data.sample_weights = torch::linspace(1, 10, 40, torch::kFloat64);
      nn::Mlp net(shape, seed, torch::kFloat32);
      TrainOptions options;
      options.learning_rate = rate;
      options.steps = 3;
      const double began = objective_of(net, data, options);
      const auto result = Trainer(net, data, options).run();
      EXPECT_LE(result.learning_rate, rate);
      EXPECT_LT(objective_of(net, data, options), began);
    }
  }
}

TEST(Promise, HoldsForARunThatIsInterruptedOrStopsEarly) {
  for (Promise promise : promises()) {
    if (promise.batch == 0 || promise.activation != nn::Activation::kGelu) continue;
    SCOPED_TRACE(promise.name());
    const TrainData data = promise.data();
    TrainOptions options = promise.options();
    nn::Mlp net = promise.network();
    int64_t done = 0;
    TrainHooks hooks;
    hooks.on_step = [&](const StepRecord&) { ++done; };
    hooks.stop_requested = [&] { return done >= 2; };
    const double began = objective_of(net, data, options);
    EXPECT_EQ(Trainer(net, data, options).run(hooks).outcome, Outcome::kInterrupted);
    EXPECT_LE(objective_of(net, data, options), began * (1 + 1e-6));
    options.patience = 3;
    nn::Mlp patient = promise.network();
    Trainer(patient, data, options).run();
    EXPECT_LE(objective_of(patient, data, options), began * (1 + 1e-6));
  }
}

TEST(Promise, AnInterruptedTrainerGoesOnAsIfNothingHadBeen) {
  for (Promise promise : promises()) {
    if (!promise.reshuffle || promise.activation != nn::Activation::kGelu) continue;
    if (promise.weighted) continue;
    SCOPED_TRACE(promise.name());
    nn::Mlp whole = promise.network();
    const auto undisturbed = Trainer(whole, promise.data(), promise.options()).run();
    nn::Mlp net = promise.network();
    Trainer trainer(net, promise.data(), promise.options());
    for (int64_t stop = 2; stop < 30; stop += 9) {
      int64_t left = 9;
      TrainHooks hooks;
      hooks.stop_requested = [&] { return left-- == 0; };
      trainer.run(hooks);
    }
    const auto result = trainer.run();
    EXPECT_EQ(result.outcome, undisturbed.outcome);
    EXPECT_EQ(result.rejected, undisturbed.rejected);
    EXPECT_TRUE(test::same_bits(test::parameters_of(net), test::parameters_of(whole)));
  }
}

}  // namespace
}  // namespace cdt::train
