// A run in memory and a run in a folder are one pipeline.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/csv.h>
#include <cdt/run/train.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/small_run.h"

namespace cdt {
namespace {

using testing::ElementsAre;
using torch::Tensor;

class Pipeline : public testing::Test {
 protected:
  /// "fit price", "predict district": goal and target.
  run::Options options_for(const std::string& job) const {
    run::Options options = options_;
    const size_t blank = job.find(' ');
    options.data.goal = study::parse_goal(job.substr(0, blank));
    options.data.targets = {job.substr(blank + 1)};
    options.analysis = true;
    options.training.steps = 8;
    if (job == "fit district") options.training.loss = loss::cross_entropy();
    if (options.data.goal == study::Goal::kPredict) {
      options.ensemble = 2;
      options.folds = 2;
      options.importance = true;
      options.data.test_fraction = 0.1;
    }
    return options;
  }
  static data::Table table_of(const run::Options& options) {
    return data::read_csv(options.data.file, options.data.csv);
  }
  /// The file is not looked at: it is not there.
  static run::Options in_memory(run::Options options) {
    options.data.file = "/none.csv";
    options.folder.clear();
    return options;
  }

  test::TempFolder folder_;
  run::Options options_ = test::small_run(folder_, 90, 8);
};

const std::vector<std::string> kJobs{"fit price", "fit district", "predict price",
                                     "predict district"};

void expect_same(const train::StepRecord& found, const train::StepRecord& expected) {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  EXPECT_EQ(found.step, expected.step);
  EXPECT_TRUE(same(found.train_loss, expected.train_loss)) << found.train_loss;
  EXPECT_TRUE(same(found.val_loss, expected.val_loss)) << found.val_loss;
}

void expect_same(const nn::Network& found, const nn::Network& expected) {
  const auto own = found->parameters(), other = expected->parameters();
  ASSERT_EQ(own.size(), other.size());
  for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(torch::equal(own[i], other[i])) << i;
}

/// What run.json says beside where and how long.
std::string told_by(run::RunRecord record) {
  record.data.file.clear();
  record.files.clear();
  record.settings.erase(record.settings.begin());  // the file
  record.seconds.reset();
  if (record.result) record.result->seconds = 0;
  record.machine.peak_bytes = record.machine.device_peak_bytes = 0;
  const std::string text = run::to_json(record);
  return text.substr(0, text.find("\"sealed\""));
}

TEST_F(Pipeline, InMemoryIsTheRunInAFolder) {
  for (const std::string& job : kJobs) {
    SCOPED_TRACE(job);
    run::Options options = options_for(job);
    options.folder = folder_ / job;
    const run::TrainedRun kept = run::train(options);
    const study::Run made = study::run(table_of(options), in_memory(options));
    EXPECT_EQ(told_by(made.record), told_by(kept.record));
    EXPECT_EQ(made.notes, kept.notes);
    ASSERT_EQ(made.result.history.size(), kept.result.history.size());
    for (size_t i = 0; i < made.result.history.size(); ++i) {
      expect_same(made.result.history[i], kept.result.history[i]);
    }
    ASSERT_EQ(made.predictor.members.size(), kept.predictor.members.size());
    for (size_t m = 0; m < made.predictor.members.size(); ++m) {
      expect_same(made.predictor.members[m], kept.predictor.members[m]);
    }
    ASSERT_FALSE(made.predictions.empty());
    ASSERT_EQ(made.predictions.size(), kept.predictions.size());
    for (size_t i = 0; i < made.predictions.size(); ++i) {
      EXPECT_EQ(made.predictions[i].rows, kept.predictions[i].rows);
      EXPECT_TRUE(
          torch::equal(made.predictions[i].values.predicted, kept.predictions[i].values.predicted));
    }
    // What predicts in memory predicts as what the folder gives back.
    const run::TrainedModel loaded = run::load_trained(kept.folder, torch::kCPU);
    const data::Table table = table_of(options);
    EXPECT_TRUE(
        torch::equal(run::predict(made.model(), table).values, run::predict(loaded, table).values));
    const bool numbers = job == "predict price";
    EXPECT_EQ(made.intervals.has_value(), numbers);
    EXPECT_EQ(made.record.prediction.has_value(), job.starts_with("predict"));
    if (!made.record.prediction) continue;
    EXPECT_FALSE(made.record.prediction->importance.empty());
  }
}

/// Names of what is heard, each once in a row.
run::Hooks listening(std::vector<std::string>& heard) {
  const auto hear = [&heard](const std::string& name) {
    if (heard.empty() || heard.back() != name) heard.push_back(name);
  };
  run::Hooks hooks;
  hooks.on_phase = [=](run::Phase phase) { hear(fmt::format("phase {}", int(phase))); };
  hooks.on_decision = [=](const study::Decision&) { hear("decision"); };
  hooks.on_problem = [=](const study::Problem&) { hear("problem"); };
  hooks.on_preflight = [=](const analysis::Preflight&) { hear("pre-flight"); };
  hooks.on_skipped = [=](const std::string&) { hear("skipped"); };
  hooks.on_step = [=](const train::StepRecord&, int64_t) { hear("step"); };
  hooks.on_point = [=](study::LearnStage stage, const train::StepRecord&, int64_t) {
    hear(stage == study::LearnStage::kRefit ? "refit" : "point");
  };
  hooks.checkpoint = [=](const SafeTensors&) { hear("checkpoint"); };
  hooks.on_note = [=](const std::string&) { hear("note"); };
  return hooks;
}

TEST_F(Pipeline, CallsHooksInOrder) {
  std::vector<std::string> heard;
  run::Options fit = options_for("fit price");
  fit.training.checkpoint_seconds = 1e9;
  study::run(table_of(fit), in_memory(fit), listening(heard));
  const std::vector<std::string> order{"phase 0", "decision", "problem",    "phase 1", "pre-flight",
                                       "phase 2", "step",     "checkpoint", "step",    "phase 3"};
  EXPECT_EQ(heard, order);
  heard.clear();
  fit.folder = folder_ / "kept";
  run::train(fit, listening(heard));
  EXPECT_EQ(heard, order);
  heard.clear();
  fit.training.batch = 10;
  study::run(table_of(fit), in_memory(fit), listening(heard));
  EXPECT_THAT(heard, ElementsAre("phase 0", "decision", "problem", "phase 1", "skipped", "phase 2",
                                 "step", "checkpoint", "step", "phase 3"));
  heard.clear();
  run::Options predict = options_for("predict price");
  predict.training.checkpoint_seconds = 1e9;
  study::run(table_of(predict), in_memory(predict), listening(heard));
  std::erase(heard, "note");
  EXPECT_THAT(heard, ElementsAre("phase 0", "decision", "problem", "phase 2", "point", "checkpoint",
                                 "refit", "checkpoint", "phase 3"));
}

TEST_F(Pipeline, GoesOnFromACheckpointToTheSameBits) {
  for (const std::string& job : kJobs) {
    SCOPED_TRACE(job);
    const run::Options options = in_memory(options_for(job));
    const data::Table table = table_of(options_);
    const study::Run whole = study::run(table, options);
    std::optional<SafeTensors> checkpoint;
    int64_t seen = 0;
    study::Hooks hooks;
    hooks.on_step = [&](const train::StepRecord&, int64_t) { ++seen; };
    hooks.on_point = [&](study::LearnStage, const train::StepRecord&, int64_t) { ++seen; };
    hooks.stop_requested = [&] { return seen >= 3; };
    hooks.checkpoint = [&](const SafeTensors& content) { checkpoint = content; };
    const study::Run part = study::run(table, options, hooks);
    EXPECT_EQ(part.result.outcome, train::Outcome::kInterrupted);
    EXPECT_EQ(part.record.result->outcome, train::Outcome::kInterrupted);
    EXPECT_FALSE(part.record.prediction);
    const bool fit = job.starts_with("fit");
    EXPECT_EQ(part.predictor.members.empty(), !fit);
    EXPECT_EQ(part.predictions.empty(), !fit) << "of a fit those of the model as it is";
    ASSERT_TRUE(checkpoint);
    study::Pipeline again(options, {});
    again.prepare(table);
    again.restore(*checkpoint);
    again.train();
    again.calibrate();
    again.expect();
    again.finish();
    EXPECT_EQ(again.run().result.steps, whole.result.steps);
    expect_same(again.run().predictor.members.at(0), whole.predictor.members.at(0));
    EXPECT_EQ(study::to_json(again.run().record.errors->train),
              study::to_json(whole.record.errors->train));
  }
}

TEST_F(Pipeline, LearnsFromTheRowsThatItIsTold) {
  const run::Options options = in_memory(options_for("predict price"));
  data::Table table = table_of(options_);
  std::vector<int64_t> rows;
  for (int64_t row = 10; row < table.rows(); ++row) rows.push_back(row);
  const auto first_of = [&] {
    study::Pipeline pipeline(options, {});
    pipeline.prepare(table, rows);
    pipeline.train();
    pipeline.calibrate();
    return pipeline.run().predictor.members.at(0);
  };
  const nn::Network expected = first_of();
  for (data::Column& column : table.columns) {
    if (column.type != data::ColumnType::kNumeric) continue;
    std::vector<double> values = column.numbers.to_vector();
    std::fill_n(values.begin(), 10, values[20]);
    column.numbers = values;
  }
  expect_same(first_of(), expected);
  rows.pop_back();
  EXPECT_FALSE(torch::equal(first_of()->parameters()[0], expected->parameters()[0]));
}

TEST_F(Pipeline, RefusesWhatNothingReads) {
  run::Options options = in_memory(options_for("fit price"));
  const data::Table table = table_of(options_);
  options.importance = true;
  EXPECT_THROW(study::run(table, options), InvalidArgument);
  options = in_memory(options_for("predict price"));
  options.data.pictures.size = 8;
  EXPECT_THROW(study::run(table, options), InvalidArgument);
  EXPECT_THROW(study::learn(table, options), InvalidArgument);
  options = in_memory(options_for("fit price"));
  EXPECT_THROW(study::learn(table, options), InvalidArgument);
}

/// θ ← θ − αg
class Plain : public train::StepMethod {
 public:
  explicit Plain(std::shared_ptr<const train::Setup> setup) : setup_(std::move(setup)) {}
  train::Advance advance(int64_t, train::Pass& pass, train::StepRecord& row) override {
    row.learning_rate = learning_rate();
    pass.descend(setup_->loss->gradient(pass.values, pass.labels), row.learning_rate);
    return {};
  }
  double learning_rate() const override { return setup_->options.learning_rate.value_or(0.01); }
  void save(train::SavedState&) const override {}
  void restore(const train::SavedState&) override {}

 private:
  std::shared_ptr<const train::Setup> setup_;
};

TEST_F(Pipeline, TakesAMethodOfOnesOwn) {
  for (const std::string job : {"fit price", "predict price"}) {
    SCOPED_TRACE(job);
    run::Options options = options_for(job);
    options.overwrite = true;
    options.importance = false;
    options.training.method = train::MethodTraits{
        .name = "plain", .start_rate = 0.01, .by_curvature = false, .make = [](auto setup) {
          return std::make_unique<Plain>(std::move(setup));
        }};
    options.training.learning_rate = 0.02;
    const run::TrainedRun made = run::train(options);
    ASSERT_GT(made.result.history.size(), 1u);
    if (job == "fit price") {
      EXPECT_LT(made.result.train_loss, made.result.history.front().train_loss);
    }
    const auto trained = run::load_trained(run::RunFolder(options.folder), torch::kCPU);
    EXPECT_EQ(run::predict(trained, table_of(options)).values.size(0), 90);
    options.training.form = "dual";
    EXPECT_THROW(run::train(options), InvalidArgument);
  }
}

}  // namespace
}  // namespace cdt
