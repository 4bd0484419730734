// Steps taken blind, many at a time, against the same steps one by one: the same bits, the same
// history, the same end.
#include <cdt/core/error.h>
#include <cdt/nn/conv_net.h>
#include <cdt/nn/engine.h>
#include <gmock/gmock.h>

#include <functional>

#include "train/problem.h"

namespace cdt::train {
namespace {

using test::class_data;
using test::same_bits;
using test::smooth_data;
using torch::Tensor;

nn::Mlp stride_network(nn::Activation activation, int64_t outputs) {
  nn::MlpOptions options;
  options.inputs = 4;
  options.hidden = {24, 24};
  options.outputs = outputs;
  options.activation = activation;
  return nn::Mlp(options, 7, torch::kFloat32);
}

/// All but the times.
std::string text_of(std::vector<StepRecord> history) {
  for (StepRecord& row : history) row.seconds = 0;
  return to_csv(history);
}

struct Ran {
  TrainResult result;
  std::vector<Tensor> parameters;
  int64_t looks = 0;
};

Ran run_by(const StrideOptions& stride, const TrainOptions& options, const TrainData& data,
           nn::Activation activation = nn::Activation::kRelu) {
  const nn::Mlp net = stride_network(activation, data.y.size(1));
  Trainer trainer(net, data, options, nn::make_engine(net));
  trainer.stride_by(stride);
  Ran ran;
  TrainHooks hooks;
  hooks.stop_requested = [&] { return ++ran.looks < 0; };
  ran.result = trainer.run(hooks);
  ran.parameters = test::parameters_of(net);
  return ran;
}

void expect_same(const Ran& strided, const Ran& stepped) {
  EXPECT_EQ(strided.result.outcome, stepped.result.outcome);
  EXPECT_EQ(strided.result.steps, stepped.result.steps);
  EXPECT_EQ(strided.result.linearizations, stepped.result.linearizations);
  EXPECT_EQ(strided.result.best_step, stepped.result.best_step);
  EXPECT_EQ(strided.result.best_kept, stepped.result.best_kept);
  EXPECT_EQ(text_of(strided.result.history), text_of(stepped.result.history));
  if (stepped.result.outcome != Outcome::kDiverged) {
    EXPECT_EQ(strided.result.train_loss, stepped.result.train_loss);
    EXPECT_EQ(strided.result.val_loss, stepped.result.val_loss);
    EXPECT_TRUE(same_bits(strided.parameters, stepped.parameters));
  }
}

struct StrideCase {
  std::string name;
  TrainOptions options;
  TrainData data;
  nn::Activation activation = nn::Activation::kRelu;
  Outcome end = Outcome::kSteps;
};

std::vector<StrideCase> stride_cases() {
  std::vector<StrideCase> all;
  const TrainData smooth = smooth_data(20, 1, 3, torch::kFloat32);
  const auto add = [&](const std::string& name, Method method,
                       const std::function<void(StrideCase&)>& change) {
    StrideCase found{name, {}, smooth};
    found.options.method = method;
    found.options.steps = 40;
    found.options.validate_every = 3;
    change(found);
    all.push_back(found);
  };
  for (const Method method : {"gd", "gd-matched", "cdt"}) {
    add(to_string(method), method, [](StrideCase&) {});
    add(to_string(method) + " by the graph", method,
        [](StrideCase& c) { c.activation = nn::Activation::kTanh; });
    add(to_string(method) + " with a schedule and decay", method, [](StrideCase& c) {
      c.options.schedule = {Schedule::Kind::kInverse, 0.05};
      c.options.weight_decay = 1e-2;
    });
    add(to_string(method) + " to a loss", method, [](StrideCase& c) {
      c.options.stop_loss = 0.02;
      c.options.steps = 2000;
      c.end = Outcome::kTarget;
    });
    add(to_string(method) + " to a plateau", method, [](StrideCase& c) {
      c.options.plateau = 4;
      c.options.learning_rate = 1e-7;
      c.end = Outcome::kPlateau;
    });
  }
  add("cdt with new kernels", "cdt",
      [](StrideCase& c) { c.options.relinearize = parse_relinearization("every:9"); });
  add("cdt, watched", "cdt", [](StrideCase& c) { c.options.linearization_error = true; });
  add("cdt with weights", "cdt",
      [](StrideCase& c) { c.data.sample_weights = torch::linspace(0.5, 2, 20, torch::kFloat64); });
  add("gd that diverges", "gd", [](StrideCase& c) {
    c.options.learning_rate = 50;
    c.options.steps = 500;
    c.end = Outcome::kDiverged;
  });
  add("gd that is patient", "gd", [](StrideCase& c) {
    c.data.y_val = -c.data.y_val;  // what is learned does not help
    c.options.patience = 7;
    c.options.validate_every = 1;
    c.options.steps = 1000;
    c.end = Outcome::kEarlyStopping;
  });
  add("gd on absolute errors", "gd", [](StrideCase& c) {
    c.options.loss = loss::mae();
    c.options.learning_rate = 0.01;
  });
  add("gd on classes", "gd", [](StrideCase& c) {
    c.data = class_data(20, 3, 5, torch::kFloat32);
    c.options.loss = loss::cross_entropy();
    c.options.smoothing = 0.1;
    c.options.stop_loss = 0.3;
    c.options.steps = 3000;
    c.end = Outcome::kTarget;
  });
  add("cdt on classes", "cdt", [](StrideCase& c) {
    c.data = class_data(20, 3, 5, torch::kFloat32);
    c.options.loss = loss::cross_entropy();
  });
  add("guarded", "guarded", [](StrideCase& c) { c.end = Outcome::kFloor; });
  add("batches", "gd", [](StrideCase& c) { c.options.batch = 6; });
  return all;
}

TEST(Strides, AreTheSameSteps) {
  for (const StrideCase& each : stride_cases()) {
    const Ran stepped = run_by({.most = 1}, each.options, each.data, each.activation);
    EXPECT_EQ(stepped.result.outcome, each.end) << each.name;
    for (const int64_t most : {2, 7, 64}) {
      SCOPED_TRACE(c10::str(each.name, ", ", most, " a stride"));
      expect_same(run_by({.most = most}, each.options, each.data, each.activation), stepped);
    }
  }
}

TEST(Strides, OfManyShortStepsPlaySeveralAsOne) {
  TrainOptions options;
  options.method = "gd";
  options.steps = 1100;  // enough to be worth it
  options.schedule = {Schedule::Kind::kInverse, 0.01};
  for (const int64_t every : {1, 7, 50, 2000}) {
    SCOPED_TRACE(every);
    options.validate_every = every;
    const TrainData data = test::smooth_data(20, 1, 3, torch::kFloat32);
    expect_same(run_by({.most = 150}, options, data), run_by({.most = 1}, options, data));
  }
}

TEST(Strides, LookOnce) {
  TrainOptions options;
  options.steps = 101;
  const TrainData data = smooth_data(20, 1, 3, torch::kFloat32);
  for (const auto& [method, looks] :
       // the first step, ten strides, the end; what is watched by nature is looked at
       {std::pair{"gd", 12}, {"cdt", 12}, {"adam", 102}}) {
    options.method = method;
    EXPECT_EQ(run_by({.most = 10}, options, data).looks, looks) << method;
    // Elsewhere than on a GPU looking is free.
    EXPECT_EQ(run_by({}, options, data).looks, 102) << method;
  }
}

TEST(Strides, RowsComeInOrderAndLateOnlyIfTheyMay) {
  TrainOptions options;
  options.method = "gd";
  options.steps = 21;
  const TrainData data = smooth_data(20, 1, 3, torch::kFloat32);
  for (const bool lag : {false, true}) {
    SCOPED_TRACE(lag);
    const nn::Mlp net = stride_network(nn::Activation::kRelu, 1);
    Trainer trainer(net, data, options, nn::make_engine(net));
    trainer.stride_by({.most = 10});
    std::vector<int64_t> steps;
    std::vector<Tensor> last;
    int64_t moved = 0;
    TrainHooks hooks;
    hooks.rows_may_lag = lag;
    hooks.on_step = [&](const StepRecord& row) {
      steps.push_back(row.step);
      if (!last.empty() && !same_bits(test::parameters_of(net), last)) ++moved;
      last = test::parameters_of(net);
    };
    const TrainResult result = trainer.run(hooks);
    ASSERT_EQ(steps.size(), 22U);
    for (int64_t k = 0; k < 22; ++k) EXPECT_EQ(steps[static_cast<size_t>(k)], k);
    EXPECT_EQ(moved, lag ? 2 : 20);
    for (size_t k = 1; k < result.history.size(); ++k) {
      EXPECT_GE(result.history[k].seconds, result.history[k - 1].seconds);
    }
  }
}

TEST(Strides, ResumeAnywhere) {
  const TrainData data = smooth_data(20, 1, 3, torch::kFloat32);
  for (const Method method : {"gd", "cdt"}) {
    TrainOptions options;
    options.method = method;
    options.steps = 50;
    options.patience = 30;
    options.schedule = {Schedule::Kind::kCosine};
    if (method == "cdt") options.relinearize = parse_relinearization("every:20");
    const Ran stepped = run_by({.most = 1}, options, data);
    for (const int64_t strides : {1, 2, 4}) {
      SCOPED_TRACE(c10::str(to_string(method), " after ", strides));
      const nn::Mlp net = stride_network(nn::Activation::kRelu, 1);
      Trainer first(net, data, options, nn::make_engine(net));
      first.stride_by({.most = 8});
      int64_t looks = 0;
      TrainHooks hooks;
      hooks.stop_requested = [&] { return looks++ > strides; };
      SafeTensors saved;
      hooks.checkpoint = [&](const SafeTensors& content) { saved = content; };
      ASSERT_EQ(first.run(hooks).outcome, Outcome::kInterrupted);
      const nn::Mlp other = stride_network(nn::Activation::kRelu, 1);
      Trainer second(other, data, options, nn::make_engine(other));
      second.stride_by({.most = 5});
      second.restore(saved);
      Ran resumed{second.run(), test::parameters_of(other)};
      expect_same(resumed, stepped);
      // And whoever was interrupted goes on by himself.
      expect_same({first.run(), test::parameters_of(net)}, stepped);
    }
  }
}

TEST(Strides, TheTimeLimitHoldsWithinOne) {
  TrainOptions options;
  options.method = "gd";
  options.steps = 1000000;
  options.max_seconds = 0.2;
  const Ran ran = run_by({.most = 1 << 12}, options, smooth_data(20, 1, 3, torch::kFloat32));
  EXPECT_EQ(ran.result.outcome, Outcome::kTime);
  EXPECT_EQ(ran.result.steps, static_cast<int64_t>(ran.result.history.size()) - 1);
}

TEST(Strides, AreOfModelsThatPromiseTheSameOperations) {
  TrainOptions options;
  options.method = "gd";
  options.steps = 30;
  const nn::Mlp net = stride_network(nn::Activation::kRelu, 1);
  Trainer trainer(net, smooth_data(20, 1, 3, torch::kFloat32), options);  // any model, by the graph
  trainer.stride_by({.most = 10});
  int64_t looks = 0;
  TrainHooks hooks;
  hooks.stop_requested = [&] { return ++looks < 0; };
  trainer.run(hooks);
  EXPECT_EQ(looks, 31);
  EXPECT_THROW(trainer.stride_by({.most = -1}), InvalidArgument);
}

TEST(Strides, TakeNetworksForPictures) {
  TrainData data;
  torch::manual_seed(4);
  data.x = torch::randn({6, 3, 16, 16});
  data.y = torch::randn({6, 2}, torch::kFloat64);
  TrainOptions options;
  options.steps = 11;
  for (const Method method : {"gd", "cdt"}) {
    options.method = method;
    std::vector<std::string> histories;
    for (const int64_t most : {1, 4}) {
      const nn::ConvNet net(nn::cnn_options({3, 16, 16}, {6}, 2), 3);
      Trainer trainer(net, data, options, nn::make_engine(net));
      trainer.stride_by({.most = most});
      histories.push_back(text_of(trainer.run().history));
    }
    EXPECT_EQ(histories[0], histories[1]) << to_string(method);
  }
}

}  // namespace
}  // namespace cdt::train
