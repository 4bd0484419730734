#include <cdt/core/io/json_fields.h>
#include <cdt/report/figures/run_values.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace cdt::report {

bool predicts(const Record& run) { return run.setting("goal") == "predict"; }

bool walks_path(const Record& run) {
  return std::any_of(run.history.begin(), run.history.end(),
                     [](const train::StepRecord& row) { return std::isfinite(row.decay); });
}

const study::Errors& errors_of(const Record& run, RowUse use) {
  static const study::Errors kNone;
  if (!run.errors) return kNone;
  return use == RowUse::kTraining     ? run.errors->train
         : use == RowUse::kValidation ? run.errors->validation
                                      : run.errors->test;
}

double measured(const study::TargetErrors& errors, const char* measure) {
  const auto all = std::visit([](const auto& value) { return to_json_value(value); }, errors.value);
  const auto found = all.find(measure);
  return found != all.end() && found->is_number() ? found->get<double>() : kNotKnown;
}

std::string show_count(int64_t count) { return count > 0 ? std::to_string(count) : show(""); }

ShownSettings settings_of(const Record& run) {
  ShownSettings shown;
  const auto add = [](const study::Settings& settings, std::vector<NameValue>& to) {
    for (const auto& [name, values] : settings) {
      to.push_back({name, values.empty() ? "yes" : fmt::format("{}", fmt::join(values, ", "))});
    }
  };
  add(run.settings, shown.given);
  add(run.defaults, shown.defaults);
  if (!run.tuned) return shown;
  const auto choose = [&](const char* name, double value) {
    const auto named = [&](const NameValue& each) { return each.name == name; };
    if (std::any_of(shown.given.begin(), shown.given.end(), named)) return;  // already decided
    std::erase_if(shown.defaults, named);
    shown.tuned.push_back({name, show(value)});
  };
  choose("lr", run.tuned->learning_rate);
  if (run.tuned->p) choose("p", *run.tuned->p);
  choose("steps", static_cast<double>(run.tuned->steps));
  return shown;
}

std::string setting(const Record& run, const std::string& name) {
  const ShownSettings shown = settings_of(run);
  for (const auto* part : {&shown.given, &shown.tuned, &shown.defaults}) {
    for (const NameValue& each : *part) {
      if (each.name == name) return each.value;
    }
  }
  return show("");
}

std::vector<NameValue> data_of(const Record& run) {
  std::vector<NameValue> data{{"file", run.data.file}, {"checksum", run.data.checksum}};
  const auto add = [&](const char* name, int64_t rows) {
    data.push_back({name, std::to_string(rows)});
  };
  add("rows", run.data.rows);
  add("features", run.data.features);
  if (predicts(run)) {
    add("rows to learn from", run.data.train + run.data.validation);
    if (run.prediction && !run.prediction->expected.empty()) {
      add("of them held out in turn", run.prediction->expected[0].rows);
    }
  } else {
    add("train", run.data.train);
    add("validation", run.data.validation);
  }
  if (run.data.skipped > 0) add("skipped", run.data.skipped);
  const auto& use = run.predictions.use;
  if (const auto tests = std::count(use.begin(), use.end(), RowUse::kTest); tests > 0) {
    add("test", tests);
  }
  return data;
}

std::vector<NameValue> machine_of(const Record& run) {
  std::vector<NameValue> machine{{"device", run.machine.device},
                                 {"threads", std::to_string(run.machine.threads)},
                                 {"libtorch", run.machine.libtorch}};
  const auto add = [&](const char* name, int64_t bytes) {
    if (bytes > 0) machine.push_back({name, fmt::format("{} MB", bytes >> 20)});
  };
  add("peak memory", run.machine.peak_bytes);
  add("peak memory of the GPU", run.machine.device_peak_bytes);
  return machine;
}

}  // namespace cdt::report
