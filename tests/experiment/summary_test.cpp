// Rows, curves, tables, figures and results.json of made-up runs, against numbers worked out by
// hand.
#include <cdt/experiment/figures.h>
#include <cdt/experiment/results_file.h>
#include <cdt/experiment/tables.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "experiment/sample_plan.h"
#include "support/temp_folder.h"

namespace cdt::experiment {
namespace {

using test::made_up;
using test::sample_plan;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Gradient descent diverges at the large rate; CDT is better everywhere.
std::vector<CaseRun> made_up_runs(const Plan& plan) {
  std::vector<CaseRun> runs;
  for (const Case& what : cases_of(plan)) {
    const bool lost = what.method == "gd" && what.lr == 1;
    const double loss = (what.method == "cdt" ? 0.002 : 0.004) * static_cast<double>(what.seed);
    runs.push_back(made_up(what, lost ? report::kNotKnown : loss));
  }
  return runs;
}

TEST(Summary, MeanAndSpreadOfWhatIsFinite) {
  const auto [mean, spread] = mean_and_spread({1, NAN, 3, INFINITY, 5});
  EXPECT_DOUBLE_EQ(mean, 3);
  EXPECT_DOUBLE_EQ(spread, 2);
  EXPECT_EQ(mean_and_spread({7}), (std::pair{7.0, 0.0}));
  EXPECT_TRUE(std::isnan(mean_and_spread({NAN}).first));
}

TEST(Summary, RankCorrelation) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {10, 100, 1000}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3}, {3, 2, 1}), -1);
  EXPECT_EQ(rank_correlation({1, 2, 3}, {5, 5, 5}), 0);
  // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: Spearman's ρ with ties, as SciPy has it.
  EXPECT_NEAR(rank_correlation({1, 2, 2, 3}, {1, 2, 3, 4}), 0.9486832980505138, 1e-15);
}

TEST(Summary, RowsAreThePlans) {
  const Plan plan = sample_plan();
  const auto runs = made_up_runs(plan);
  const auto rows = collect_rows(plan, runs);
  ASSERT_EQ(rows.size(), 10U);
  EXPECT_EQ(rows[4].method, kGdBest) << "after the rates";
  EXPECT_EQ(rows[4].asked_lr, 0);
  EXPECT_EQ(rows[4].lr, 0.5) << "the mean of its own rates";
  const Row* gd = find_row(rows, "small", "gd", 1);
  ASSERT_NE(gd, nullptr);
  EXPECT_EQ(gd->converged, 0);
  EXPECT_FALSE(gd->all_converged());
  EXPECT_TRUE(std::isnan(gd->val_mean));
  const Row* cdt = find_row(rows, "large", "cdt", 0.1);
  ASSERT_NE(cdt, nullptr);
  EXPECT_TRUE(cdt->all_converged());
  EXPECT_DOUBLE_EQ(cdt->val_mean, 0.003);
  EXPECT_DOUBLE_EQ(cdt->val_std, 0.001 * std::sqrt(2));
  EXPECT_DOUBLE_EQ(cdt->train_mean, 0.0015);
  EXPECT_EQ(cdt->strictly_contracting, 2);
  EXPECT_EQ(find_row(rows, "large", "cdt", 7), nullptr);
  Row published = *cdt;
  published.published = PublishedLoss{{0.001, 0.0005}, 10};
  EXPECT_DOUBLE_EQ(published.difference(), 4);
}

TEST(Summary, CurvesAreAveragedAndRunsThatEndedStayWhereTheyEnded) {
  const Case what{"small", "cdt", 0.1, 0.1, 1, 6};
  CaseRun a = made_up(what, 1);
  CaseRun b = made_up(what, 3);
  b.step = {0, 2, 4};
  b.val = {12, 6, 3};
  CaseRun lost = made_up(what, NAN);
  Row row;
  row.runs = {&a, &b, &lost};
  const MeanCurve curve = mean_curve(row, Quantity::kValidation);
  EXPECT_EQ(curve.step, (std::vector<int64_t>{0, 2, 4})) << "nobody validated at step 1";
  EXPECT_EQ(curve.mean, (std::vector<double>{8, 3.5, 2}));
  EXPECT_THAT(curve.spread[2], DoubleNear(std::sqrt(2.0), 1e-15));
  Row other;
  other.runs = {&a};
  EXPECT_EQ(mean_difference(row, other).second, (std::vector<double>{4, 2.5}));
}

TEST(Tables, SayTheSameInEveryFormat) {
  const Plan plan = sample_plan();
  const auto runs = made_up_runs(plan);
  auto rows = collect_rows(plan, runs);
  EXPECT_THAT(to_text("T", rows, {}), Not(HasSubstr("published")));
  rows[1].published = PublishedLoss{{0.001, 0.001}, 10};
  const std::vector<report::Claim> claims{{"It holds", true, "2 | 2"}, {"Perhaps", {}, "none"}};
  const std::string csv = to_csv(rows);
  EXPECT_THAT(csv, HasSubstr("architecture,lr,method,reachable,"));
  EXPECT_THAT(csv, HasSubstr("\nsmall,1,gd,yes,no,0,2,,,,0.25,,,\n"));
  EXPECT_THAT(csv, HasSubstr("\nsmall,1,cdt,yes,no,2,2,0.003,"));
  const std::string markdown = to_markdown("T", rows, claims);
  EXPECT_THAT(markdown, HasSubstr("# T\n"));
  EXPECT_THAT(markdown, HasSubstr("| 1 | gd | yes | no | 0/2 | ∞ |"));
  EXPECT_THAT(markdown, HasSubstr("3.00 ± 1.41 | 1.00 ± 1.00 | +2.0 |"));
  EXPECT_THAT(markdown, HasSubstr("| It holds | held | 2 \\| 2 |"));
  const std::string text = to_text("T", rows, claims);
  EXPECT_THAT(text, HasSubstr("Architecture small (3-6-1)"));
  EXPECT_THAT(text, HasSubstr("cannot be said Perhaps"));
}

TEST(Figures, OnlyThoseThatHaveSomethingToShow) {
  Plan plan = sample_plan();
  plan.methods = {"gd", "cdt", "guarded"};
  const auto runs = made_up_runs(plan);
  std::set<std::string> ids;
  for (const auto& figure : draw_figures(plan, collect_rows(plan, runs), runs)) {
    ids.insert(figure.id);
    EXPECT_FALSE(figure.series.empty()) << figure.id;
  }
  for (const char* id : {"relative-small", "rates-large", "guard-small", "validation-large-lr-0-1",
                         "validation-small-lr-1"}) {
    EXPECT_TRUE(ids.contains(id)) << id;
  }
  EXPECT_FALSE(ids.contains("sample-1")) << "no traces were made up";
}

TEST(Figures, HaveIdsOfTheirOwn) {
  Plan plan = sample_plan();
  plan.architectures = {{"a b", {6}}, {"a-b", {12}}, {"a_b", {3}}};
  const auto runs = made_up_runs(plan);
  std::set<std::string> ids;
  for (const auto& figure : draw_figures(plan, collect_rows(plan, runs), runs)) {
    EXPECT_TRUE(ids.insert(figure.id).second) << figure.id;
  }
  EXPECT_TRUE(ids.contains("rates-a-b-3"));
}

TEST(ResultsFile, ComesBackAsThePageShowsIt) {
  const Plan plan = sample_plan();
  Sweep sweep;
  sweep.runs = made_up_runs(plan);
  sweep.made = 3;
  sweep.checksum = "12";
  sweep.table_rows = 40;
  sweep.sessions = {{20, 2, 100, 2, "cpu", "1.13", 100}};
  auto rows = collect_rows(plan, sweep.runs);
  rows[1].published = PublishedLoss{{0.001, 0.001}, 10};
  const Results results{plan, sweep, rows, {{"It holds", true, "2"}}, {"A note."}};
  const std::string json = to_json(results);
  const auto content = nlohmann::json::parse(json);
  EXPECT_EQ(content["timings"]["runs_made_now"], 3);
  EXPECT_EQ(content["timings"]["share_of_gemm_rate"], 0.5);
  EXPECT_EQ(content["machine"]["threads_per_run"], 1);
  EXPECT_EQ(content["rows"][1]["difference"], 2);
  const report::SweepRecord record = parse_results(json, "results.json");
  EXPECT_EQ(record.title, plan.title);
  EXPECT_FALSE(record.complete);
  EXPECT_THAT(record.summary, ElementsAre("A note."));
  ASSERT_EQ(record.rows.size(), rows.size());
  EXPECT_EQ(record.rows[1].validation.mean, rows[1].val_mean);
  EXPECT_EQ(record.rows[1].published->mean, 0.001);
  EXPECT_EQ(record.rows[0].converged, 0);
  EXPECT_TRUE(std::isnan(record.rows[0].validation.mean));
  EXPECT_EQ(record.settings.size(), 2U);

  const cdt::test::TempFolder folder;
  const std::string written = write_results(folder / "", results);
  EXPECT_EQ(read_checksums(folder / "").size(), 3U);
  EXPECT_EQ(written, to_json(results, read_checksums(folder / "")));
  const report::SweepRecord read = read_results(folder / "");
  EXPECT_EQ(read.rows.size(), rows.size());
  EXPECT_EQ(read.figures.size(), draw_figures(plan, rows, sweep.runs).size());
  for (const char* file : {"results.csv", "results.md", "report.html"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / file)) << file;
  }
}

}  // namespace
}  // namespace cdt::experiment
