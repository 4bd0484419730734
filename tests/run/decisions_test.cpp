// What runs decide where nobody has: decisions.txt lists jobs, and below each what it comes to.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/run/settings.h>
#include <cdt/run/train.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "support/picture_folder.h"

namespace cdt {
namespace {

using Values = std::vector<std::string>;

/// A worker of two, who agrees with the other.
struct TwoRanks : train::Ranks {
  int64_t size() const override { return 2; }
  torch::Tensor gather(const torch::Tensor& rows) const override {
    return torch::cat({rows, rows});
  }
};

/// Numbers, a category, weights, groups, an order, and targets of several kinds.
std::string rooms(int64_t rows, char between) {
  std::string text = "a,b,k,w,g,t,y,z,two,label\n";
  uint32_t state = 1;
  const auto draw = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<double>(state >> 8) / (1U << 24);
  };
  for (int64_t i = 0; i < rows; ++i) {
    const double a = draw(), b = draw();
    const int kind = static_cast<int>(3 * draw());
    text += fmt::format("{:.5f},{:.5f},kind{},{:.3f},group{},{},{:.5f},{:.5f},{},{}\n", a, b, kind,
                        0.5 + draw(), i % 12, i, 2 * a - b + 0.3 * draw(), a * b + 0.1 * draw(),
                        a > b ? 7 : 3, kind == 0 ? "low" : (kind == 1 ? "mid" : "high"));
  }
  std::replace(text.begin(), text.end(), ',', between);
  return text;
}

/// "rooms 60 target=y,z no-analysis" as options.
run::Options parse_job(const std::string& job, const test::TempFolder& folder) {
  std::istringstream words(job);
  std::string kind, rows, word;
  words >> kind >> rows;
  run::Options options;
  options.folder = folder / "run";
  const std::string name = kind + rows;
  if (kind == "pictures") {
    options.data.file = (folder / name).string();
    if (!path_exists(folder / name)) test::write_pictures(folder, std::stol(rows), name);
  } else {
    options.data.file = (folder / (name + ".csv")).string();
    if (!path_exists(options.data.file)) {
      const char between = kind == "semicolons" ? ';' : ',';
      write_file_atomically(options.data.file, {rooms(std::stol(rows), between)});
    }
  }
  if (kind == "workers") options.ranks = std::make_shared<TwoRanks>();
  run::Settings settings;
  while (words >> word) {
    const size_t sign = word.find('=');
    run::SettingValue& setting = settings.emplace_back();
    setting.name = word.substr(0, sign);
    std::istringstream values(sign == std::string::npos ? "" : word.substr(sign + 1));
    for (std::string each; std::getline(values, each, ',');) setting.values.push_back(each);
  }
  run::apply(settings, options);
  return options;
}

std::string show(const run::SettingValue& setting) {
  const auto& values = setting.values;
  return setting.name + (values.empty() ? "" : fmt::format("={}", fmt::join(values, ",")));
}

/// What differs from options that nobody has touched, in lines.
std::string settings_of(const run::Options& options) {
  constexpr size_t kColumns = 110;
  std::string text = " ";
  size_t line = 0;
  for (const run::Setting& setting : run::all_settings()) {
    const auto value = setting.get(options);
    if (setting.name == "file" || value == setting.get(run::Options())) continue;
    const std::string each = value ? show({setting.name, *value}) : setting.name + "=?";
    if (text.size() - line + each.size() > kColumns) {
      line = text.size();
      text += "\n   ";
    }
    text += " " + each;
  }
  return text;
}

std::string describe(const run::Options& given) {
  const study::Decision seen = run::explain(given);
  run::Options options = seen.options;
  std::vector<std::string> kept;
  for (const run::SettingValue& each : run::decided_settings(options)) {
    if (each.name != "file") kept.push_back(each.name);
  }
  options.training = seen.training;
  std::string text = fmt::format("{}\n  kept: {}\n", settings_of(options), fmt::join(kept, " "));
  if (seen.training.most_modes != train::TrainOptions().most_modes) {
    text += fmt::format("  modes: {}\n", seen.training.most_modes);
  }
  if (seen.learn) {
    std::vector<std::string> activations;
    for (const auto each : seen.learn->activations) activations.push_back(nn::to_string(each));
    text +=
        fmt::format("  learns: members={} folds={} activations={}{}{}{}\n", seen.learn->members,
                    seen.learn->folds, fmt::join(activations, ","),
                    seen.learn->keep_threads ? " keep-threads" : "",
                    seen.learn->refit ? " refit" : "", seen.learn->intervals ? " intervals" : "");
  }
  if (!seen.no_analysis.empty()) text += fmt::format("  no analysis: {}\n", seen.no_analysis);
  for (const std::string& note : seen.notes) text += fmt::format("  says: {}\n", note);
  return text;
}

/// By job, in order.
std::vector<std::pair<std::string, std::string>> read_decisions(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> found;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) {
      found.back().second += line + "\n";
    } else if (!line.empty()) {
      found.push_back({line, ""});
    }
  }
  return found;
}

/// With CDT_WRITE_DECISIONS=FILE the table as it is now is written there, to be compared.
TEST(Decisions, AreTheFrozenOnes) {
  torch::set_num_threads(1);
  const test::TempFolder folder;
  std::string now;
  for (const auto& [job, expected] : read_decisions(CDT_DECISIONS)) {
    SCOPED_TRACE(job);
    std::string found;
    try {
      found = describe(parse_job(job, folder));
    } catch (const InvalidArgument& error) {
      found = fmt::format("  refused: {}\n", error.what());
      for (size_t at; (at = found.find(folder.path().string() + "/")) != std::string::npos;) {
        found.erase(at, folder.path().string().size() + 1);
      }
    }
    EXPECT_EQ(found, expected);
    EXPECT_FALSE(path_exists(folder / "run"));
    now += job + "\n" + found;
  }
  if (const char* file = std::getenv("CDT_WRITE_DECISIONS")) write_file_atomically(file, {now});
}

/// Of a job, by setting: "value, by whom".
std::map<std::string, std::string> choices_of(const std::string& job) {
  const test::TempFolder folder;
  std::map<std::string, std::string> found;
  for (const study::Choice& each : run::explain(parse_job(job, folder)).choices) {
    EXPECT_FALSE(each.why.empty()) << each.setting;
    const bool fresh = found.emplace(each.setting, each.value + ", " + to_string(each.by)).second;
    EXPECT_TRUE(fresh) << each.setting;
  }
  return found;
}

TEST(Decisions, SayWhoChose) {
  torch::set_num_threads(1);
  auto chosen = choices_of("rooms 60 target=label patience=3 seed=1");
  EXPECT_EQ(chosen["goal"], "predict, data");
  EXPECT_EQ(chosen["loss"], "cross-entropy, data");
  EXPECT_EQ(chosen["method"], "path, goal");
  EXPECT_EQ(chosen["form"], "free, data");
  EXPECT_EQ(chosen["steps"], "20, goal");
  EXPECT_EQ(chosen["patience"], "3, user");
  EXPECT_EQ(chosen["seed"], "1, user");  // named, although it is the usual one
  EXPECT_EQ(chosen["train-fraction"], "all, goal");
  EXPECT_EQ(chosen["threads"], "1, machine");
  EXPECT_FALSE(chosen.contains("q"));  // nobody has chosen it
  chosen = choices_of("rooms 60 target=y goal=predict method=guarded");
  EXPECT_EQ(chosen["goal"], "predict, user");
  EXPECT_EQ(chosen["method"], "path, goal");  // its guarded way to predict
  chosen = choices_of("rooms 2500 target=label");
  EXPECT_EQ(chosen["form"], "batch, data");
  EXPECT_EQ(chosen["batch"], "333, data");
  EXPECT_EQ(chosen["patience"], "3, data");
  chosen = choices_of("rooms 11000 target=y goal=fit");
  EXPECT_EQ(chosen["batch"], "4236, data");
  EXPECT_EQ(chosen["plateau"], "30, goal");
  EXPECT_EQ(chosen["lr"], "found, data");
  chosen = choices_of("rooms 60 target=label goal=fit loss=cross-entropy method=adam");
  EXPECT_EQ(chosen["lr"], "0.001, goal");
  EXPECT_FALSE(chosen.contains("smoothing"));
  EXPECT_EQ(choices_of("rooms 60 target=label goal=fit loss=cross-entropy")["smoothing"],
            "0.1, goal");
  chosen = choices_of("pictures 8");
  EXPECT_EQ(chosen["goal"], "fit, data");
  EXPECT_EQ(chosen["arch"], "cnn, data");
  EXPECT_EQ(choices_of("semicolons 60 target=y")["delimiter"], ";, data");
}

TEST(Decisions, NoOtherSettingChangesTheGoal) {
  for (const bool pictures : {false, true}) {
    for (const run::Setting& setting : run::all_settings()) {
      if (setting.name == "goal") continue;
      run::Options options;
      options.given.insert(setting.name);
      const auto usual = setting.get(options);
      try {
        setting.set(options, usual.value_or(Values()));  // a switch that is off is on then
      } catch (const InvalidArgument&) {
        EXPECT_FALSE(usual);  // it wants a value: its name alone was given
      }
      const study::Decision decision = study::decide(options, {.pictures = pictures});
      EXPECT_EQ(decision.options.data.goal, pictures ? study::Goal::kFit : study::Goal::kPredict)
          << setting.name;
    }
  }
}

/// The forecast decides what nobody has, and says so.
TEST(Decisions, FollowTheForecast) {
  run::Options given;
  given.data.goal = study::Goal::kFit;
  given.training.learning_rate = 0.5;
  study::Decision decision = study::decide(given, {});
  study::Tuning advice;
  advice.learning_rate = 2;
  advice.p = 0.25;
  advice.steps = 70;
  study::follow(advice, decision);
  EXPECT_EQ(decision.training.learning_rate, 0.5);
  EXPECT_EQ(decision.training.p, 0.25);
  EXPECT_EQ(decision.training.steps, 70);
  EXPECT_EQ(decision.options.training.steps, run::Options().training.steps);  // as run.json has it
  std::vector<std::string> lines;
  for (const study::Choice& each : decision.choices) {
    lines.push_back(each.setting + " " + each.value + " " + to_string(each.by));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"goal fit user", "lr 0.5 user", "p 0.25 data",
                                             "steps 70 data"}));
}

/// run.json says afterwards what --explain says before.
TEST(Decisions, AreInTheRecord) {
  const test::TempFolder folder;
  for (const char* job : {"rooms 60 target=y goal=fit steps=3 method=gd lr=0.1",
                          "rooms 60 target=label steps=2 hidden=4 ensemble=2 folds=2",
                          "rooms 60 target=y goal=fit method=cdt tune hidden=8"}) {
    SCOPED_TRACE(job);
    run::Options options = parse_job(job, folder);
    options.overwrite = true;
    const run::TrainedRun done = run::train(options);
    const run::RunRecord read = done.folder.read_record();
    ASSERT_EQ(read.choices.size(), done.decision.choices.size());
    EXPECT_FALSE(read.choices.empty());
    for (size_t i = 0; i < read.choices.size(); ++i) {
      const study::Choice &found = read.choices[i], &expected = done.decision.choices[i];
      EXPECT_EQ(found.setting, expected.setting);
      EXPECT_EQ(found.value, expected.value);
      EXPECT_EQ(found.by, expected.by) << found.setting;
      EXPECT_EQ(found.why, expected.why);
    }
    run::RunRecord older = read;
    older.choices.clear();
    const std::string text = run::to_json(older);
    EXPECT_EQ(text.find("\"choices\""), std::string::npos);
    EXPECT_TRUE(run::parse_record(text).choices.empty());
    std::string wrong = run::to_json(read);
    const std::string by = "\"by\": \"user\"";
    wrong.replace(wrong.find(by), by.size(), "\"by\": \"chance\"");
    EXPECT_THROW(run::parse_record(wrong), InvalidArgument);
  }
}

}  // namespace
}  // namespace cdt
