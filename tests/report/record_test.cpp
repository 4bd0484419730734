// Pages from records: what is not there is left out, what does not fit is refused.
#include <cdt/core/error.h>
#include <cdt/report/run_page.h>
#include <cdt/report/sweep_page.h>
#include <gmock/gmock.h>

namespace cdt::report {
namespace {

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
  RunRecord run;
  run.name = "mine";
  const std::string html = to_html(run_page({run}));
  EXPECT_THAT(html, HasSubstr("<h1>Run mine</h1>"));
  EXPECT_THAT(html, HasSubstr("has not ended"));
  EXPECT_THAT(html, HasSubstr("– (– parameters) on – rows of a table, by the method –."));
  EXPECT_THAT(html, Not(HasSubstr("<canvas")));
}

TEST(Records, ClassesAreCountedAndNumbersAreDrawn) {
  RunRecord run;
  run.outcome.emplace();
  run.predictions.validation = {false, true, true};
  run.predictions.targets = {{"kind", {}, {}, {"a", "b", "b"}, {"a", "a", "b"}},
                             {"price", {1, 2, 3}, {1, 2.5, 3}, {}, {}}};
  run.validation_errors = {{"price", 2.5, 2, kNotKnown, kNotKnown, kNotKnown}};
  const Page page = run_page({run});
  const auto& tables = page.sections[0].tables;
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_EQ(tables[1].columns,
            (std::vector<std::string>{"Target", "Rows", "RMS error", "Mean absolute error", "R²"}));
  EXPECT_EQ(tables[3].rows,
            (std::vector<std::vector<std::string>>{{"a", "0", "0"}, {"b", "1", "1"}}));
  ASSERT_EQ(page.sections[1].figures.size(), 1u);
  EXPECT_EQ(page.sections[1].figures[0].id, "predictions-2");
  EXPECT_EQ(page.sections[1].figures[0].series[1].y, (std::vector<double>{2.5, 3}));
}

TEST(Records, ColumnsThatBelongTogetherHaveOneLength) {
  expect_refused([] { run_page({}); }, "expected a run");
  RunRecord run;
  run.name = "mine";
  run.history.step = {0, 1};
  expect_refused([&] { run_page({run}); }, "run mine: the history of lr has 0 entries, not 2");
  run = {};
  run.spectrum.mode = {1};
  expect_refused([&] { run_page({run}); }, "a column of the spectrum has 0 entries, not 1");
  run = {};
  run.predictions.targets = {{"price", {1}, {1}, {}, {}}};
  expect_refused([&] { run_page({run}); }, "the target price has 1 entries, not 0");
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
