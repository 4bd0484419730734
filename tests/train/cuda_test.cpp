// Training on a GPU: recorded steps are those that were not, and those of the CPU to rounding.
#include <cdt/core/machine/device.h>
#include <cdt/kernel/record/precision_scope.h>
#include <cdt/nn/conv_net.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/passes/mlp_stack.h>
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/together.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <cmath>
#include <functional>
#include <thread>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::same_bits;
using torch::Tensor;

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no CUDA device";
    prepare_device(torch::kCUDA);
    kernel::allow_tf32(false);  // as the program has it
  }
};

struct Ran {
  TrainResult result;
  std::vector<Tensor> parameters;  ///< on the CPU
};

/// All but the times.
std::string rows_of(const Ran& ran) {
  auto history = ran.result.history;
  for (StepRecord& row : history) row.seconds = 0;
  return to_csv(history);
}

Ran train_on(torch::Device device, const nn::Network& net, TrainData data,
             const TrainOptions& options, const StrideOptions& stride) {
  net->to(device);
  for (Tensor* each : {&data.x, &data.y, &data.x_val, &data.y_val}) {
    if (each->defined()) *each = each->to(device);
  }
  Trainer trainer(kernel::Model(net), data, options, nn::make_engine(net));
  trainer.stride_by(stride);
  Ran ran{trainer.run(), {}};
  for (const Tensor& p : net->parameters()) ran.parameters.push_back(p.detach().cpu().clone());
  return ran;
}

struct Problem {
  std::string name;
  std::function<nn::Network()> network;
  TrainData data;
};

/// A network without the graph, one by it, one for pictures, and AlexNet, whose grid is finer than
/// its pictures.
std::vector<Problem> problems() {
  std::vector<Problem> all;
  const auto mlp = [](nn::Activation activation) {
    return [activation]() -> nn::Network {
      nn::MlpOptions options;
      options.inputs = 4;
      options.hidden = {50, 50};
      options.activation = activation;
      return nn::Mlp(options, 7);
    };
  };
  const TrainData smooth = test::smooth_data(40, 1, 3, torch::kFloat32);
  all.push_back({"relu", mlp(nn::Activation::kRelu), smooth});
  all.push_back({"tanh", mlp(nn::Activation::kTanh), smooth});
  const auto pictures = [](int64_t side) {
    torch::manual_seed(4);
    TrainData data;
    data.x = torch::randn({8, 3, side, side});
    data.y = torch::randn({8, 2}, torch::kFloat64);
    data.x_val = torch::randn({4, 3, side, side});
    data.y_val = torch::randn({4, 2}, torch::kFloat64);
    return data;
  };
  all.push_back({"cnn",
                 []() -> nn::Network {
                   return nn::ConvNet(nn::cnn_options({3, 16, 16}, {6, 8}, 2), 3);
                 },
                 pictures(16)});
  all.push_back({"alexnet",
                 []() -> nn::Network {
                   return nn::ConvNet(nn::alexnet_options({3, 96, 96}, 2), 3);
                 },
                 pictures(96)});
  return all;
}

TEST_F(Cuda, TheLargestEigenvalueIsThatOfTheCpu) {
  torch::manual_seed(5);
  for (const int64_t rows : {1, 7, 300, 2200}) {
    const Tensor factor = torch::randn({rows, rows / 2 + 1}, torch::kFloat64);
    const Tensor matrix = factor.mm(factor.t());
    const double largest = largest_eigenvalue(matrix);
    EXPECT_NEAR(largest_eigenvalue(matrix.to(torch::kCUDA)), largest, 1e-9 * largest) << rows;
  }
}

TEST_F(Cuda, RecordedStepsAreTheSameBits) {
  for (const Problem& problem : problems()) {
    for (const Method method : {"gd", "cdt"}) {
      SCOPED_TRACE(problem.name + " by " + to_string(method));
      TrainOptions options;
      options.method = method;
      options.steps = 30;
      options.validate_every = 2;
      options.schedule = {Schedule::Kind::kInverse, 0.05};
      options.weight_decay = 1e-3;
      const auto run = [&](const StrideOptions& stride) {
        return train_on(torch::kCUDA, problem.network(), problem.data, options, stride);
      };
      const Ran stepped = run({.most = 1});
      EXPECT_EQ(stepped.result.outcome, Outcome::kSteps);
      for (const auto& stride : {StrideOptions{.most = 7, .record = false},
                                 StrideOptions{.most = 7, .record = true}, StrideOptions{}}) {
        const Ran strided = run(stride);
        EXPECT_EQ(rows_of(strided), rows_of(stepped)) << stride.most << stride.record;
        EXPECT_TRUE(same_bits(strided.parameters, stepped.parameters))
            << stride.most << stride.record;
      }
    }
  }
}

TEST_F(Cuda, SeveralStepsRecordedAsOneAreTheSameBits) {
  const Problem problem = problems().front();
  for (const Method method : {"gd", "cdt"}) {
    for (const int64_t every : {30, 5000}) {
      SCOPED_TRACE(c10::str(to_string(method), " every ", every));
      TrainOptions options;
      options.method = method;
      options.steps = 1500;
      options.validate_every = every;
      options.weight_decay = 1e-3;
      const auto run = [&](const StrideOptions& stride) {
        return train_on(torch::kCUDA, problem.network(), problem.data, options, stride);
      };
      const Ran stepped = run({.most = 1});
      const Ran strided = run({.most = 200});
      EXPECT_EQ(rows_of(strided), rows_of(stepped));
      EXPECT_TRUE(same_bits(strided.parameters, stepped.parameters));
    }
  }
}

TEST_F(Cuda, EndsWithinAStride) {
  const Problem problem = problems().front();
  for (const Method method : {"gd", "cdt"}) {
    for (const bool patient : {false, true}) {
      SCOPED_TRACE(to_string(method) + (patient ? ", patient" : ""));
      TrainOptions options;
      options.method = method;
      options.steps = 3000;
      TrainData data = problem.data;
      if (patient) {
        data.y_val = -data.y_val;
        options.patience = 11;
      } else {
        options.stop_loss = 0.02;
      }
      const auto run = [&](const StrideOptions& stride) {
        return train_on(torch::kCUDA, problem.network(), data, options, stride);
      };
      const Ran stepped = run({.most = 1});
      const Ran strided = run({});
      EXPECT_EQ(stepped.result.outcome, patient ? Outcome::kEarlyStopping : Outcome::kTarget);
      EXPECT_EQ(strided.result.outcome, stepped.result.outcome);
      EXPECT_EQ(rows_of(strided), rows_of(stepped));
      EXPECT_TRUE(same_bits(strided.parameters, stepped.parameters));
    }
  }
}

TEST_F(Cuda, NewKernelsAreRecordedAnew) {
  const Problem problem = problems().front();
  TrainOptions options;
  options.method = "cdt";
  options.relinearize = parse_relinearization("every:20");
  options.steps = 70;
  const auto run = [&](const StrideOptions& stride) {
    return train_on(torch::kCUDA, problem.network(), problem.data, options, stride);
  };
  const Ran stepped = run({.most = 1});
  const Ran strided = run({});
  EXPECT_EQ(strided.result.linearizations, 4);
  EXPECT_EQ(rows_of(strided), rows_of(stepped));
  EXPECT_TRUE(same_bits(strided.parameters, stepped.parameters));
}

TEST_F(Cuda, DivergesAsItShould) {
  const Problem problem = problems().front();
  TrainOptions options;
  options.method = "gd";
  options.learning_rate = 50;
  options.steps = 500;
  const auto run = [&](const StrideOptions& stride) {
    return train_on(torch::kCUDA, problem.network(), problem.data, options, stride);
  };
  const Ran stepped = run({.most = 1});
  const Ran strided = run({});
  EXPECT_EQ(stepped.result.outcome, Outcome::kDiverged);
  EXPECT_EQ(strided.result.outcome, Outcome::kDiverged);
  EXPECT_EQ(rows_of(strided), rows_of(stepped));
}

TEST_F(Cuda, AgreesWithTheCpu) {
  for (const Problem& problem : problems()) {
    for (const Method method : {"gd", "cdt", "guarded"}) {
      SCOPED_TRACE(problem.name + " by " + to_string(method));
      TrainOptions options;
      options.method = method;
      options.learning_rate = 1e-3;  // so that rounding does not grow
      options.steps = 8;
      const auto run = [&](torch::Device device) {
        const nn::Network net = problem.network();
        net->to(torch::kFloat64);  // of float32, small entries keep too few digits to be compared
        TrainData data = problem.data;
        data.x = data.x.to(torch::kFloat64);
        if (data.x_val.defined()) data.x_val = data.x_val.to(torch::kFloat64);
        return train_on(device, net, data, options, {.most = 4});
      };
      const Ran here = run(torch::kCPU), there = run(torch::kCUDA);
      ASSERT_EQ(here.result.history.size(), there.result.history.size());
      for (size_t k = 0; k < here.result.history.size(); ++k) {
        const double expected = here.result.history[k].train_loss;
        EXPECT_NEAR(there.result.history[k].train_loss, expected, 1e-9 * std::abs(expected)) << k;
      }
      for (size_t i = 0; i < here.parameters.size(); ++i) {
        EXPECT_LT(test::relative_error(there.parameters[i], here.parameters[i]), 1e-9) << i;
      }
    }
  }
}

/// Runs of other seeds and rates, as one or each alone.
std::vector<Ran> train_several(torch::ScalarType dtype, const TrainOptions& options,
                               const std::vector<double>& rates, bool together,
                               const StrideOptions& stride) {
  std::vector<nn::Network> nets;
  std::vector<std::unique_ptr<Trainer>> trainers;
  std::vector<Trainer*> runs;
  for (size_t k = 0; k < rates.size(); ++k) {
    nn::MlpOptions wanted;
    wanted.inputs = 4;
    wanted.hidden = {50, 50};
    nets.emplace_back(nn::Mlp(wanted, k + 1, dtype));
    nets[k]->to(torch::kCUDA);
    TrainData data = test::smooth_data(40, 1, k + 3, dtype);
    for (Tensor* each : {&data.x, &data.y, &data.x_val, &data.y_val}) {
      *each = each->to(torch::kCUDA);
    }
    TrainOptions own = options;
    own.learning_rate = rates[k];
    trainers.push_back(std::make_unique<Trainer>(nets[k], data, own, nn::make_engine(nets[k])));
    runs.push_back(trainers[k].get());
  }
  std::vector<TrainResult> results;
  if (together) {
    results = Together(runs, nn::make_stack(nets).value(), stride).run();
  } else {
    for (Trainer* run : runs) results.push_back(run->run());
  }
  std::vector<Ran> all;
  for (size_t k = 0; k < rates.size(); ++k) {
    all.push_back({results[k], {}});
    for (const Tensor& p : nets[k]->parameters()) {
      all[k].parameters.push_back(p.detach().cpu().clone());
    }
  }
  return all;
}

TEST_F(Cuda, RunsTogetherAreTheRunsAloneAndRecordedOrNotTheSameBits) {
  for (const Method method : {"gd", "cdt"}) {
    SCOPED_TRACE(to_string(method));
    TrainOptions options;
    options.method = method;
    options.steps = 60;
    options.validate_every = 7;
    options.schedule = {Schedule::Kind::kInverse, 0.05};
    const std::vector<double> rates{0.2, 0.05, 0.1, 0.02, 0.01};
    const auto alone = train_several(torch::kFloat64, options, rates, false, {});
    const auto together = train_several(torch::kFloat64, options, rates, true, {});
    for (size_t k = 0; k < rates.size(); ++k) {
      ASSERT_EQ(together[k].result.history.size(), alone[k].result.history.size());
      EXPECT_EQ(together[k].result.outcome, Outcome::kSteps);
      for (size_t i = 0; i < alone[k].result.history.size(); ++i) {
        const StepRecord &a = together[k].result.history[i], &b = alone[k].result.history[i];
        EXPECT_NEAR(a.train_loss, b.train_loss, 1e-9 * b.train_loss) << i;
        EXPECT_EQ(std::isnan(a.val_loss), std::isnan(b.val_loss)) << i;
      }
      for (size_t i = 0; i < alone[k].parameters.size(); ++i) {
        EXPECT_LT(test::relative_error(together[k].parameters[i], alone[k].parameters[i]), 1e-9);
      }
    }
    for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
      const auto called = train_several(dtype, options, rates, true, {.most = 9, .record = false});
      for (const StrideOptions& stride : {StrideOptions{.most = 9}, StrideOptions{}}) {
        const auto recorded = train_several(dtype, options, rates, true, stride);
        for (size_t k = 0; k < rates.size(); ++k) {
          EXPECT_EQ(rows_of(recorded[k]), rows_of(called[k])) << k;
          EXPECT_TRUE(same_bits(recorded[k].parameters, called[k].parameters)) << k;
        }
      }
    }
  }
}

TEST_F(Cuda, ARunThatDivergesLeavesTheOthersTheirBits) {
  for (const Method method : {"gd", "cdt"}) {
    SCOPED_TRACE(to_string(method));
    TrainOptions options;
    options.method = method;
    options.steps = 100;
    const auto wild = train_several(torch::kFloat32, options, {0.1, 1e7, 0.05}, true, {});
    const auto tame = train_several(torch::kFloat32, options, {0.1, 0.01, 0.05}, true, {});
    EXPECT_EQ(wild[1].result.diverged(), method == "gd");
    EXPECT_EQ(tame[1].result.outcome, Outcome::kSteps);
    for (const size_t k : {0, 2}) {
      EXPECT_EQ(rows_of(wild[k]), rows_of(tame[k]));
      EXPECT_TRUE(same_bits(wild[k].parameters, tame[k].parameters));
    }
  }
}

TEST_F(Cuda, ThreadsRecordBesideEachOther) {
  const std::vector<Problem> all = problems();
  TrainOptions options;
  options.method = "cdt";
  options.steps = 60;
  const auto run = [&](size_t i) {
    const Problem& problem = all[i % 3];
    return rows_of(train_on(torch::kCUDA, problem.network(), problem.data, options, {}));
  };
  std::vector<std::string> expected, found(6);
  for (size_t i = 0; i < 3; ++i) expected.push_back(run(i));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) threads.emplace_back([&, i] { found[i] = run(i); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], expected[i % 3]) << i;
}

}  // namespace
}  // namespace cdt::train
