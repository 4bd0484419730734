// The table of settings: its rows agree with themselves, and with docs/reference/settings.md.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/study/decision.h>
#include <cdt/study/parts/scope.h>
#include <cdt/study/settings.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

namespace cdt::study {
namespace {

using Values = std::vector<std::string>;
using Kind = Setting::Kind;

TEST(Settings, GiveBackWhatTheyTook) {
  RunOptions options;
  options.data.file = "/tmp/a.csv";
  for (const Setting& setting : all_settings()) {
    SCOPED_TRACE(setting.name);
    EXPECT_FALSE(setting.help.empty());
    EXPECT_EQ(&find_setting(setting.name), &setting);  // no other has its name
    const auto usual = setting.get(options);
    if (usual) setting.set(options, *usual);
    EXPECT_EQ(setting.get(options), usual);
    for (const std::string& each : setting.choices) {
      RunOptions chosen;
      if (setting.name == "decimal" || setting.name == "dates") chosen = options;
      setting.set(chosen, {each});
      EXPECT_EQ(setting.get(chosen), Values{each});
    }
  }
}

TEST(Settings, RefuseNumbersOutOfTheirRange) {
  for (const Setting& setting : all_settings()) {
    SCOPED_TRACE(setting.name);
    const Range& range = setting.range;
    if (setting.kind == Kind::kText || std::isinf(range.lowest)) continue;
    const double below = range.open ? range.lowest : range.lowest - 1;
    RunOptions options;
    EXPECT_THROW(apply({{setting.name, {fmt::format("{}", below)}}}, options), InvalidArgument);
    if (std::isinf(range.highest)) continue;
    EXPECT_THROW(apply({{setting.name, {fmt::format("{}", 2 * range.highest)}}}, options),
                 InvalidArgument);
    EXPECT_NO_THROW(apply({{setting.name, {fmt::format("{}", range.lowest)}}}, options));
  }
  RunOptions options;
  try {
    apply({{"clip", {"-1"}}}, options);
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "clip: expected a number of 0 or more, got -1");
  }
  EXPECT_THROW(apply({{"hidden", {"8", "0"}}}, options), InvalidArgument);
  EXPECT_THROW(apply({{"loss", {"probabilities"}}}, options), InvalidArgument);
}

TEST(Settings, AboutTwelveAreInTheShortHelp) {
  std::set<Setting::Group> groups;
  int64_t first = 0;
  for (const Setting& setting : all_settings()) {
    if (!setting.shown_first) continue;
    groups.insert(setting.group);
    ++first;
  }
  EXPECT_GE(first, 10);
  EXPECT_LE(first, 14);
  EXPECT_EQ(groups.size(), 5U);  // what a run writes is no setting of it
}

std::string values_of(const Setting& setting) {
  if (!setting.choices.empty()) return fmt::format("`{}`", fmt::join(setting.choices, "`, `"));
  const bool whole = setting.kind == Kind::kWhole || setting.kind == Kind::kNatural ||
                     setting.kind == Kind::kWholes;
  const bool list = setting.kind == Kind::kWholes || setting.kind == Kind::kReals;
  std::string text = list    ? (whole ? "whole numbers" : "numbers")
                     : whole ? "whole number"
                             : "number";
  if (setting.kind == Kind::kSwitch) return "switch";
  if (setting.kind == Kind::kText) return "text";
  if (setting.kind == Kind::kTexts) return "list of texts";
  const Range& range = setting.range;
  if (std::isfinite(range.highest))
    return text + fmt::format(", {} to {}", range.lowest, range.highest);
  if (std::isfinite(range.lowest)) return text + (range.open ? " > 0" : " ≥ 0");
  return text;
}

std::string default_of(const Setting& setting) {
  if (!setting.listed || setting.name == "file" || setting.name == "goal") return "";
  const auto show = [](const std::optional<Values>& values) {
    return !values || values->empty() ? std::string() : fmt::format("{}", fmt::join(*values, ","));
  };
  const auto fit = show(setting.get(usual_options(Goal::kFit, "guarded")));
  const auto predict = show(setting.get(usual_options(Goal::kPredict, "path")));
  return fit == predict ? fit : fmt::format("{}; fit {}", predict.empty() ? "all" : predict, fit);
}

/// Goals and methods that read it; empty: all.
std::string readers_of(const Setting& setting) {
  const Scope& scope = scope_of(setting.name);
  const size_t all = train::Method::all().size();
  const auto show = [&](Goal goal) {
    const auto methods = scope.of(goal);
    std::vector<std::string> names;
    for (const auto each : methods) names.push_back(train::to_string(each));
    const bool most = methods.size() >= all - 1;  // under predict guarded is the path
    return to_string(goal) + (most ? "" : fmt::format(": {}", fmt::join(names, ", ")));
  };
  const size_t fit = scope.of(Goal::kFit).size(), predict = scope.of(Goal::kPredict).size();
  if (fit == all && predict >= all - 1) return scope.needs.empty() ? "" : "needs " + scope.needs;
  std::vector<std::string> parts;
  if (predict > 0) parts.push_back(show(Goal::kPredict));
  if (fit > 0) parts.push_back(show(Goal::kFit));
  if (!scope.needs.empty()) parts.push_back("needs " + scope.needs);
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// With CDT_WRITE_SETTINGS=FILE the table as it should be is written there.
TEST(Settings, AreThoseOfTheDocument) {
  std::string table = "| setting | values | default | read by | what |\n|---|---|---|---|---|\n";
  for (const Setting& setting : all_settings()) {
    std::string help = setting.help;
    for (size_t at = 0; (at = help.find('|', at)) != std::string::npos; at += 2)
      help.insert(at, "\\");
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", setting.name, values_of(setting),
                         default_of(setting), readers_of(setting), help);
  }
  if (const char* file = std::getenv("CDT_WRITE_SETTINGS")) write_file_atomically(file, {table});
  EXPECT_NE(read_file(CDT_SETTINGS).find(table), std::string::npos)
      << "docs/reference/settings.md has another table than the settings";
}

}  // namespace
}  // namespace cdt::study
