// Runs that are trained as one: each is the run alone, to rounding, and minds its own numbers.
#include <cdt/core/error.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/passes/mlp_stack.h>
#include <cdt/train/together.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using cdt::test::same_bits;
using cdt::test::smooth_data;
using torch::Tensor;

/// What a group is made of; run k has seed k + 1 and its own rate.
struct GroupShape {
  nn::Activation activation = nn::Activation::kRelu;
  bool bias = true;
  int64_t outputs = 1;
  nn::Parametrization parametrization = nn::Parametrization::kStandard;
  torch::ScalarType dtype = torch::kFloat64;
  std::vector<int64_t> hidden{12, 9};
};

struct RunGroup {
  RunGroup(const GroupShape& shape, const TrainOptions& options, const std::vector<double>& rates) {
    for (size_t k = 0; k < rates.size(); ++k) {
      nn::MlpOptions wanted;
      wanted.inputs = 4;
      wanted.hidden = shape.hidden;
      wanted.outputs = shape.outputs;
      wanted.activation = shape.activation;
      wanted.bias = shape.bias;
      wanted.parametrization = shape.parametrization;
      networks.emplace_back(nn::Mlp(wanted, k + 1, shape.dtype));
      TrainOptions own = options;
      own.learning_rate = rates[k];
      trainers.push_back(
          std::make_unique<Trainer>(networks[k], smooth_data(14, shape.outputs, 7 + k, shape.dtype),
                                    own, nn::make_engine(networks[k])));
    }
  }
  std::vector<Trainer*> runs() const {
    std::vector<Trainer*> all;
    for (const auto& each : trainers) all.push_back(each.get());
    return all;
  }
  std::vector<TrainResult> alone() {
    std::vector<TrainResult> results;
    for (const auto& each : trainers) results.push_back(each->run());
    return results;
  }
  std::vector<TrainResult> together(const StrideOptions& options = {}) {
    return Together(runs(), nn::make_stack(networks).value(), options).run();
  }
  std::vector<Tensor> parameters(size_t k) const {
    std::vector<Tensor> copies;
    for (const auto& each : networks[k]->parameters()) copies.push_back(each.detach().clone());
    return copies;
  }

  std::vector<nn::Network> networks;
  std::vector<std::unique_ptr<Trainer>> trainers;
};

TrainOptions group_options(Method method) {
  TrainOptions options;
  options.method = method;
  options.steps = 50;
  options.validate_every = 3;
  return options;
}

void expect_close(double a, double b, const char* what, int64_t step) {
  EXPECT_EQ(std::isfinite(a), std::isfinite(b)) << what << " of step " << step;
  if (!std::isfinite(b)) return;
  EXPECT_NEAR(a, b, 1e-10 * std::abs(b)) << what << " of step " << step;
}

/// To rounding of float64.
void expect_same_run(const TrainResult& found, const TrainResult& expected) {
  EXPECT_EQ(found.outcome, expected.outcome);
  EXPECT_EQ(found.steps, expected.steps);
  EXPECT_EQ(found.linearizations, expected.linearizations);
  EXPECT_EQ(found.learning_rate, expected.learning_rate);
  EXPECT_EQ(found.best_step, expected.best_step);
  expect_close(found.train_loss, expected.train_loss, "train_loss", -1);
  expect_close(found.val_loss, expected.val_loss, "val_loss", -1);
  ASSERT_EQ(found.history.size(), expected.history.size());
  double before = 0;
  for (size_t i = 0; i < expected.history.size(); ++i) {
    const StepRecord &a = found.history[i], &b = expected.history[i];
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.refreshed, b.refreshed);
    EXPECT_TRUE(a.learning_rate == b.learning_rate ||
                (std::isnan(a.learning_rate) && std::isnan(b.learning_rate)));
    expect_close(a.train_loss, b.train_loss, "train_loss", b.step);
    expect_close(a.objective, b.objective, "objective", b.step);
    expect_close(a.val_loss, b.val_loss, "val_loss", b.step);
    expect_close(a.augment_norm, b.augment_norm, "augment_norm", b.step);
    EXPECT_GE(a.seconds, before);
    before = a.seconds;
  }
}

const std::vector<double> kGroupRates{0.3, 0.05, 0.1, 0.02};

TEST(Together, EachRunIsTheRunAlone) {
  std::vector<std::pair<std::string, GroupShape>> shapes;
  for (const auto activation : {nn::Activation::kRelu, nn::Activation::kTanh}) {
    for (const bool bias : {true, false}) {
      for (const int64_t outputs : {1, 2}) {
        shapes.push_back({c10::str(nn::to_string(activation), bias ? " with" : " without",
                                   " biases, outputs: ", outputs),
                          {activation, bias, outputs}});
      }
    }
  }
  shapes.push_back({"scaled", {.parametrization = nn::Parametrization::kNtk}});
  shapes.push_back(
      {"scaled, without biases", {.bias = false, .parametrization = nn::Parametrization::kNtk}});
  shapes.push_back({"linear", {.hidden = {}}});
  for (const auto& [name, shape] : shapes) {
    for (const Method method : {"gd", "gd-matched", "cdt"}) {
      SCOPED_TRACE(name + " by " + to_string(method));
      TrainOptions options = group_options(method);
      options.schedule = {Schedule::Kind::kInverse, 0.05};
      RunGroup one(shape, options, kGroupRates), other(shape, options, kGroupRates);
      const auto alone = one.alone();
      const auto together = other.together();
      ASSERT_EQ(together.size(), kGroupRates.size());
      for (size_t k = 0; k < kGroupRates.size(); ++k) {
        SCOPED_TRACE(k);
        EXPECT_EQ(alone[k].outcome, Outcome::kSteps);
        expect_same_run(together[k], alone[k]);
        const auto a = other.parameters(k), b = one.parameters(k);
        for (size_t i = 0; i < b.size(); ++i) {
          EXPECT_LT(test::relative_error(a[i], b[i]), 1e-10) << "parameter " << i;
        }
      }
    }
  }
}

TEST(Together, StridesOfAnyLengthAreTheSameBits) {
  for (const Method method : {"gd", "cdt"}) {
    SCOPED_TRACE(to_string(method));
    RunGroup expected({}, group_options(method), kGroupRates);
    expected.together({.most = 1});
    for (const int64_t most : {7, 300}) {
      RunGroup group({}, group_options(method), kGroupRates);
      group.together({.most = most});
      for (size_t k = 0; k < kGroupRates.size(); ++k) {
        EXPECT_TRUE(same_bits(group.parameters(k), expected.parameters(k))) << most;
      }
    }
  }
}

TEST(Together, ARunThatDivergesEndsWhereItDoesAloneAndLeavesTheOthersTheirBits) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    for (const Method method : {"gd", "cdt"}) {
      if (method == "cdt" && dtype == torch::kFloat64) continue;  // it takes too long
      SCOPED_TRACE(c10::str(dtype, " by ", to_string(method)));
      const GroupShape shape{.dtype = dtype, .hidden = {12, 12, 12}};
      const TrainOptions options = group_options(method);
      const std::vector<double> wild{0.3, 1e5, 0.1, 3e4}, tame{0.3, 0.02, 0.1, 0.05};
      RunGroup one(shape, options, wild), group(shape, options, wild), calm(shape, options, tame);
      const auto alone = one.alone();
      const auto together = group.together({.most = 20});
      const auto calmed = calm.together({.most = 20});
      for (const size_t k : {1, 3}) {
        EXPECT_EQ(alone[k].outcome, Outcome::kDiverged);
        EXPECT_EQ(together[k].outcome, Outcome::kDiverged);
        EXPECT_EQ(together[k].steps, alone[k].steps);
        EXPECT_EQ(together[k].history.size(), alone[k].history.size());
        EXPECT_FALSE(std::isfinite(together[k].train_loss));
        // The parameters of its end, not of steps beyond it.
        const auto here = group.parameters(k), there = one.parameters(k);
        for (size_t i = 0; i < here.size(); ++i) {
          EXPECT_TRUE(torch::equal(here[i].isfinite(), there[i].isfinite())) << i;
        }
      }
      for (const size_t k : {0, 2}) {
        EXPECT_EQ(together[k].outcome, Outcome::kSteps);
        EXPECT_TRUE(same_bits(group.parameters(k), calm.parameters(k)));
        EXPECT_EQ(together[k].val_loss, calmed[k].val_loss);
        ASSERT_EQ(together[k].history.size(), calmed[k].history.size());
        for (size_t i = 0; i < calmed[k].history.size(); ++i) {
          EXPECT_EQ(together[k].history[i].train_loss, calmed[k].history[i].train_loss);
        }
      }
    }
  }
}

TEST(Together, RulesEndRunsWithinAStride) {
  for (const Method method : {"gd", "cdt"}) {
    for (const bool plateau : {false, true}) {
      SCOPED_TRACE(to_string(method) + (plateau ? " to a plateau" : " to a loss"));
      TrainOptions options = group_options(method);
      options.steps = 400;
      if (plateau) {
        options.plateau = 4;
      } else {
        options.stop_loss = 0.02;
      }
      const std::vector<double> rates{0.3, 1e-8, 0.1, 0.05};
      RunGroup one({}, options, rates), group({}, options, rates);
      const auto alone = one.alone();
      const auto together = group.together({.most = 50});
      for (size_t k = 0; k < rates.size(); ++k) {
        SCOPED_TRACE(k);
        expect_same_run(together[k], alone[k]);
      }
      EXPECT_EQ(alone[plateau ? 1 : 0].outcome, plateau ? Outcome::kPlateau : Outcome::kTarget);
    }
  }
}

TEST(Together, ARunThatIsOverAtItsStartIsNoTrouble) {
  TrainOptions options = group_options("cdt");
  options.stop_loss = 1e9;
  RunGroup group({}, options, kGroupRates);
  for (const TrainResult& result : group.together()) {
    EXPECT_EQ(result.outcome, Outcome::kTarget);
    EXPECT_EQ(result.steps, 0);
  }
}

TEST(Together, StopsBetweenTwoStrides) {
  for (const int64_t stop_at : {1, 4, 7}) {  // at a first step, or a stride
    RunGroup group({}, group_options("cdt"), kGroupRates);
    int64_t asked = 0;
    const auto results =
        Together(group.runs(), nn::make_stack(group.networks).value(), {.most = 10}).run([&] {
          return ++asked > stop_at;
        });
    for (const TrainResult& result : results) {
      EXPECT_EQ(result.outcome, Outcome::kInterrupted);
      EXPECT_LT(result.steps, 50);
    }
  }
}

TEST(Together, SecondsAreShared) {
  RunGroup group({}, group_options("cdt"), kGroupRates);
  const auto begin = std::chrono::steady_clock::now();
  const auto results = group.together();
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  double sum = 0;
  for (const TrainResult& result : results) {
    EXPECT_GT(result.seconds, 0);
    sum += result.seconds;
  }
  EXPECT_LE(sum, wall);
}

TEST(Together, TakesRunsOfOneShapeThatNeedNoLook) {
  const TrainOptions plain = group_options("cdt");
  RunGroup group({}, plain, kGroupRates);
  EXPECT_TRUE(Together::takes(group.runs()));
  EXPECT_FALSE(Together::takes({}));
  const auto refuses = [&](const GroupShape& shape, const TrainOptions& options) {
    RunGroup other(shape, options, {0.1});
    std::vector<Trainer*> runs = group.runs();
    runs.push_back(other.trainers.front().get());
    return !Together::takes(runs);
  };
  EXPECT_FALSE(refuses({}, plain));
  EXPECT_TRUE(refuses({.hidden = {12, 8}}, plain));
  EXPECT_TRUE(refuses({.outputs = 2}, plain));
  EXPECT_TRUE(refuses({.dtype = torch::kFloat32}, plain));
  EXPECT_TRUE(refuses({}, group_options("gd")));
  EXPECT_TRUE(refuses({}, group_options("guarded")));
  const auto with = [&](auto change) {
    TrainOptions options = plain;
    change(options);
    return options;
  };
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.steps = 51; })));
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.validate_every = 1; })));
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.patience = 3; })));
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.weight_decay = 1e-3; })));
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.batch = 7; })));
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.loss = loss::sse(); })));
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.relinearize = parse_relinearization("every:9"); })));
  EXPECT_TRUE(refuses({}, with([](auto& o) { o.linearization_error = true; })));
  RunGroup started({}, plain, {0.1});
  started.trainers.front()->step();
  EXPECT_FALSE(Together::takes(started.runs()));

  const auto stack = nn::make_stack(group.networks).value();
  EXPECT_THROW(Together(started.runs(), stack), InvalidArgument);
  RunGroup fewer({}, plain, {0.1, 0.2});
  EXPECT_THROW(Together(fewer.runs(), stack), InvalidArgument);
}

TEST(Together, StacksAreOfNetworksOfOneShape) {
  const TrainOptions options = group_options("gd");
  const auto stacks = [&](const GroupShape& a, const GroupShape& b) {
    RunGroup one(a, options, {0.1}), other(b, options, {0.1});
    return nn::make_stack(std::vector{one.networks[0], other.networks[0]}).has_value();
  };
  EXPECT_TRUE(stacks({}, {}));
  EXPECT_FALSE(stacks({}, {.activation = nn::Activation::kTanh}));
  EXPECT_FALSE(stacks({}, {.bias = false}));
  EXPECT_FALSE(stacks({}, {.outputs = 2}));
  EXPECT_FALSE(stacks({}, {.hidden = {9, 12}}));
  EXPECT_FALSE(stacks({}, {.dtype = torch::kFloat32}));
  EXPECT_FALSE(stacks({}, {.parametrization = nn::Parametrization::kNtk}));
  const GroupShape other{.activation = nn::Activation::kGelu};
  EXPECT_FALSE(stacks(other, other));
  EXPECT_FALSE(nn::make_stack({}).has_value());
  RunGroup frozen({}, options, {0.1});
  frozen.networks[0]->parameters()[0].set_requires_grad(false);
  EXPECT_FALSE(nn::make_stack(frozen.networks).has_value());
}

}  // namespace
}  // namespace cdt::train
