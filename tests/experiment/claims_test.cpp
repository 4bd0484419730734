// The paper's statements on made-up runs that bear them out, and on others that do not.
#include "experiments/claims.h"

#include <gmock/gmock.h>

#include "experiment/sample_plan.h"

namespace cdt::paper {
namespace {

using experiment::Case;
using experiment::CaseRun;
using experiment::Plan;
using testing::HasSubstr;

std::vector<CaseRun> runs_with(const Plan& plan, double gd, double cdt) {
  std::vector<CaseRun> runs;
  for (const Case& what : cases_of(plan)) {
    const double loss = what.method == "cdt" ? cdt : gd;
    runs.push_back(
        experiment::test::made_up(what, loss * (1 + 0.1 * static_cast<double>(what.seed))));
  }
  return runs;
}

std::optional<bool> held(const std::vector<report::Claim>& claims, const std::string& words) {
  for (const report::Claim& claim : claims) {
    if (claim.text.find(words) != std::string::npos) return claim.held;
  }
  ADD_FAILURE() << "no claim says: " << words;
  return std::nullopt;
}

TEST(Claims, HoldOrDoNot) {
  const Plan plan = experiment::test::sample_plan();
  const Published published{{}, "", 3, 4};
  for (const bool better : {true, false}) {
    const auto runs = runs_with(plan, 0.4, better ? 0.2 : 0.8);
    const auto rows = experiment::collect_rows(plan, runs);
    const auto claims = check_claims(plan, published, rows, runs);
    EXPECT_EQ(held(claims, "lower at every learning rate"), better);
    EXPECT_EQ(held(claims, "never negative during training"), better);
    EXPECT_EQ(held(claims, "deviation over initializations is smaller"), better);
    EXPECT_EQ(held(claims, "Most samples end closer"), better);
    EXPECT_EQ(held(claims, "converges where gradient descent diverges"), std::nullopt)
        << "no run diverged";
    for (const auto& claim : claims) EXPECT_FALSE(claim.evidence.empty()) << claim.text;
  }
}

TEST(Claims, AreNotAboutClasses) {
  Plan plan = experiment::test::sample_plan();
  plan.loss = loss::cross_entropy();
  const auto runs = runs_with(plan, 0.4, 0.2);
  EXPECT_TRUE(check_claims(plan, {}, experiment::collect_rows(plan, runs), runs).empty());
}

TEST(Claims, RunsOfOtherSamplesSayNothing) {
  const Plan plan = experiment::test::sample_plan();
  auto runs = runs_with(plan, 0.4, 0.2);
  for (CaseRun& run : runs) {
    if (run.what.method == "cdt") run.final_error = run.row_norm = {0.5};
  }
  const auto rows = experiment::collect_rows(plan, runs);
  EXPECT_EQ(held(check_claims(plan, {}, rows, runs), "Influential samples"), std::nullopt);
}

TEST(Claims, NeedBothMethods) {
  Plan plan = experiment::test::sample_plan();
  plan.methods = {"cdt"};
  const auto runs = runs_with(plan, 1, 1);
  EXPECT_TRUE(check_claims(plan, {}, experiment::collect_rows(plan, runs), runs).empty());
}

TEST(Claims, PublishedValuesFindTheirRows) {
  const Plan plan = experiment::test::sample_plan();
  const auto runs = runs_with(plan, 0.4, 0.2);
  auto rows = experiment::collect_rows(plan, runs);
  const Published published{{{"small", 0.1, "cdt", {{0.1, 0.05}, 10}}}, "", 0, 0};
  add_published(published, rows);
  int count = 0;
  for (const auto& row : rows) {
    if (!row.published) continue;
    ++count;
    EXPECT_EQ(row.architecture + row.method, "smallcdt");
    EXPECT_EQ(row.lr, 0.1);
    EXPECT_NEAR(row.difference(), (0.2 * 1.15 - 0.1) / 0.05, 1e-12);
  }
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace cdt::paper
