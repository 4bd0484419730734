#include <cdt/core/error.h>
#include <cdt/run/settings.h>
#include <cdt/study/learn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cdt::run {
namespace {

// Of an optimizer under the goal predict: what early stopping needs to be a fair baseline.
constexpr int64_t kMostEpochs = 500;
constexpr int64_t kEpochPatience = 20;
constexpr int64_t kOptimizerBatch = 32;

/// Applied in the order of the table, so that a decay finds its schedule.
void apply_in_order(const Settings& settings, Options& options) {
  for (const Setting& setting : all_settings()) {
    for (const SettingValue& each : settings) {
      if (each.name == setting.name) setting.set(options, each.values);
    }
  }
}

std::string show(const std::optional<std::vector<std::string>>& values) {
  if (!values) return "not given";
  return values->empty() ? "on" : fmt::format("{}", fmt::join(*values, ","));
}

}  // namespace

Options usual_options(study::Goal goal, train::Method method, train::Form form) {
  Options usual;
  usual.data.goal = goal;
  if (goal == study::Goal::kFit) return usual;
  train::TrainOptions& training = usual.training;
  training.stop_loss = 0;
  const bool path = method == train::Method::kPath || method == train::Method::kGuarded;
  training.method = train::Method::kPath;
  training.steps = path ? study::kMostPoints : kMostEpochs;
  training.patience = !path                         ? kEpochPatience
                      : form == train::Form::kBatch ? study::kBatchPatience
                                                    : study::kPathPatience;
  if (path) {
    usual.network.sigma_w = study::kPathSigma;
    usual.network.sigma_b = 0;
  } else {
    training.batch = kOptimizerBatch;
    training.reshuffle = true;
  }
  return usual;
}

Options resolved(Options options) {
  if (options.data.goal != study::Goal::kPredict) return options;
  Options plain;
  plain.data.goal = options.data.goal;
  train::Method& method = options.training.method;
  if (method == train::Method::kGuarded) method = train::Method::kPath;
  const Options usual = usual_options(study::Goal::kPredict, method, options.training.form);
  for (const Setting& setting : all_settings()) {
    if (options.given.contains(setting.name) || setting.name == "method") continue;
    const auto value = setting.get(usual), before = setting.get(plain);
    // What the data options choose by their goal stays undecided: classes have no scale.
    if (value && value != before && setting.get(options) == before) setting.set(options, *value);
  }
  return options;
}

bool is_decided(const Options& options, const std::string& name) {
  if (options.given.contains(name)) return true;
  // The goal's own choices decide nothing.
  const train::TrainOptions& training = options.training;
  Options usual = name == "goal" ? Options()
                                 : usual_options(options.data.goal.value_or(study::Goal::kFit),
                                                 training.method, training.form);
  usual.data.is_pictures = options.data.is_pictures;
  const Setting& setting = find_setting(name);
  return setting.get(options) != setting.get(usual);
}

Settings decided_settings(const Options& options) {
  Settings settings;
  for (const Setting& setting : all_settings()) {
    if (!is_decided(options, setting.name)) continue;
    if (auto values = setting.get(options)) settings.push_back({setting.name, std::move(*values)});
  }
  return settings;
}

Settings usual_settings(const Options& options) {
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

void require_fitting(const Options& options) {
  const bool pictures = options.data.is_pictures;
  for (const Setting& setting : all_settings()) {
    const bool foreign =
        setting.about == (pictures ? Setting::About::kTables : Setting::About::kPictures);
    CDT_REQUIRE(!foreign || !is_decided(options, setting.name) || !setting.get(options),
                setting.name, pictures ? " is for tables, and " : " is for pictures, and ",
                options.data.file, pictures ? " holds pictures" : " is a table");
  }
  CDT_REQUIRE(!pictures || options.data.goal != study::Goal::kPredict,
              "the goal predict is for tables, and ", options.data.file,
              " holds pictures: with the goal fit some pictures train and the others say what to "
              "expect");
}

void apply(const Settings& settings, Options& options) {
  for (const SettingValue& each : settings) options.given.insert(find_setting(each.name).name);
  apply_in_order(settings, options);
}

void require_same_run(const Options& now, const Settings& decided, const Settings& usual,
                      const std::string& where) {
  Options saved;
  saved.data.is_pictures = now.data.is_pictures;  // their usual scale is another
  for (const SettingValue& each : decided) saved.given.insert(find_setting(each.name).name);
  // Defaults first; without the name of the schedule among them, a decay alone means `inverse`.
  apply_in_order(usual, saved);
  // Earlier versions named the share here by which one network chooses its point.
  if (now.data.goal == study::Goal::kPredict) saved.data.train_fraction.reset();
  apply_in_order(decided, saved);
  // What has no name among them is as its goal and method have it: the batch of an optimizer.
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

}  // namespace cdt::run
