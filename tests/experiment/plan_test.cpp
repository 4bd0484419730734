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
  refused([](Plan& p) { p.methods = {"sgd"}; }, "got 'sgd'");
  refused([](Plan& p) { p.own_rate = {"sgd"}; }, "got 'sgd'");
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

TEST(Plan, ACaseIsSettingsAndASeed) {
  Plan plan = test::sample_plan();
  plan.schedule = {train::Schedule::Kind::kInverse, 0.05};
  plan.settings.push_back({"activation", "relu", "given", ""});
  const auto options = [&](const std::string& method, double lr) {
    return options_of(plan, {"large", method, lr, 0.3, 2, 6});
  };
  const study::RunOptions cdt = options("cdt", 0.1);
  EXPECT_EQ(cdt.data.targets, plan.data.targets);
  EXPECT_EQ(cdt.network.hidden, (std::vector<int64_t>{12, 12}));
  EXPECT_EQ(cdt.training.method, "cdt");
  EXPECT_EQ(cdt.training.learning_rate, 0.1);
  EXPECT_EQ(cdt.training.p, 0.3);
  EXPECT_EQ(cdt.training.seed, 2U);
  EXPECT_EQ(cdt.training.steps, 6);
  EXPECT_EQ(cdt.training.stop_loss, 0);
  EXPECT_EQ(cdt.training.schedule.decay, 0.05);
  EXPECT_EQ(options("guarded", 0.1).training.schedule.kind, train::Schedule::Kind::kConstant);
  EXPECT_EQ(options(kGdBest, 0).training.method, "gd");
  EXPECT_FALSE(options(kGdBest, 0).training.learning_rate);
  const study::RunOptions predict = options(kPredictAdam, 0);
  EXPECT_EQ(predict.data.goal, study::Goal::kPredict);
  EXPECT_EQ(predict.training.method, "adam");
  EXPECT_EQ(predict.training.seed, 2U);
  EXPECT_EQ(predict.given, (std::set<std::string>{"activation", "loss"}));
}

TEST(Plan, IsReadFromAFile) {
  const std::string text = R"({"title": "Few", "architectures": [{"name": "a", "hidden": [3, 4]}],
    "settings": {"target": {"value": "y"}, "drop": {"value": []}, "rows": {"value": 20},
      "train-rows": {"value": 15}, "scale": {"value": "minmax"}, "categories": {"value": "index"},
      "missing-numbers": {"value": "zero"}, "target-scale": {"value": "minmax"},
      "fit": {"value": "train"}, "activation": {"value": "tanh"},
      "parametrization": {"value": "ntk"}, "sigma-w": {"value": 1.5}, "sigma-b": {"value": 0},
      "dtype": {"value": "float64"}, "loss": {"value": "mse"}, "schedule": {"value": "constant"},
      "decay": {"value": 0}, "q": {"value": 1}, "p": {"value": 0.2}, "steps": {"value": 7},
      "seeds": {"value": 2, "source": "paper"}, "validate-every": {"value": 3},
      "lrs": {"value": [1, 0.1]}, "methods": {"value": ["gd", "gd-best"]}}})";
  const Plan plan = parse_plan(text, "few.json");
  EXPECT_EQ(plan.title, "Few");
  EXPECT_EQ(plan.data.targets, std::vector<std::string>{"y"});
  EXPECT_EQ(plan.network.dtype, torch::kFloat64);
  EXPECT_EQ(plan.architecture("a").hidden, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(plan.p, 0.2);
  EXPECT_EQ(cases_of(plan).size(), 2U * 2 + 2);
  const auto refuses = [&](const std::string& part, const std::string& other,
                           const std::string& words) {
    std::string changed = text;
    changed.replace(changed.find(part), part.size(), other);
    EXPECT_THAT([&] { parse_plan(changed, "few.json"); },
                testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr(words)));
  };
  refuses("\"p\": {\"value\": 0.2}", "\"p\": {\"value\": 0}", "few.json: settings.p.value");
  refuses("\"steps\"", "\"stepz\"", "settings.stepz");
  refuses("\"gd-best\"", "\"sgd\"", "settings.methods.value");
}

}  // namespace
}  // namespace cdt::experiment
