// Models of one's own that learn to predict: what is held out, and what the second training makes.
#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/nn/mlp.h>
#include <cdt/study/held_out.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Samples whose first feature is their number, or that of the sample they repeat.
train::TrainData numbered(int64_t different, int64_t times) {
  train::TrainData data;
  data.x = torch::arange(static_cast<double>(different)).repeat({times}).unsqueeze(1);
  data.x = torch::cat({data.x, data.x.sin()}, 1);
  const int64_t r = data.x.size(0);
  data.y = torch::arange(static_cast<double>(r)).to(torch::kFloat64).unsqueeze(1);
  data.sample_weights = 1 + data.y.squeeze(1);
  return data;
}

std::set<int64_t> numbers_of(const Tensor& values) {
  std::set<int64_t> found;
  const Tensor column = values.select(1, 0).contiguous();
  for (int64_t i = 0; i < column.numel(); ++i) {
    found.insert(static_cast<int64_t>(column[i].item<double>()));
  }
  return found;
}

TEST(HeldOut, AFifthIsDrawn) {
  for (const uint64_t seed : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(seed);
    const train::TrainData data = numbered(50, 1), parts = hold_out(data, seed);
    // Oracle: the first ten of the order that the generator draws.
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const Tensor order = torch::randperm(50, generator, torch::kInt64);
    EXPECT_TRUE(torch::equal(parts.x_val, data.x.index_select(0, order.narrow(0, 0, 10))));
    EXPECT_TRUE(torch::equal(parts.y_val, data.y.index_select(0, order.narrow(0, 0, 10))));
    EXPECT_TRUE(torch::equal(parts.x, data.x.index_select(0, order.narrow(0, 10, 40))));
    EXPECT_TRUE(torch::equal(parts.sample_weights, 1 + parts.y.squeeze(1)));
  }
  EXPECT_EQ(hold_out(numbered(5, 1), 1).x_val.size(0), 1);
}

TEST(HeldOut, EqualSamplesStayTogether) {
  for (const uint64_t seed : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(seed);
    const train::TrainData parts = hold_out(numbered(60, 3), seed);
    EXPECT_EQ(parts.x.size(0) + parts.x_val.size(0), 180);
    EXPECT_GE(parts.x_val.size(0), 36);
    EXPECT_LE(parts.x_val.size(0), 38);
    EXPECT_EQ(parts.x_val.size(0) % 3, 0);
    const std::set<int64_t> held = numbers_of(parts.x_val), kept = numbers_of(parts.x);
    EXPECT_EQ(held.size() + kept.size(), 60U);
  }
  EXPECT_EQ(numbers_of(hold_out(numbered(2, 9), 1).x_val).size(), 1U);
  EXPECT_THROW(hold_out(numbered(1, 9), 1), InvalidArgument);
  EXPECT_THROW(hold_out(numbered(4, 1), 1), InvalidArgument);
}

class HeldOutTraining : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    data_.x = torch::randn({60, 2}, torch::kFloat64);
    data_.y = data_.x.prod(1, true) + 0.1 * torch::randn({60, 1}, torch::kFloat64);
    options_.method = "path";
    options_.steps = 30;
    options_.patience = 5;
  }
  static nn::Mlp network() {
    nn::MlpOptions options;
    options.inputs = 2;
    options.hidden = {16};
    return nn::Mlp(options, 3, torch::kFloat64);
  }
  static std::vector<Tensor> copy(const nn::Mlp& model) {
    std::vector<Tensor> values;
    for (const Tensor& each : model->parameters()) values.push_back(each.detach().clone());
    return values;
  }
  static void expect_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i]));
  }
  train::TrainData data_;
  train::TrainOptions options_;
};

TEST_F(HeldOutTraining, EndsAsATrainingOfAllSamplesToThePoint) {
  nn::Mlp model = network();
  std::vector<int64_t> rows, again;
  train::TrainHooks selection, refit;
  selection.on_step = [&](const train::StepRecord& row) { rows.push_back(row.step); };
  refit.on_step = [&](const train::StepRecord& row) { again.push_back(row.step); };
  const auto found = HeldOutTrainer(model, data_, options_).run(selection, refit);
  ASSERT_GE(found.best_step, 1);
  EXPECT_EQ(rows.size(), found.history.size());
  EXPECT_EQ(again.back(), found.best_step);
  nn::Mlp other = network();
  train::TrainOptions options = options_;
  options.steps = found.best_step;
  options.patience = 0;
  const auto expected = train::Trainer(other, data_, options).run();
  expect_equal(copy(model), copy(other));
  EXPECT_EQ(found.train_loss, expected.train_loss);
  // Without the second training the model is that of the samples that were not held out.
  nn::Mlp part = network(), alone = network();
  const auto first = HeldOutTrainer(part, data_, options_, /*refit=*/false).run();
  train::Trainer(alone, hold_out(data_, options_.seed), options_).run();
  expect_equal(copy(part), copy(alone));
  EXPECT_EQ(first.val_loss, found.val_loss);
}

TEST_F(HeldOutTraining, AnInterruptionLeavesAWholeModel) {
  nn::Mlp model = network();
  train::TrainHooks stop;
  int64_t seen = 0;
  stop.on_step = [&](const train::StepRecord&) { ++seen; };
  stop.stop_requested = [&] { return seen >= 2; };
  EXPECT_EQ(HeldOutTrainer(model, data_, options_).run(stop).outcome, train::Outcome::kInterrupted);
  // In the second training: back to where the first one had ended.
  nn::Mlp whole = network(), first = network();
  HeldOutTrainer(first, data_, options_, /*refit=*/false).run();
  seen = 0;
  HeldOutTrainer trainer(whole, data_, options_);
  train::TrainHooks fail;
  fail.on_step = [](const train::StepRecord& row) {
    if (row.step == 1) throw NumericalError("as if interrupted");
  };
  EXPECT_THROW(trainer.run({}, fail), NumericalError);
  train::TrainHooks at_once;
  at_once.stop_requested = [] { return true; };
  const auto found = trainer.run(at_once, at_once);
  EXPECT_NE(found.outcome, train::Outcome::kInterrupted);
  expect_equal(copy(whole), copy(first));
}

}  // namespace
}  // namespace cdt::study
