// Every setting, under every goal and method: another result, or a refusal that names it.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/run/settings.h>
#include <cdt/run/train.h>
#include <cdt/study/parts/scope.h>
#include <cdt/train/method.h>
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <sstream>

#include "support/temp_folder.h"

namespace cdt {
namespace {

using testing::HasSubstr;
using Values = std::vector<std::string>;
using Named = std::map<std::string, Values>;

/// Another value of a setting, and what both runs have so that it could matter.
struct Trial {
  Values value;
  Named with;
};

const Named kClasses{{"target", {"kind"}}, {"loss", {"cross-entropy"}}, {"drop", {"w", "g", "t"}}};

/// Settings that a training reads.
std::map<std::string, Trial> trials() {
  return {
      {"drop", {{"a", "w", "g", "t"}, {}}},
      {"text", {{"b"}, {}}},
      {"rows", {{"20"}, {}}},
      {"train-fraction", {{"0.5"}, {}}},
      {"train-rows", {{"12"}, {}}},
      {"test-fraction", {{"0.2"}, {}}},
      {"group", {{"g"}, {{"drop", {"w", "t"}}}}},
      {"time", {{"t"}, {{"drop", {"w", "g"}}}}},
      {"categories", {{"index"}, {{"categories", {"onehot"}}}}},
      {"max-levels", {{"1"}, {{"categories", {"onehot"}}}}},
      {"missing-numbers", {{"median"}, {{"missing-numbers", {"zero"}}}}},
      {"quantiles", {{"4"}, {}}},
      {"scale", {{"none"}, {}}},
      {"clip", {{"0.5"}, {}}},
      {"target-scale", {{"none"}, {}}},
      {"target-transform", {{"log"}, {}}},
      {"fit", {{"all"}, {{"test-fraction", {"0.2"}}}}},
      {"keep", {{"id"}, {}}},
      {"sample-weights", {{"w"}, {{"drop", {"g", "t"}}}}},
      {"class-weights", {{"balanced"}, kClasses}},
      {"hidden", {{"3"}, {}}},
      {"activation", {{"gelu"}, {}}},
      {"parametrization", {{"ntk"}, {}}},
      {"sigma-w", {{"0.7"}, {}}},
      {"sigma-b", {{"0.3"}, {}}},
      {"width-factor", {{"2"}, {}}},
      {"dtype", {{"float64"}, {}}},
      {"loss", {{"sse"}, {}}},
      {"smoothing", {{"0.3"}, kClasses}},
      {"lr", {{"0.037"}, {}}},
      {"schedule", {{"exponential"}, {}}},
      {"decay", {{"0.9"}, {}}},
      {"decay-period", {{"1"}, {{"schedule", {"step"}}}}},
      {"p", {{"0.9"}, {}}},
      {"q", {{"3"}, {}}},
      {"controller", {{"damped"}, {}}},
      {"shape", {{"0.2"}, {}}},
      {"output-weights", {{"3", "1"}, {{"target", {"y", "z"}}}}},
      {"relinearize", {{"every:1"}, {}}},
      {"form", {{"primal"}, {}}},
      {"weight-decay", {{"0.05"}, {}}},
      {"batch", {{"5"}, {}}},
      {"reshuffle", {{}, {{"batch", {"5"}}, {"steps", {"10"}}}}},
      {"steps", {{"2"}, {}}},
      {"stop-loss", {{"1000"}, {}}},
      {"patience", {{"1"}, {{"steps", {"60"}}, {"lr", {"0.3"}}}}},
      {"plateau", {{"1"}, {{"steps", {"60"}}, {"lr", {"1e-9"}}}}},
      {"validate-every", {{"3"}, {}}},
      {"linearization-error", {{}, {}}},
      {"seed", {{"2"}, {}}},
      {"ensemble", {{"2"}, {}}},
      {"folds", {{"3"}, {}}},
      {"no-refit", {{}, {}}},
      {"importance", {{}, {}}},
      {"no-intervals", {{}, {}}},
  };
}

/// Settings that say how a file is read, what becomes of new data, how long and where; those of
/// pictures; how long an iteration may take; and goal and method themselves.
const std::set<std::string> kOthers{"file",
                                    "dates",
                                    "decimal",
                                    "labels",
                                    "numeric",
                                    "missing",
                                    "no-header",
                                    "delimiter",
                                    "target",
                                    "goal",
                                    "size",
                                    "grey",
                                    "skip-bad",
                                    "cache",
                                    "unknown",
                                    "arch",
                                    "method",
                                    "memory",
                                    "checkpoint-seconds",
                                    "max-seconds",
                                    "csv-safe",
                                    "tf32",
                                    "device",
                                    "threads",
                                    "missing-target",
                                    "tune",
                                    "no-analysis",
                                    "curvature-products"};

std::string table() {
  std::ostringstream csv("id,a,b,c,kind,w,g,t,z,y\n", std::ios::ate);
  for (int i = 0; i < 24; ++i) {
    const int a = (7 * i) % 24, b = (5 * i) % 13, k = i % 5 % 3;
    csv << "r" << i << "," << a << "," << b << "," << (i == 9 ? "" : std::to_string(i % 4 + 1))
        << ","
        << "uvx"[k] << "," << 1 + i % 3 << "," << i % 8 << "," << i << "," << b * b + a << ","
        << 10 + a + 2 * b + 5 * k + (i * i) % 7 << "\n";
  }
  return csv.str();
}

class Scopes : public testing::Test {
 protected:
  void SetUp() override { write_file_atomically(folder_ / "t.csv", {table()}); }

  /// What a run comes to, but for its clock; nothing if it refuses, with the message.
  std::optional<std::string> outcome(const Named& named, std::string& refusal) {
    run::Options options;
    options.analysis = false;
    run::Settings settings{{"file", {(folder_ / "t.csv").string()}}};
    for (const auto& [name, values] : named) settings.push_back({name, values});
    run::apply(settings, options);
    options.training.checkpoint_seconds = 1e9;
    options.folder = folder_ / "run";
    options.overwrite = true;
    try {
      run::train(options);
    } catch (const InvalidArgument& error) {
      refusal = error.what();
      return std::nullopt;
    }
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(options.folder)) {
      const std::string name = file.path().filename();
      const bool model = name.ends_with(".safetensors") && name != "checkpoint.safetensors";
      if (model || name == "predictions.csv") all += name + read_file(file.path());
    }
    const run::RunRecord record = run::RunFolder(options.folder).read_record();
    std::istringstream history(read_file(options.folder / "history.csv"));
    for (std::string line; std::getline(history, line);) {
      std::istringstream cells(line);
      int column = 0;
      for (std::string cell; std::getline(cells, cell, ','); ++column) {
        if (column != 8) all += cell + ",";  // seconds
      }
    }
    if (record.prediction) all += c10::str("importance ", record.prediction->importance.size());
    return all;
  }

  test::TempFolder folder_;
};

Named base_of(const std::string& goal, const std::string& method) {
  Named base{{"target", {"y"}},    {"drop", {"w", "g", "t"}}, {"goal", {goal}},
             {"method", {method}}, {"hidden", {"4"}},         {"steps", {"3"}}};
  if (goal == "fit") {
    base["unknown"] = {"missing"};
  } else {
    base["ensemble"] = {"1"};
  }
  return base;
}

TEST_F(Scopes, EachSettingIsTriedOrIsOfAnotherKind) {
  const auto known = trials();
  for (const run::Setting& setting : run::all_settings()) {
    EXPECT_EQ(known.contains(setting.name) + kOthers.contains(setting.name), 1) << setting.name;
  }
}

TEST_F(Scopes, EachSettingIsReadOrRefused) {
  torch::set_num_threads(1);
  int refused = 0, read = 0;
  for (const std::string goal : {"fit", "predict"}) {
    for (const std::string& method : train::Method::names()) {
      if (goal == "predict" && method == "guarded") continue;  // the path
      std::map<Named, std::optional<std::string>> bases;
      for (const auto& [name, trial] : trials()) {
        // What is about rows and networks does not know the method.
        const auto readers = [&name](study::Goal by) {
          return study::scope_of(name).of(by).size();
        };
        const size_t all = train::Method::all().size();
        const bool about_data =
            readers(study::Goal::kFit) == all && readers(study::Goal::kPredict) >= all - 1;
        if (about_data && method != "adam" && method != "path") continue;
        SCOPED_TRACE(goal + " " + method + " --" + name);
        Named base = base_of(goal, method);
        for (const auto& [other, values] : trial.with) {
          const bool fits = study::scope_of(other).reads(study::parse_goal(goal), method);
          if (fits) base[other] = values;
        }
        Named changed = base;
        changed[name] = trial.value;
        std::string refusal;
        const auto other = outcome(changed, refusal);
        if (!other) {
          ++refused;
          std::ranges::replace(refusal, ' ', '-');  // weight decay, the option weight-decay
          bool named = refusal.find(name) != std::string::npos;
          for (const auto& [with, values] : trial.with) {  // or what it cannot do without
            named = named || refusal.find(with) != std::string::npos;
          }
          EXPECT_TRUE(named) << refusal;
          continue;
        }
        ++read;
        if (!bases.contains(base)) {
          bases[base] = outcome(base, refusal);
          EXPECT_TRUE(bases[base]) << refusal;
        }
        EXPECT_TRUE(bases[base] != other) << "the same result";
      }
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(read, 100);
}

TEST_F(Scopes, MoreRowsAreMoreLearnedFrom) {
  const auto rows = [&](const Named& more) {
    Named named = base_of("predict", "path");
    named.insert(more.begin(), more.end());
    std::string refusal;
    EXPECT_TRUE(outcome(named, refusal)) << refusal;
    const auto data = run::RunFolder(folder_ / "run").read_record().data;
    return data.train + data.validation;
  };
  EXPECT_EQ(rows({}), 24);
  EXPECT_EQ(rows({{"train-rows", {"10"}}}), 10);
  EXPECT_EQ(rows({{"train-fraction", {"0.5"}}}), 12);
  EXPECT_EQ(rows({{"train-fraction", {"0.5"}}, {"test-fraction", {"0.25"}}}), 9);
}

}  // namespace
}  // namespace cdt
