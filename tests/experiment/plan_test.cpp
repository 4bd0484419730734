// Cases of a plan, and plans that make no sense.
#include <cdt/core/error.h>
#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "experiment/sample_plan.h"

namespace cdt::experiment {
namespace {

using test::sample_plan;
using testing::HasSubstr;

TEST(Plan, EveryCaseOnceTheLongestFirst) {
  Plan plan = sample_plan();
  plan.further = {{0.1, 10}, {"cdt"}, 1, plan.steps};  // 0.1 is in the table already
  plan.weights = {{0.1, 5}, "small", 0.1, 1};          // p = 0.1 likewise
  const auto cases = cases_of(plan);
  std::set<std::string> keys;
  for (const Case& what : cases) EXPECT_TRUE(keys.insert(what.key()).second) << what.key();
  // 2 architectures × 2 seeds × (2 rates × 2 methods + gd-best), the further rate, the other weight
  EXPECT_EQ(cases.size(), 20U + 2 + 1);
  EXPECT_TRUE(keys.contains("small-gd-best-p0.1-seed2-steps6"));
  EXPECT_TRUE(keys.contains("large-cdt-lr10-p0.1-seed1-steps6"));
  EXPECT_TRUE(keys.contains("small-cdt-lr0.1-p5-seed1-steps6"));
  EXPECT_EQ(cases.front().architecture, "large");
  EXPECT_EQ(cases.back().architecture, "small");
}

TEST(Plan, OneRunOfAnArchitectureHasDetailsAndTheChosenOnesTraces) {
  const Plan plan = sample_plan();
  int details = 0;
  std::set<std::string> traced;
  for (const Case& what : cases_of(plan)) {
    details += what.details ? 1 : 0;
    if (what.traces) traced.insert(what.key());
    EXPECT_TRUE(!what.details || (what.method == "cdt" && what.seed == 1));
  }
  EXPECT_EQ(details, 2);
  EXPECT_EQ(traced, (std::set<std::string>{"small-gd-lr0.1-p0.1-seed1-steps6",
                                           "small-cdt-lr0.1-p0.1-seed1-steps6"}));
}

TEST(Plan, MethodsAtTheirOwnRateRunOnce) {
  Plan plan = sample_plan();
  plan.own_rate = {"cdt", "adam", kPredict, kPredictAdam};
  EXPECT_NO_THROW(require_sound(plan));
  std::set<std::string> keys;
  for (const Case& what : cases_of(plan)) keys.insert(what.key());
  EXPECT_EQ(keys.size(), 20U + 2 * 2 * 4);
  for (const char* key :
       {"small-cdt-lr0.1-p0.1-seed1-steps6", "small-cdt-p0.1-seed1-steps6",
        "large-adam-p0.1-seed2-steps6", "small-predict-seed1", "large-predict-adam-seed2"}) {
    EXPECT_TRUE(keys.contains(key)) << key;
  }
  EXPECT_TRUE(predicts(cases_of(plan).front().method)) << "the longest first";
  // Nothing at given rates: those are not needed then, and the first has the details.
  plan.methods.clear();
  plan.lrs.clear();
  EXPECT_NO_THROW(require_sound(plan));
  for (const Case& what : cases_of(plan)) {
    EXPECT_EQ(what.details, what.method == "cdt" && what.seed == 1) << what.key();
  }
  plan.own_rate = {kPredict};
  for (const Case& what : cases_of(plan)) EXPECT_FALSE(what.details);
}

TEST(Plan, RowsWithoutATargetAreLeftOutWhereRunsPredict) {
  Plan plan = sample_plan();
  EXPECT_FALSE(data_of(plan).missing_target);
  plan.own_rate = {"adam", kPredict};
  EXPECT_EQ(data_of(plan).missing_target, study::MissingTarget::kDrop);
  plan.data.missing_target = study::MissingTarget::kError;
  EXPECT_EQ(data_of(plan).missing_target, study::MissingTarget::kError);
}

TEST(Plan, SaysWhatIsWrong) {
  const auto refused = [](void (*damage)(Plan&), const std::string& message) {
    Plan plan = sample_plan();
    EXPECT_NO_THROW(require_sound(plan));
    damage(plan);
    try {
      require_sound(plan);
      ADD_FAILURE() << "not refused: " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  refused(
      [](Plan& p) {
        p.lrs = {0.1, 1, 0.1};
      },
      "learning rates: expected each one once, got 0.1 twice");
  refused([](Plan& p) { p.methods.emplace_back("gd"); }, "methods: expected each one once");
  refused(
      [](Plan& p) {
        p.architectures.push_back({"small", {4}});
      },
      "architectures: expected each one once");
  refused([](Plan& p) { p.methods = {"sgd"}; }, "not 'sgd'");
  refused([](Plan& p) { p.own_rate = {"sgd"}; }, "not 'sgd'");
  refused(
      [](Plan& p) {
        p.own_rate = {"adam", "adam"};
      },
      "methods at their own rate: expected each one once");
  refused([](Plan& p) { p.methods.clear(); }, "at least one architecture, learning rate, method");
  refused([](Plan& p) { p.lrs.clear(); }, "at least one architecture, learning rate, method");
  refused([](Plan& p) { p.seeds = 0; }, "at least one");
  refused([](Plan& p) { p.seeds = std::numeric_limits<int64_t>::max(); }, "at most 1000000 runs");
  refused(
      [](Plan& p) {
        p.seeds = 70'000;  // 840,000 runs
        p.weights = {{0.1, 1, 10}, "small", 0.1, 70'000};
      },
      "and this one would have 1.05e+06");
  try {
    sample_plan().architecture("huge");
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "there is no architecture 'huge'; there are small, large");
  }
}

}  // namespace
}  // namespace cdt::experiment
