// What runs decide where nobody has: decisions.txt lists jobs, and below each what it comes to.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/run/settings.h>
#include <cdt/run/train.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "support/picture_folder.h"

namespace cdt {
namespace {

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
  const run::Preview seen = run::preview(given);
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
  if (!seen.skipped.empty()) text += fmt::format("  no analysis: {}\n", seen.skipped);
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

}  // namespace
}  // namespace cdt
