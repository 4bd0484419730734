#include <cdt/core/error.h>
#include <cdt/study/decision.h>
#include <cdt/study/settings.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace cdt::study {
namespace {

/// Applies settings in the order of the table, so that a decay finds its schedule.
void apply_in_order(const Settings& settings, RunOptions& options) {
  for (const Setting& setting : all_settings()) {
    for (const SettingValue& each : settings) {
      if (each.name == setting.name) setting.set(options, each.values);
    }
  }
}

/// @throws InvalidArgument, naming the setting, if a value is out of its range.
void require_allowed(const Setting& setting, const std::vector<std::string>& values) {
  const Range& range = setting.range;
  for (const std::string& text : values) {
    if (setting.refuses) {
      const std::string why = setting.refuses(text);
      CDT_REQUIRE(why.empty(), setting.name, ": ", why);
    }
    if (std::isinf(range.lowest) || setting.kind == Setting::Kind::kText) continue;
    std::istringstream items(text);  // "16,16" is also a list
    for (std::string item; std::getline(items, item, ',');) {
      const double value = std::strtod(item.c_str(), nullptr);  // `set` reports what is not a
                                                                // number
      const bool inside = range.open ? value > range.lowest : value >= range.lowest;
      std::string wanted = c10::str(range.open ? "above " : "of ", range.lowest);
      if (!range.open) wanted += " or more";
      if (std::isfinite(range.highest))
        wanted = c10::str("from ", range.lowest, " to ", range.highest);
      CDT_REQUIRE(inside && value <= range.highest, setting.name, ": expected a number ", wanted,
                  ", got ", item);
    }
  }
}

std::string show(const std::optional<std::vector<std::string>>& values) {
  if (!values) return "not given";
  return values->empty() ? "on" : fmt::format("{}", fmt::join(*values, ","));
}

}  // namespace

bool is_decided(const RunOptions& options, const std::string& name) {
  if (options.given.contains(name)) return true;
  // The goal's own defaults do not count as decided.
  const train::TrainOptions& training = options.training;
  RunOptions usual = name == "goal" ? RunOptions()
                                    : usual_options(options.data.goal.value_or(study::Goal::kFit),
                                                    training.method, training.form);
  usual.data.is_pictures = options.data.is_pictures;
  usual.data.keeps_units = options.data.keeps_units;
  const Setting& setting = find_setting(name);
  return setting.get(options) != setting.get(usual);
}

Settings decided_settings(const RunOptions& options) {
  Settings settings;
  for (const Setting& setting : all_settings()) {
    if (!is_decided(options, setting.name)) continue;
    if (auto values = setting.get(options)) settings.push_back({setting.name, std::move(*values)});
  }
  return settings;
}

Settings usual_settings(const RunOptions& options) {
  Settings settings;
  for (const Setting& setting : all_settings()) {
    if (!setting.listed || is_decided(options, setting.name)) continue;
    if (setting.about ==
        (options.data.is_pictures ? Setting::About::kTables : Setting::About::kPictures)) {
      continue;
    }
    const auto values = setting.get(options);
    if (!values) continue;
    settings.push_back({setting.name, {fmt::format("{}", fmt::join(*values, ","))}});
  }
  return settings;
}

void require_fitting(const RunOptions& options) {
  const bool pictures = options.data.is_pictures;
  const std::string& named = options.data.file;
  const std::string file = named.empty() ? "the table" : named;
  for (const Setting& setting : all_settings()) {
    const bool foreign =
        setting.about == (pictures ? Setting::About::kTables : Setting::About::kPictures);
    CDT_REQUIRE(!foreign || !is_decided(options, setting.name) || !setting.get(options),
                setting.name, pictures ? " is for tables, and " : " is for pictures, and ", file,
                pictures ? " holds pictures" : " is a table");
  }
  CDT_REQUIRE(!pictures || options.data.goal != study::Goal::kPredict,
              "the goal predict is for tables, and ", file,
              " holds pictures: with the goal fit some pictures train and the others say what to "
              "expect");
}

void apply(const Settings& settings, RunOptions& options) {
  for (const SettingValue& each : settings) {
    require_allowed(find_setting(each.name), each.values);
    options.given.insert(each.name);
  }
  apply_in_order(settings, options);
}

void require_same_run(const RunOptions& now, const Settings& decided, const Settings& usual,
                      const std::string& where) {
  RunOptions saved;
  saved.data.is_pictures = now.data.is_pictures;  // pictures have another default scale
  saved.data.keeps_units = now.data.keeps_units;
  for (const SettingValue& each : decided) saved.given.insert(find_setting(each.name).name);
  // Defaults first; without a named schedule among them, a decay alone means `inverse`.
  apply_in_order(usual, saved);
  // In earlier versions this was the share by which one network selects its point.
  if (now.data.goal == study::Goal::kPredict) saved.data.train_fraction.reset();
  apply_in_order(decided, saved);
  // Settings without a name here follow goal and method: the batch of an optimizer.
  for (const SettingValue& each : usual) saved.given.insert(find_setting(each.name).name);
  saved = resolved(std::move(saved));
  const bool cosine = saved.training.schedule.kind == train::Schedule::Kind::kCosine;
  for (const Setting& setting : all_settings()) {
    if (setting.may_change && !(setting.name == "steps" && cosine)) continue;
    const auto before = setting.get(saved);
    const auto after = setting.get(now);
    CDT_REQUIRE(before == after, where, ": was started with ", setting.name, " ", show(before),
                ", and cannot be resumed with ", show(after));
  }
}

}  // namespace cdt::study
