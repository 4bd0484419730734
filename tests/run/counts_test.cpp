// Counts: targets that keep their units, predictions that are the mean e^ŷ, from the table to the
// folder and back.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/csv.h>
#include <cdt/run/folder.h>
#include <cdt/run/train.h>
#include <cdt/study/trained_model.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/temp_folder.h"

namespace cdt {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

/// Rows a, b, n, where n is Poisson distributed with the mean e^(2a − b + 1); the last cell of row
/// `changed` says something else.
std::string table_of_counts(int64_t rows, int64_t changed = -1, const std::string& cell = "") {
  torch::manual_seed(3);
  const Tensor x = torch::rand({rows, 2}, torch::kFloat64);
  const Tensor mean = (2 * x.select(1, 0) - x.select(1, 1) + 1).exp();
  const Tensor n = torch::poisson(mean);
  std::string csv = "a,b,n\n";
  for (int64_t i = 0; i < rows; ++i) {
    const std::string count = fmt::format("{}", n[i].item<double>());
    csv += fmt::format("{},{},{}\n", x[i][0].item<double>(), x[i][1].item<double>(),
                       i == changed ? cell : count);
  }
  return csv;
}

class Counts : public testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    options_.data.file = (folder_ / "counts.csv").string();
    options_.data.targets = {"n"};
    options_.network.hidden = {12};
    options_.network.dtype = torch::kFloat64;
    options_.training.loss = loss::poisson();
    options_.training.steps = 12;
    options_.analysis = false;
    options_.folder = folder_ / "run";
    write(table_of_counts(150));
  }
  void write(const std::string& csv) const { write_file_atomically(options_.data.file, {csv}); }

  test::TempFolder folder_;
  run::Options options_;
};

TEST_F(Counts, AreFittedInTheirUnits) {
  options_.data.goal = study::Goal::kFit;
  const run::TrainedRun done = run::train(options_);
  const study::Problem& problem = done.problem;
  const Tensor wanted = problem.preprocess.targets_in_units(problem.table, problem.split.train);
  EXPECT_TRUE(torch::equal(problem.data.y, wanted));
  EXPECT_LT(done.result.train_loss, done.result.history.front().train_loss);
  // What is loaded again predicts e to the power of its outputs.
  const run::TrainedModel trained = run::load_trained(run::RunFolder(options_.folder), torch::kCPU);
  const run::Predictions found = run::predict(trained, problem.table);
  const data::TableSamples samples(problem.table, problem.preprocess);
  const torch::NoGradGuard no_graph;
  const Tensor mean = nn::outputs_of(problem.model, samples.all().x).to(torch::kFloat64).exp();
  EXPECT_LE(test::relative_error(found.values, mean), 1e-14);
  // The loss that is reported is half the mean deviance of these, the errors are theirs.
  const Tensor mu = mean.index_select(0, torch::tensor(problem.split.train, torch::kInt64));
  const Tensor deviance = torch::xlogy(wanted, wanted / mu) - wanted + mu;
  EXPECT_NEAR(done.result.train_loss, deviance.mean().item<double>(), 1e-12);
  const auto& errors = std::get<study::NumberErrors>(done.record.errors->train[0].value);
  EXPECT_NEAR(errors.rmse, (mu - wanted).square().mean().sqrt().item<double>(), 1e-12);
}

TEST_F(Counts, HaveAPreflight) {
  options_.data.goal = study::Goal::kFit;
  options_.analysis = true;
  run::Hooks hooks;
  hooks.on_warning = [](const std::string& text) { ADD_FAILURE() << text; };
  const run::TrainedRun done = run::train(options_, hooks);
  EXPECT_THAT(done.record.analysis_text, HasSubstr("loss poisson"));
  EXPECT_THAT(done.record.analysis, HasSubstr("\"controller\""));
  const run::RunFolder folder(options_.folder);
  EXPECT_FALSE(path_exists(folder.spectrum()));  // those of the kernel are not those of the loop
  EXPECT_TRUE(path_exists(folder.report()));
}

TEST_F(Counts, ArePredictedWithTheirIntervals) {
  options_.data.test_fraction = 0.3;
  options_.ensemble = 2;
  options_.training.steps = 40;
  const run::TrainedRun done = run::train(options_);
  const study::Problem& problem = done.problem;
  const run::RunFolder folder(options_.folder);
  const run::TrainedModel trained = run::load_trained(folder, torch::kCPU, /*intervals=*/true);
  const run::Predictions found = run::predict(trained, problem.table, 0.8);
  // Members are averaged where they learn; their mean is e to that, within the targets' range.
  const data::TableSamples samples(problem.table, problem.preprocess);
  const Tensor z = study::mean_outputs(trained.predictor, samples.all().x);
  const auto& bounds = trained.predictor.targets.at(0);
  EXPECT_LE(test::relative_error(found.values, z.exp().clamp(bounds.low, bounds.high)), 1e-14);
  const Tensor wanted = problem.preprocess.targets_in_units(problem.table, samples.rows());
  const auto some = torch::tensor(problem.split.test, torch::kInt64);
  const Tensor inside = ((found.bounds->low <= wanted) & (wanted <= found.bounds->high))
                            .index_select(0, some)
                            .to(torch::kFloat64);
  EXPECT_GT(inside.mean().item<double>(), 0.65);
  EXPECT_GE(found.bounds->low.min().item<double>(), 0);
  // Widths grow as the root of the mean, which is between 1 and 20 here.
  const Tensor width = found.bounds->high - found.values;
  const Tensor ratio = width / (found.values + 1).sqrt();
  EXPECT_LT((ratio.max() / ratio.min()).item<double>(), 3);
  // Held-out rows say what to expect, in counts: about √μ.
  const study::Expectation& expected = done.record.prediction->expected.at(0);
  const double noise = wanted.mean().sqrt().item<double>();
  EXPECT_NEAR(expected.rmse.value, noise, 0.5 * noise);
  EXPECT_LT(expected.rmse.value, expected.mean_rmse);
  // As one file.
  const study::TrainedModel again =
      study::parse_trained_model(study::to_safetensors(trained), "here");
  EXPECT_TRUE(torch::equal(run::predict(again, problem.table, 0.8).values, found.values));
}

TEST_F(Counts, AStoppedRunGoesOnToTheSameBits) {
  for (const auto goal : {study::Goal::kFit, study::Goal::kPredict}) {
    SCOPED_TRACE(to_string(goal));
    run::Options whole = options_;
    whole.data.goal = goal;
    whole.training.steps = 6;
    whole.ensemble = goal == study::Goal::kPredict ? std::optional<int64_t>(1) : std::nullopt;
    whole.folder = folder_ / ("whole-" + to_string(goal));
    run::train(whole);
    run::Options part = whole;
    part.folder = folder_ / ("part-" + to_string(goal));
    run::Hooks hooks;
    auto asked = std::make_shared<int64_t>(0);
    hooks.stop_requested = [asked] { return ++*asked > 3; };
    EXPECT_EQ(run::train(part, hooks).result.outcome, train::Outcome::kInterrupted);
    run::Options again = run::options_of(run::RunFolder(part.folder).read_record());
    again.folder = part.folder;
    again.resume = true;
    run::train(again);
    EXPECT_EQ(read_file(part.folder / "model.safetensors"),
              read_file(whole.folder / "model.safetensors"));
  }
}

TEST_F(Counts, WhatIsNoCountIsNamedWithItsLine) {
  const auto refused = [&](const std::string& text) {
    return ThrowsMessage<InvalidArgument>(HasSubstr(text));
  };
  for (const auto goal : {study::Goal::kFit, study::Goal::kPredict}) {
    options_.data.goal = goal;
    write(table_of_counts(150, 40, "-3"));
    EXPECT_THAT([&] { run::train(options_); },
                refused("counts.csv:42: expected the target \"n\" to be 0 or more, which the loss "
                        "is defined for, got -3"));
  }
  options_.data.goal = study::Goal::kFit;
  write(table_of_counts(150, 40, ""));
  EXPECT_THAT([&] { run::train(options_); }, refused("42"));
  write(table_of_counts(150));
  options_.data.target_scaling = data::Scaling::kStandard;
  EXPECT_THAT([&] { run::train(options_); },
              refused("target-scale: it would do nothing here: it needs a loss that scales"));
}

TEST_F(Counts, TheDecisionSaysWhyTargetsAreNotScaled) {
  const study::Decision decision = run::explain(options_);
  const auto found = std::ranges::find(decision.choices, "target-scale", &study::Choice::setting);
  ASSERT_NE(found, decision.choices.end());
  EXPECT_EQ(found->value, "none");
  EXPECT_EQ(found->why, "the loss keeps targets in their units");
}

}  // namespace
}  // namespace cdt
