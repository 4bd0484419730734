// Sweeps on pictures, and what the paper says of them.
#include <cdt/experiment/runner.h>
#include <cdt/experiment/summary.h>
#include <cdt/study/parts/pictures.h>
#include <gmock/gmock.h>

#include "experiment/sample_plan.h"
#include "experiments/claims.h"
#include "support/temp_folder.h"

namespace cdt::experiment {
namespace {

Plan picture_plan() {
  Plan plan = test::sample_plan();
  plan.data.targets.clear();
  plan.data.is_pictures = true;
  plan.data.train_fraction = 0.5;
  plan.architectures = {{"net", {3}, "cnn"}};
  plan.lrs = {1, 0.1, 0.01, 0.001};
  plan.methods = {"gd", "cdt"};
  plan.seeds = 1;
  plan.samples = {};
  plan.errors = true;
  plan.settings = {};
  return plan;
}

TEST(PictureSweeps, RunOnAnyArchitectureAndMeasureClasses) {
  const cdt::test::TempFolder folder;
  Plan plan = picture_plan();
  plan.lrs = {0.01};
  const data::Table table = study::generated_pictures(12, 1, 8);
  RunnerOptions options;
  options.jobs = 1;
  const Sweep sweep = run(plan, table, folder / "sweep", options);
  ASSERT_EQ(sweep.runs.size(), 2U);
  const CaseRun& one = sweep.runs[0];
  EXPECT_EQ(one.shape, "cnn 3×8×8-2");
  ASSERT_EQ(one.errors.size(), 1U);
  EXPECT_TRUE(one.errors[0].is_class);
  // Errors as they are, of six pictures and two outputs.
  ASSERT_EQ(one.final_error.size(), 12U);
  double sum = 0;
  for (const double error : one.final_error) sum += error * error;
  EXPECT_NEAR(sum / 12, one.train_loss, 1e-6 + 1e-5 * one.train_loss);
  Plan other = plan;
  other.architectures[0].network = "mlp";
  EXPECT_THROW(run(other, table, folder / "sweep", options), std::invalid_argument);
}

TEST(PictureClaims, AreThoseOfThePaper) {
  const Plan plan = picture_plan();
  for (const bool as_published : {true, false}) {
    std::vector<CaseRun> runs;
    for (const Case& what : cases_of(plan)) {
      const bool cdt = what.method == "cdt";
      CaseRun run = test::made_up(what, cdt == as_published ? 0.25 : 0.3);
      run.step = {0, 10, 20};
      run.val = {0.6, run.val_loss, run.val_loss};
      run.train = {0.6, 0.1, 0.1};
      if (what.lr == 0.1) run.val = {0.6, 0.2, as_published ? run.val_loss : 0.1};
      if (what.lr == 0.01) run.val = {0.6, cdt ? run.val_loss : 0.5, run.val_loss};
      if (what.lr == 0.01 && !as_published && cdt) run.val = {0.6, 0.5, 0.4};
      if (what.lr == 1 && !cdt) run.outcome = "diverged";
      if (what.lr == 1 && !as_published) run.outcome = "diverged";
      runs.push_back(run);
    }
    const auto rows = collect_rows(plan, runs);
    const auto claims = paper::check_claims(plan, {}, rows, runs);
    ASSERT_EQ(claims.size(), 6U);
    for (size_t i = 0; i < claims.size(); ++i) {
      if (i == 2 && !as_published) continue;  // both end alike
      EXPECT_EQ(claims[i].held, as_published) << claims[i].text << ": " << claims[i].evidence;
    }
  }
}

}  // namespace
}  // namespace cdt::experiment
