// Rows, curves, tables, figures and results.json of made-up runs, against numbers worked out by
// hand.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/text/wrap.h>
#include <cdt/data/csv.h>
#include <cdt/experiment/parts/figures.h>
#include <cdt/experiment/results_file.h>
#include <cdt/experiment/tables.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

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
  published.published = report::PublishedLoss{{0.001, 0.0005}, 10};
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
  rows[1].published = report::PublishedLoss{{0.001, 0.001}, 10};
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

/// A rate of its own for cdt, runs that predict, and errors of all but those that diverged.
std::vector<CaseRun> measured_runs(Plan& plan, bool is_class) {
  plan.own_rate = {"cdt", kPredict};
  std::vector<CaseRun> runs = made_up_runs(plan);
  for (CaseRun& run : runs) {
    if (predicts(run.what.method)) run.lr = report::kNotKnown;
    if (run.converged()) run.errors = {{"price, net", is_class, 100 * run.val_loss}};
  }
  return runs;
}

TEST(Summary, RatesOfTheirOwnAndErrorsInUnitsOfTheFile) {
  Plan plan = sample_plan();
  const auto runs = measured_runs(plan, false);
  const auto rows = collect_rows(plan, runs);
  ASSERT_EQ(rows.size(), 14U);
  const Row* own = find_row(rows, "small", "cdt", 0);
  ASSERT_NE(own, nullptr);
  EXPECT_TRUE(own->own_rate());
  EXPECT_EQ(own->lr, 0.5);
  ASSERT_EQ(own->errors.size(), 1U);
  EXPECT_DOUBLE_EQ(own->errors[0].error.mean, 0.3);
  EXPECT_DOUBLE_EQ(own->errors[0].error.spread, 0.1 * std::sqrt(2));
  EXPECT_FALSE(find_row(rows, "small", kGdBest, 0)->own_rate());
  const Row* predict = find_row(rows, "small", kPredict, 0);
  ASSERT_NE(predict, nullptr);
  EXPECT_FALSE(predict->own_rate());
  EXPECT_TRUE(std::isnan(predict->lr));
  EXPECT_EQ(predict->runs.size(), 2U);
  EXPECT_TRUE(find_row(rows, "small", "gd", 1)->errors.empty()) << "all of them diverged";
}

TEST(Tables, HaveErrorsInUnitsOfTheFile) {
  Plan plan = sample_plan();
  const auto runs = measured_runs(plan, false);
  const auto rows = collect_rows(plan, runs);
  const std::string text = to_text("T", rows, {});
  EXPECT_THAT(text, HasSubstr("RMSE of price, net\n"));
  EXPECT_THAT(text, HasSubstr("own      cdt    yes      yes   2/2  3.00 ± 1.41"));
  EXPECT_THAT(text, HasSubstr("0.3 ± 0.14\n"));
  EXPECT_THAT(text, HasSubstr("Lowest RMSE of price, net on the rows left out: 0.3 ± 0.14, by cdt "
                              "at rate 1\n  (architecture small)."));
  const std::string csv = to_csv(rows);
  EXPECT_THAT(csv, HasSubstr("difference,\"rmse_price, net_mean\",\"rmse_price, net_std\"\n"));
  EXPECT_THAT(csv, HasSubstr("\nsmall,1,gd,yes,no,0,2,,,,0.25,,,,,\n"));
  EXPECT_THAT(csv, HasSubstr("\nsmall,,predict,,,2,2,"));
  const std::string markdown = to_markdown("T", rows, {});
  EXPECT_THAT(markdown, HasSubstr("| validation | RMSE of price, net | training |\n"
                                  "|---|---|---|---|---|---|---|---|\n"));
  EXPECT_THAT(markdown,
              HasSubstr("| 0.5 (own) | cdt | yes | yes | 2/2 | 3.00 ± 1.41 | 0.3 ± 0.14"));
  EXPECT_THAT(markdown, HasSubstr("| – | predict |  |  | 2/2 |"));
}

TEST(Tables, FitATerminal) {
  Plan plan = sample_plan();
  auto runs = measured_runs(plan, false);
  for (CaseRun& run : runs) {
    run.shape = "79-250-250-250-250-250-250-250-250-1";
    if (run.converged()) run.errors.push_back({"a second target of some length", false, 22244});
  }
  auto rows = collect_rows(plan, runs);
  rows[1].published = report::PublishedLoss{{0.15, 0.351}, 10};
  std::istringstream text(to_text("A title that is longer than a terminal is wide, which happens",
                                  rows, {{"It holds for every rate", true, "12 of 12 pairs"}}));
  std::string all;
  for (std::string line; std::getline(text, line); all += line + "\n") {
    EXPECT_LE(printed_width(line), kColumns) << line;
  }
  EXPECT_THAT(all, HasSubstr("RMSE of price, net"));
  EXPECT_THAT(all, HasSubstr("RMSE of a second target of some length"));
  EXPECT_THAT(all, HasSubstr("150.00 ± 351.00"));
}

TEST(Tables, ShowErrorsInDigitsThatPeopleRead) {
  EXPECT_EQ(report::show({"price", false, {19930.4, 497.3}}), "19930 ± 497");
  EXPECT_EQ(report::show({"medv", false, {2.88912, 0.0753}}), "2.889 ± 0.075");
  EXPECT_EQ(report::show({"mass", false, {3e9, 2e8}}), "3e+09 ± 2e+08");
  EXPECT_EQ(report::show({"kind", true, {0.2341, 0.012}}, "_"), "23.4_±_1.2_%");
}

TEST(Tables, OfClassesHaveEntropiesAndErrorRates) {
  Plan plan = sample_plan();
  plan.loss = loss::cross_entropy();
  const auto runs = measured_runs(plan, true);
  const auto rows = collect_rows(plan, runs);
  const std::string text = to_text("T", rows, {});
  EXPECT_THAT(text, HasSubstr("validation cross entropy"));
  EXPECT_THAT(text, HasSubstr("error rate of price, net"));
  EXPECT_THAT(text, HasSubstr("0.003 ± 0.001             30.0 ± 14.1 %\n"));
  EXPECT_THAT(to_csv(rows), HasSubstr("error_rate_price, net_mean"));
  EXPECT_THAT(to_markdown("T", rows, {}), HasSubstr("Final validation cross entropy, mean"));
}

TEST(Figures, LeaveRatesOfTheirOwnOutOfAxesOfRates) {
  Plan plan = sample_plan();
  const auto runs = measured_runs(plan, false);
  std::set<std::string> ids;
  for (const auto& figure : draw_figures(plan, collect_rows(plan, runs), runs)) {
    ids.insert(figure.id);
    const bool rates = figure.id.starts_with("rates-");
    for (const auto& series : figure.series) {
      for (const double x : series.x) EXPECT_TRUE(!rates || x > 0) << figure.id;
      EXPECT_NE(series.name, kPredict);
    }
  }
  EXPECT_TRUE(ids.contains("validation-small-own-rate"));
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

TEST(ResultsFile, ErrorsAndRatesOfTheirOwnReachThePage) {
  for (const bool classes : {false, true}) {
    Plan plan = sample_plan();
    if (classes) plan.loss = loss::cross_entropy();
    Sweep sweep;
    sweep.runs = measured_runs(plan, classes);
    const auto rows = collect_rows(plan, sweep.runs);
    const report::SweepRecord record = parse_results(to_json({plan, sweep, rows, {}, {}}), "r");
    EXPECT_EQ(record.classes, classes);
    ASSERT_EQ(record.rows.size(), rows.size());
    const report::SweepTableRow& own = record.rows[5];
    EXPECT_TRUE(own.own_rate);
    ASSERT_EQ(own.errors.size(), 1U);
    EXPECT_EQ(own.errors[0].target, "price, net");
    EXPECT_EQ(own.errors[0].is_class, classes);
    EXPECT_EQ(own.errors[0].error.mean, rows[5].errors[0].error.mean);
    const report::SweepTableRow& predict = record.rows[6];
    EXPECT_EQ(predict.method, kPredict);
    EXPECT_FALSE(predict.own_rate);
    EXPECT_FALSE(predict.reachable);
    EXPECT_TRUE(std::isnan(predict.lr));
    const std::string page = report::to_html(report::sweep_page(record));
    EXPECT_THAT(page, HasSubstr(classes ? "Error rate of price, net" : "RMSE of price, net"));
    EXPECT_THAT(page, HasSubstr(classes ? "Validation cross entropy" : "Validation MSE"));
    EXPECT_THAT(page, HasSubstr("0.5\u00a0(own)"));
  }
  // What was not measured leaves no names behind.
  const Plan plan = sample_plan();
  Sweep sweep;
  sweep.runs = made_up_runs(plan);
  const auto rows = collect_rows(plan, sweep.runs);
  const std::string json = to_json({plan, sweep, rows, {}, {}});
  for (const char* name : {"errors", "own_rate", "\"loss\""})
    EXPECT_THAT(json, Not(HasSubstr(name)));
  EXPECT_THAT(to_csv(rows), HasSubstr("published_std,difference\n"));
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
  rows[1].published = report::PublishedLoss{{0.001, 0.001}, 10};
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
  EXPECT_EQ(record.rows[1].published->loss.mean, 0.001);
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

TEST(ResultsFile, NamesAreTextForSpreadsheetsAndInMarkdown) {
  const std::string nasty = "=cmd|'/c calc'!A0\n|[x](http://x)<script>`*_\\";
  Plan plan = sample_plan();
  plan.architectures[0].name = nasty;
  Sweep sweep;
  sweep.runs = {made_up({nasty, "gd", 0.1, plan.p, 1, plan.steps}, 1)};
  sweep.runs[0].errors = {{"=1+1", false, 2.5}};
  auto rows = collect_rows(plan, sweep.runs);
  ASSERT_EQ(rows.size(), 1U);
  const data::Table table = data::parse_csv(to_csv(rows, true), "results.csv");
  EXPECT_EQ(table.at("architecture").categories.at(0).substr(0, 2), "'=");
  EXPECT_THAT(to_csv(rows, true), HasSubstr("rmse_=1+1_mean")) << "a name that is no formula";
  EXPECT_EQ(data::parse_csv(to_csv(rows), "results.csv").at("architecture").categories.at(0),
            nasty);
  const std::string text = to_markdown("on " + nasty, rows, {{nasty, true, nasty}});
  const std::string shown = R"(=cmd\|'/c calc'!A0\\x0a\|\[x\](http\://x)&lt;script&gt;\`\*\_\\)";
  EXPECT_THAT(text, testing::StartsWith("# on " + shown + "\n\n## Architecture " + shown + " ("));
  EXPECT_THAT(text, HasSubstr("\n| " + shown + " | held | " + shown + " |\n"));
  EXPECT_THAT(text, HasSubstr("| RMSE of =1+1 |"));
}

/// Of results.json and figures.json.
TEST(ResultsFile, NoBitOfItChangesUnseen) {
  const Plan plan = sample_plan();
  Sweep sweep;
  sweep.runs = made_up_runs(plan);
  const auto rows = collect_rows(plan, sweep.runs);
  const cdt::test::TempFolder folder;
  write_results(folder / "", {plan, sweep, rows, {}, {}});
  EXPECT_NO_THROW(read_results(folder / ""));
  for (const char* name : {"results.json", "figures.json"}) {
    const std::string sound = read_file(folder / name);
    const auto put = [&](const std::string& text) {
      std::ofstream(folder / name, std::ios::binary | std::ios::trunc) << text;
    };
    const size_t tail = 8 * (sound.size() - std::min<size_t>(sound.size(), 60));
    for (size_t bit = 0; bit < 8 * sound.size(); bit += bit < tail ? 211 : 1) {
      std::string text = sound;
      text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
      put(text);
      EXPECT_THROW(read_results(folder / ""), InvalidArgument) << name << ", bit " << bit;
    }
    put(sound);
  }
  EXPECT_NO_THROW(read_results(folder / ""));
}

}  // namespace
}  // namespace cdt::experiment
