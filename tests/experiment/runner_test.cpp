// Sweeps from a program of one's own: jobs, interruption, and going on.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/houses.h>
#include <cdt/experiment/runner.h>
#include <cdt/run/train.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <sstream>

#include "experiment/sample_plan.h"
#include "support/temp_folder.h"

namespace cdt::experiment {
namespace {

using test::sample_plan;
using testing::HasSubstr;

class Runner : public testing::Test {
 protected:
  Runner() { write_file_atomically(folder_ / "houses.csv", {data::make_houses(30, 1)}); }
  Plan plan() const {
    Plan plan = sample_plan();
    plan.data.file = (folder_ / "houses.csv").string();
    plan.methods = {"gd", "cdt"};
    return plan;
  }
  cdt::test::TempFolder folder_;
};

TEST_F(Runner, MakesEveryRunOnceWhateverTheNumberOfJobs) {
  RunnerOptions options;
  options.jobs = 1;
  int64_t shown = 0;
  options.on_start = [&](int64_t runs, int64_t known, int64_t jobs) {
    EXPECT_EQ(runs, 16);
    EXPECT_EQ(known, 0);
    EXPECT_EQ(jobs, 1);
  };
  options.progress = [&](int64_t done, int64_t total, const std::string& key) {
    EXPECT_EQ(done, ++shown);
    EXPECT_EQ(total, 16);
    EXPECT_FALSE(key.empty());
  };
  const Sweep one = run(plan(), folder_ / "one", options);
  EXPECT_TRUE(one.complete);
  EXPECT_EQ(one.made, 16);
  EXPECT_EQ(shown, 16);
  EXPECT_EQ(one.sessions.size(), 1U);
  EXPECT_EQ(one.table_rows, 30);
  RunnerOptions three;
  three.jobs = 3;
  const Sweep other = run(plan(), folder_ / "three", three);
  ASSERT_EQ(other.runs.size(), one.runs.size());
  for (size_t i = 0; i < one.runs.size(); ++i) {
    EXPECT_EQ(other.runs[i].what.key(), one.runs[i].what.key());
    EXPECT_EQ(other.runs[i].val_loss, one.runs[i].val_loss) << one.runs[i].what.key();
    EXPECT_EQ(other.runs[i].final_error, one.runs[i].final_error);
    EXPECT_EQ(other.runs[i].what.details, !other.runs[i].preflight.empty());
    EXPECT_EQ(other.runs[i].what.traces, !other.runs[i].traces.empty());
  }
  options.on_start = {};
  options.progress = {};
  const Sweep again = run(plan(), folder_ / "one", options);
  EXPECT_EQ(again.made, 0);
  EXPECT_TRUE(again.complete);
  EXPECT_EQ(again.sessions.size(), 1U) << "a call that made nothing leaves no trace";
}

TEST_F(Runner, StopsWhenAskedAndGoesOn) {
  std::atomic<int64_t> done{0};
  RunnerOptions options;
  options.jobs = 1;
  options.progress = [&](int64_t count, int64_t, const std::string&) { done = count; };
  options.stop = [&] { return done >= 3; };
  const Sweep part = run(plan(), folder_ / "sweep", options);
  EXPECT_FALSE(part.complete);
  EXPECT_EQ(part.made, 3);
  options.stop = {};
  const Sweep rest = run(plan(), folder_ / "sweep", options);
  EXPECT_TRUE(rest.complete);
  EXPECT_EQ(rest.made, 13);
  EXPECT_EQ(rest.sessions.size(), 2U);
}

/// To rounding of float64.
void expect_close(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << i;
    if (std::isnan(expected[i])) continue;
    EXPECT_NEAR(found[i], expected[i], 1e-9 * (1e-3 + std::abs(expected[i]))) << i;
  }
}

/// Rates far apart, one at which gradient descent diverges, a schedule and details.
Plan wide_plan(Plan plan) {
  plan.network.dtype = torch::kFloat64;
  plan.architectures = {{"small", {6}}, {"large", {12, 12}}};
  plan.methods = {"gd", "cdt", "gd-matched", kGdBest, "guarded"};
  plan.lrs = {1e6, 0.1, 0.01};
  plan.steps = 40;
  plan.schedule = {train::Schedule::Kind::kInverse, 0.01};
  plan.errors = true;
  return plan;
}

TEST_F(Runner, RunsTogetherAreTheRunsAlone) {
  const Plan wanted = wide_plan(plan());
  RunnerOptions options;
  options.jobs = 1;
  options.together = 1;
  const Sweep alone = run(wanted, folder_ / "alone", options);
  options.together = 8;
  int64_t shown = 0;
  options.progress = [&](int64_t done, int64_t, const std::string&) { EXPECT_EQ(done, ++shown); };
  const Sweep together = run(wanted, folder_ / "together", options);
  ASSERT_EQ(together.runs.size(), alone.runs.size());
  EXPECT_EQ(shown, static_cast<int64_t>(alone.runs.size()));
  int64_t diverged = 0;
  for (size_t i = 0; i < alone.runs.size(); ++i) {
    const CaseRun &found = together.runs[i], &expected = alone.runs[i];
    SCOPED_TRACE(expected.what.key());
    EXPECT_EQ(found.what.key(), expected.what.key());
    const bool shared = found.what.method != "guarded" && !found.what.traces;
    EXPECT_EQ(expected.together, 1);
    EXPECT_EQ(found.together > 1, shared);
    EXPECT_LE(found.together, 8);
    diverged += !expected.converged();
    EXPECT_EQ(found.outcome, expected.outcome);
    EXPECT_EQ(found.steps, expected.steps);
    EXPECT_EQ(found.shape, expected.shape);
    EXPECT_EQ(found.lr, expected.lr);
    EXPECT_EQ(found.linearizations, expected.linearizations);
    EXPECT_EQ(found.operations, expected.operations);
    EXPECT_EQ(found.row_norm, expected.row_norm);
    EXPECT_EQ(found.step, expected.step);
    EXPECT_EQ(found.refreshed, expected.refreshed);
    EXPECT_EQ(found.preflight, expected.preflight);
    EXPECT_EQ(found.eigenvalues, expected.eigenvalues);
    EXPECT_EQ(found.errors.size(), expected.errors.size());
    expect_close({found.train_loss, found.val_loss}, {expected.train_loss, expected.val_loss});
    if (!expected.converged()) continue;  // rounding grows with the rest
    expect_close(found.train, expected.train);
    expect_close(found.val, expected.val);
    expect_close(found.final_error, expected.final_error);
  }
  EXPECT_GT(diverged, 0);
  // The same ones again are the same bits.
  options.progress = {};
  const Sweep again = run(wanted, folder_ / "again", options);
  for (size_t i = 0; i < again.runs.size(); ++i) {
    if (!again.runs[i].converged()) continue;
    EXPECT_EQ(again.runs[i].train, together.runs[i].train) << again.runs[i].what.key();
    EXPECT_EQ(again.runs[i].final_error, together.runs[i].final_error);
  }
}

TEST_F(Runner, AGroupThatIsCutShortLeavesNothingAndTheNextCallMakesItAnew) {
  Plan wanted = wide_plan(plan());
  wanted.methods = {"gd", "cdt"};
  wanted.samples.architecture = "";
  RunnerOptions options;
  options.jobs = 1;
  options.together = 4;
  const Sweep whole = run(wanted, folder_ / "whole", options);
  // Stopped while the second group trains, however far it has come: at the last two, some of its
  // runs have ended.
  for (const int64_t further : {1, 3, 8, 12, 18, 19}) {
    SCOPED_TRACE(further);
    const auto folder = folder_ / ("sweep" + std::to_string(further));
    int64_t done = 0, asked = 0;
    options.progress = [&](int64_t count, int64_t, const std::string&) { done = count; };
    options.stop = [&] { return done > 0 && ++asked > further; };
    const Sweep part = run(wanted, folder, options);
    EXPECT_FALSE(part.complete);
    EXPECT_EQ(part.made, part.runs.front().together);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "runs"), {}), part.made);
    for (const CaseRun& made : part.runs) EXPECT_EQ(made.together, part.made);
    options.stop = {};
    const Sweep rest = run(wanted, folder, options);
    EXPECT_TRUE(rest.complete);
    ASSERT_EQ(rest.runs.size(), whole.runs.size());
    for (size_t i = 0; i < whole.runs.size(); ++i) {
      EXPECT_EQ(rest.runs[i].outcome, whole.runs[i].outcome);
      expect_close({rest.runs[i].val_loss}, {whole.runs[i].val_loss});
    }
  }
}

TEST_F(Runner, WhatPredictsIsTheRunThatTrainMakesOfTheTrainingRowsAlone) {
  const std::string text = data::make_houses(90, 1);
  write_file_atomically(folder_ / "houses.csv", {text});
  Plan wanted = plan();
  wanted.data.csv.drop = {"garage", "lot"};  // of which few rows may miss a category
  wanted.architectures = {{"small", {6}}};
  wanted.methods.clear();
  wanted.own_rate = {kPredict, kPredictAdam};
  wanted.seeds = 1;
  const Sweep sweep = run(wanted, folder_ / "sweep", {});
  ASSERT_EQ(sweep.runs.size(), 2U);

  // The same split, as two files: the run of the first, and its errors on the other.
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  const data::Table table = data::read_csv(wanted.data.file, wanted.data.csv);
  const auto split = study::make_problem(table, wanted.data, {}, 1, torch::kCPU).split;
  const auto write_rows = [&](std::vector<int64_t> rows, const char* name) {
    std::sort(rows.begin(), rows.end());
    std::string part = lines[0];
    for (const int64_t row : rows) part += lines[static_cast<size_t>(row + 1)];
    write_file_atomically(folder_ / name, {part});
  };
  write_rows(split.train, "train.csv");
  write_rows(split.validation, "new.csv");
  for (const CaseRun& made : sweep.runs) {
    SCOPED_TRACE(made.what.method);
    run::Options options;
    options.data.file = (folder_ / "train.csv").string();
    options.data.csv = wanted.data.csv;
    options.data.targets = wanted.data.targets;
    options.data.goal = study::Goal::kPredict;
    options.network.hidden = {6};
    if (made.what.method == kPredictAdam) options.training.method = "adam";
    options.folder = folder_ / made.what.method;
    run::train(options);
    const auto trained = run::load_trained(run::RunFolder(options.folder), torch::kCPU);
    const data::Table others =
        data::read_csv(folder_ / "new.csv", trained.preprocess.csv_options());
    const auto errors = run::predict(trained, others).errors;
    ASSERT_TRUE(errors);
    const double rmse = std::get<study::NumberErrors>(errors->at(0).value).rmse;
    ASSERT_EQ(made.errors.size(), 1U);
    EXPECT_NEAR(made.errors[0].value, rmse, 1e-4 * rmse);
    // The loss is on the comparison's scale: range 1.
    const auto& prices = table.at("price").numbers;
    double low = INFINITY, high = 0;
    for (const int64_t row : split.train) {
      low = std::min(low, prices[static_cast<size_t>(row)]);
      high = std::max(high, prices[static_cast<size_t>(row)]);
    }
    const double share = made.errors[0].value / (high - low);
    EXPECT_NEAR(made.val_loss, share * share, 1e-9);
    EXPECT_EQ(made.val.back(), made.val_loss);
  }
  EXPECT_EQ(run(wanted, folder_ / "sweep", {}).made, 0);
}

TEST_F(Runner, ClassesAndErrors) {
  Plan wanted = plan();
  wanted.data.targets = {"heating"};
  wanted.data.csv.drop = {"garage"};
  wanted.loss = loss::cross_entropy();
  wanted.errors = true;
  wanted.architectures = {{"small", {6}}};
  wanted.methods = {"gd", "cdt", kGdBest};
  wanted.own_rate = {"guarded", kPredict};
  wanted.seeds = 1;
  const Sweep sweep = run(wanted, folder_ / "sweep", {});
  ASSERT_EQ(sweep.runs.size(), 2U * 2 + 3);
  for (const CaseRun& made : sweep.runs) {
    SCOPED_TRACE(made.what.key());
    EXPECT_TRUE(std::isfinite(made.val_loss));
    EXPECT_TRUE(made.traces.empty());
    ASSERT_EQ(made.errors.size(), 1U);
    EXPECT_TRUE(made.errors[0].is_class);
    const double wrong = 9 * made.errors[0].value;  // of 30 rows 9 validate
    EXPECT_NEAR(wrong, std::round(wrong), 1e-12);
    if (predicts(made.what.method)) continue;
    EXPECT_EQ(made.final_error.size(), 21U * 4);
    EXPECT_GT(made.lr, 0);
    for (const double error : made.final_error) EXPECT_LE(std::abs(error), 1);
    EXPECT_EQ(made.what.details, !made.preflight.empty());
  }
  const CaseRun& first = sweep.runs.back();
  EXPECT_FALSE(predicts(first.what.method)) << "those come first, they take longest";
}

TEST_F(Runner, SaysHowManyRowsHaveNoTarget) {
  std::string text = data::make_houses(30, 1);
  text.erase(text.rfind(',') + 1);  // the last price
  write_file_atomically(folder_ / "houses.csv", {text + "\n"});
  Plan wanted = plan();
  wanted.architectures = {{"small", {6}}};
  wanted.methods = {"gd"};
  wanted.seeds = 1;
  EXPECT_THROW(run(wanted, folder_ / "fit", {}), InvalidArgument);
  wanted.own_rate = {kPredictAdam};
  std::vector<std::string> warnings;
  RunnerOptions options;
  options.on_warning = [&](const std::string& warning) { warnings.push_back(warning); };
  const Sweep sweep = run(wanted, folder_ / "sweep", options);
  EXPECT_THAT(warnings, testing::ElementsAre("1 of 30 rows have no target and are left out"));
  EXPECT_EQ(sweep.runs.back().final_error.size(), 20U) << "0.7 of 29";
}

TEST_F(Runner, StopsWhileItLearnsToPredict) {
  Plan wanted = plan();
  wanted.methods.clear();
  wanted.own_rate = {kPredict};
  int64_t asked = 0;
  RunnerOptions options;
  options.jobs = 1;
  options.stop = [&] { return ++asked > 3; };
  const Sweep part = run(wanted, folder_ / "sweep", options);
  EXPECT_FALSE(part.complete);
  EXPECT_EQ(part.made, 0);
}

TEST_F(Runner, SaysWhatIsWrongBeforeItRuns) {
  const auto refused = [&](const Plan& plan, const std::string& message) {
    try {
      run(plan, folder_ / "none", {});
      ADD_FAILURE() << "not refused: " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
  };
  Plan wrong = plan();
  wrong.data.train_fraction = 1;
  refused(wrong, "no rows are left to validate on");
  wrong = plan();
  wrong.data.file = (folder_ / "nowhere.csv").string();
  refused(wrong, "nowhere.csv");
  wrong = plan();
  wrong.lrs = {1, 1};
  refused(wrong, "learning rates: expected each one once");
}

TEST_F(Runner, AFailingRunEndsTheSweepWithItsMessage) {
  Plan wrong = plan();
  wrong.data.train_rows = 20;
  wrong.q = -1;
  EXPECT_THROW(run(wrong, folder_ / "sweep", {}), InvalidArgument);
}

}  // namespace
}  // namespace cdt::experiment
