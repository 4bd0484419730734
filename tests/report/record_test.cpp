// Pages from records: what is not there is left out, what does not fit is refused.
#include <cdt/core/error.h>
#include <cdt/report/run_page.h>
#include <cdt/report/sweep_page.h>
#include <gmock/gmock.h>

namespace cdt::report {
namespace {

using study::Record;
using study::RowUse;
using testing::HasSubstr;
using testing::Not;

template <class Action>
void expect_refused(Action action, const std::string& message) {
  try {
    action();
    ADD_FAILURE() << "not refused: " << message;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(Records, NumbersAsPagesWriteThem) {
  EXPECT_EQ(show(0.123456), "0.1235");
  EXPECT_EQ(show(23140.4), "23140");
  EXPECT_EQ(show(12345678.0), "1.235e+07");
  EXPECT_EQ(show(kNotKnown), "–");
  EXPECT_EQ(show(-std::numeric_limits<double>::infinity()), "−∞");
  EXPECT_EQ(show(std::optional<int64_t>(12345678)), "12345678");
  EXPECT_EQ(show(std::optional<int64_t>()), "–");
  EXPECT_EQ(show(std::string()), "–");
}

TEST(Records, AnEmptyRunHasAPageOfDashes) {
  Record run;
  run.name = "mine";
  const std::string html = to_html(run_page({run}));
  EXPECT_THAT(html, HasSubstr("<h1>Run mine</h1>"));
  EXPECT_THAT(html, HasSubstr("has not ended"));
  EXPECT_THAT(html, HasSubstr("– (– parameters) on – rows of a table, by the method –."));
  EXPECT_THAT(html, Not(HasSubstr("<canvas")));
}

TEST(Records, ClassesAreCountedAndNumbersAreDrawn) {
  Record run;
  run.result.emplace();
  run.predictions.use = {RowUse::kTraining, RowUse::kValidation, RowUse::kValidation};
  run.predictions.targets = {{"kind", {}, {}, {"a", "b", "b"}, {"a", "a", "b"}, {}, {}},
                             {"price", {1, 2, 3}, {1, 2.5, 3}, {}, {}, {}, {}}};
  run.errors.emplace().validation = {{"price", study::NumberErrors{2.5, 2, {}}}};
  const Page page = run_page({run});
  const auto& tables = page.sections[0].tables;
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_EQ(tables[1].columns,
            (std::vector<std::string>{"Target", "Rows", "RMS error", "Mean absolute error", "R²"}));
  EXPECT_EQ(tables[3].rows, (std::vector<std::vector<std::string>>{{"a", "0", "0", "–"},
                                                                   {"b", "1", "1", "50.0 %"}}));
  ASSERT_EQ(page.sections[1].figures.size(), 2u);
  EXPECT_EQ(page.sections[1].figures[0].id, "predictions-2");
  EXPECT_EQ(page.sections[1].figures[0].series[1].x, (std::vector<double>{2.5, 3}));
  EXPECT_EQ(page.sections[1].figures[1].id, "residuals-2");
  EXPECT_EQ(page.sections[1].figures[1].series[1].x, (std::vector<double>{2.5, 3}));
  EXPECT_EQ(page.sections[1].figures[1].series[1].y, (std::vector<double>{-0.5, 0}));
}

/// A run of three points that predicts a number; the second was picked.
Record a_predicting_run() {
  Record run;
  run.name = "mine";
  run.settings = {{"method", {"path"}}, {"goal", {"predict"}}};
  run.result.emplace();
  const auto add = [&](double training, double held_out, double decay, double freedom) {
    train::StepRecord& row = run.history.emplace_back();
    row.step = static_cast<int64_t>(run.history.size()) - 1;
    row.train_loss = training;
    row.val_loss = held_out;
    row.decay = decay;
    row.freedom = freedom;
  };
  add(1, 1.1, 8, 5);
  add(0.5, 0.6, 4, 10);
  add(0.2, 0.3, 2, 20);
  add(kNotKnown, 0.4, kNotKnown, kNotKnown);
  study::RunPrediction& prediction = run.prediction.emplace();
  prediction.members = 4;
  prediction.points = 2;
  prediction.decay = 4.25;
  study::Expectation& expected = prediction.expected.emplace_back();
  expected.target = "price";
  expected.rows = 300;
  expected.rmse = {4.118, 0.279};
  expected.r2 = 0.94;
  expected.linear_rmse = 5.94;
  expected.mean_rmse = 16.8;
  return run;
}

const Figure* find_figure(const Page& page, const std::string& id) {
  for (const Section& section : page.sections) {
    for (const Figure& figure : section.figures) {
      if (figure.id == id) return &figure;
    }
  }
  return nullptr;
}

TEST(PredictionPages, ALossStandsAtTheDecayUnderWhichItsPointWasReached) {
  const Page page = run_page({a_predicting_run()});
  const Figure* path = find_figure(page, "path");
  ASSERT_NE(path, nullptr);
  EXPECT_TRUE(path->x.logarithmic && path->x.reversed);
  ASSERT_EQ(path->series.size(), 4u);
  EXPECT_EQ(path->series[0].name, "training");
  EXPECT_EQ(path->series[0].x, (std::vector<double>{8, 4}));
  EXPECT_EQ(path->series[0].y, (std::vector<double>{0.5, 0.2}));
  EXPECT_EQ(path->series[1].name, "held out");
  EXPECT_EQ(path->series[1].x, (std::vector<double>{8, 4, 2}));
  EXPECT_EQ(path->series[1].y, (std::vector<double>{0.6, 0.3, 0.4}));
  EXPECT_TRUE(path->series[2].second_axis);
  EXPECT_EQ(path->series[2].y, (std::vector<double>{5, 10, 20}));
  EXPECT_EQ(path->series[3].x, std::vector<double>{4}) << "the point that was picked";
  EXPECT_EQ(path->series[3].y, std::vector<double>{0.3});
  for (const char* other : {"losses", "control", "events", "linearization-error"}) {
    EXPECT_EQ(find_figure(page, other), nullptr) << other << " makes no sense for a path";
  }
}

TEST(PredictionPages, EachActivationHasItsPoint) {
  Record run = a_predicting_run();
  run.prediction->picked = {{nn::Activation::kRelu, 2, 0.28}, {nn::Activation::kTanh, 3, 0.33}};
  const Page page = run_page({run});
  const Figure* path = find_figure(page, "path");
  ASSERT_NE(path, nullptr);
  ASSERT_EQ(path->series.size(), 5u);
  EXPECT_EQ(path->series[3].name, "picked point of relu");
  EXPECT_EQ(path->series[3].x, std::vector<double>{4});
  EXPECT_EQ(path->series[3].y, std::vector<double>{0.28}) << "of the rows that these held out";
  EXPECT_EQ(path->series[4].name, "picked point of tanh");
  EXPECT_EQ(path->series[4].x, std::vector<double>{2});
  EXPECT_EQ(path->series[4].y, std::vector<double>{0.33});
  EXPECT_THAT(path->caption, HasSubstr("each activation has its own point"));
}

TEST(PredictionPages, TheHeadSaysWhatToExpectAndWhatOthersReach) {
  Record run = a_predicting_run();
  Page page = run_page({run});
  EXPECT_EQ(page.summary[0],
            "On new rows expect price to be off by 4.12 ± 0.28 (RMS; R² 0.940), as 300 rows show "
            "that were held out. A linear model: 5.94; the mean of the rows: 16.8.");
  EXPECT_THAT(page.summary[1], HasSubstr("4 networks"));
  EXPECT_THAT(page.summary[2], HasSubstr("picked point 2 of the path (decay τ = 4.25)"));
  EXPECT_EQ(page.sections[0].tables[0].rows[0],
            (std::vector<std::string>{"price", "4.12 ± 0.28", "0.94", "5.94", "16.8", "300"}));
  EXPECT_THAT(to_html(page), Not(HasSubstr("alidation"))) << "these rows are held out";

  run.errors.emplace().test = {{"price", study::NumberErrors{4.5, 3, {}}}};
  EXPECT_EQ(run_page({run}).summary[1], "On test rows the RMS error of price is 4.5.");

  run.prediction->expected[0].linear_rmse = 4.3;
  EXPECT_THAT(run_page({run}).summary[0], HasSubstr("A linear model may do as well"));
  run.prediction->expected[0].mean_rmse = 4.2;
  EXPECT_THAT(run_page({run}).summary[0], HasSubstr("No better than the mean"));

  run = a_predicting_run();
  run.prediction->points = 0;
  page = run_page({run});
  EXPECT_THAT(page.summary[2], HasSubstr("has learned nothing"));
  EXPECT_EQ(find_figure(page, "path")->series.size(), 3u) << "the start stands at no decay";

  run.prediction.reset();  // it lasts, or was interrupted
  run.in_words = "Interrupted.";
  EXPECT_EQ(run_page({run}).summary.back(), "Interrupted.");
}

TEST(PredictionPages, ColumnsThatMatterStandInATable) {
  Record run = a_predicting_run();
  for (int i = 0; i < 25; ++i)
    run.prediction->importance.push_back({"c" + std::to_string(i), 0.125});
  const Table table = run_page({run}).sections[0].tables.back();
  ASSERT_EQ(table.rows.size(), 20u);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"c0", "12.5 %"}));
  EXPECT_THAT(table.note, HasSubstr("5 columns that matter less"));
}

TEST(PredictionPages, RowsThatTestHaveAColourOfTheirOwn) {
  Record run = a_predicting_run();
  run.predictions.use = {RowUse::kTest, RowUse::kTraining, RowUse::kValidation};
  run.predictions.targets = {{"price", {1, 2, 3}, {1.5, 2, 2.5}, {}, {}, {}, {}}};
  const Page page = run_page({run});
  const auto& series = find_figure(page, "predictions-1")->series;
  ASSERT_EQ(series.size(), 4u);
  EXPECT_EQ(series[0].name, "training rows");
  EXPECT_EQ(series[1].name, "rows held out");
  EXPECT_EQ(series[2].name, "test rows");
  EXPECT_EQ(series[2].x, std::vector<double>{1.5});
  EXPECT_EQ(find_figure(page, "residuals-1")->series[2].y, std::vector<double>{-0.5});
}

TEST(PredictionPages, BoundsAreABandOverPredictions) {
  Record run = a_predicting_run();
  study::TargetPredictions target;
  target.name = "price";
  constexpr size_t kRows = 60;
  for (size_t i = 0; i < kRows; ++i) {
    const auto value = static_cast<double>((i * 7) % kRows);
    target.truth.push_back(value + 1);
    target.predicted.push_back(value);
    target.low.push_back(i % 10 == 0 ? kNotKnown : value - 2);
    target.high.push_back(i % 10 == 0 ? kNotKnown : value + 3);
  }
  run.predictions.use.assign(kRows, RowUse::kValidation);
  run.predictions.targets = {target};
  const Page page = run_page({run});
  const Figure* figure = find_figure(page, "predictions-1");
  ASSERT_NE(figure, nullptr);
  const Series& band = figure->series.back();
  EXPECT_EQ(band.name, "9 of 10 new rows");
  ASSERT_EQ(band.x.size(), 24U);
  for (size_t k = 0; k < band.x.size(); ++k) {
    EXPECT_NEAR(band.x[k] - band.low[k], 2, 1e-12);
    EXPECT_NEAR(band.high[k] - band.x[k], 3, 1e-12);
    if (k > 0) {
      EXPECT_GT(band.x[k], band.x[k - 1]);
    }
  }
  run.predictions.targets[0].high.pop_back();
  expect_refused([&] { run_page({run}); }, "a bound of price: expected 60 entries, got 59");
}

TEST(PredictionPages, ReliabilityCountsWhatCameTrue) {
  Record run = a_predicting_run();
  study::Expectation expected;
  expected.target = "kind";
  expected.rows = 6;
  expected.wrong = {0.237, 0.022};
  expected.log_loss = {kNotKnown, kNotKnown};
  expected.majority_wrong = 0.25;
  run.prediction->expected = {expected};
  // Four rows held out at 0.25, of which one is a flat, two at 1; a training row does not count.
  run.predictions.use.assign(7, RowUse::kValidation);
  run.predictions.use[0] = RowUse::kTraining;
  run.predictions.targets = {
      {"kind",
       {},
       {},
       {"flat", "flat", "house", "house", "house", "flat", "flat"},
       {"house", "house", "house", "house", "house", "flat", "flat"},
       {"house", "flat"},
       {{0.75, 0.75, 0.75, 0.75, 0.75, 0, 0}, {0.25, 0.25, 0.25, 0.25, 0.25, 1, 1}}}};
  const Page page = run_page({run});
  const Figure* figure = find_figure(page, "reliability-1");
  ASSERT_NE(figure, nullptr);
  EXPECT_EQ(figure->x.label, "predicted probability of flat");
  ASSERT_EQ(figure->series.size(), 3u);
  const Series& held_out = figure->series[0];
  EXPECT_EQ(held_out.x, (std::vector<double>{0.25, 1}));
  EXPECT_EQ(held_out.y, (std::vector<double>{0.25, 1}));
  // Wilson's interval solves (p − x)² = z² x(1 − x)/n at its ends.
  for (const double x : {held_out.low[0], held_out.high[0]}) {
    EXPECT_NEAR((0.25 - x) * (0.25 - x), 1.96 * 1.96 * x * (1 - x) / 4, 1e-12);
  }
  EXPECT_NEAR(held_out.high[1], 1, 1e-12);
  EXPECT_EQ(figure->series[2].y, (std::vector<double>{4, 2}));
  EXPECT_THAT(page.summary[0], HasSubstr("wrong in 23.7 ± 2.2 % of all cases"));
  EXPECT_THAT(page.summary[0], HasSubstr("but 6 rows are too few to be certain"));

  // Of more than two classes: the one that was predicted.
  auto& target = run.predictions.targets[0];
  target.classes.push_back("tent");
  target.probabilities.push_back(std::vector<double>(7, 0));
  const Page three = run_page({run});
  EXPECT_EQ(find_figure(three, "reliability-1")->series[0].x, (std::vector<double>{0.75, 1}));
  EXPECT_EQ(find_figure(three, "reliability-1")->series[0].y, (std::vector<double>{0.75, 1}));

  target.probabilities.pop_back();
  expect_refused([&] { run_page({run}); }, "the probabilities of kind: expected 3 entries, got 2");
}

TEST(Records, ColumnsThatBelongTogetherHaveOneLength) {
  expect_refused([] { run_page({}); }, "expected a run");
  Record run;
  run.name = "mine";
  run.spectrum.mode = {1};
  expect_refused([&] { run_page({run}); },
                 "run mine: a column of the spectrum: expected 1 entries, got 0");
  run = {};
  run.predictions.targets = {{"price", {1}, {1}, {}, {}, {}, {}}};
  expect_refused([&] { run_page({run}); }, "the target price: expected 0 entries, got 1");
}

TEST(Records, ASweepShowsWhatItHas) {
  SweepRecord sweep;
  expect_refused([&] { sweep_page(sweep); }, "its list of rows is empty");
  SweepTableRow row;
  row.architecture = "1";
  row.runs = 10;
  row.reachable = false;
  row.reachable_runs = 9;
  sweep.rows = {row};
  const Page page = sweep_page(sweep);
  EXPECT_EQ(page.sections[0].tables[0].rows[0],
            (std::vector<std::string>{"–", "–", "9\u00a0of\u00a010", "–", "–\u00a0of\u00a010",
                                      "diverged", "–"}));
}

}  // namespace
}  // namespace cdt::report
