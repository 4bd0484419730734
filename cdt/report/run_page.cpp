#include <cdt/core/error.h>
#include <cdt/report/figures/prediction_figures.h>
#include <cdt/report/figures/run_figures.h>
#include <cdt/report/figures/run_tables.h>
#include <cdt/report/run_page.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace cdt::report {
namespace {

void require_sound(const Record& run) {
  const auto require = [&](size_t size, size_t expected, const std::string& what) {
    CDT_REQUIRE(size == expected, "run ", run.name, ": ", what, ": expected ", expected,
                " entries, got ", size);
  };
  const study::Spectrum& modes = run.spectrum;
  for (const auto* column : {&modes.step, &modes.gain, &modes.factor_gd, &modes.factor_cdt}) {
    require(column->size(), modes.mode.size(), "a column of the spectrum");
  }
  for (const study::TargetPredictions& each : run.predictions.targets) {
    const size_t rows = run.predictions.use.size();
    require(each.predicted.size(), each.truth.size(), "the predictions of " + each.name);
    for (const auto* bound : {&each.low, &each.high}) {
      if (!each.low.empty()) require(bound->size(), each.truth.size(), "a bound of " + each.name);
    }
    require(each.predicted_class.size(), each.true_class.size(), "the classes of " + each.name);
    if (!each.truth.empty()) require(each.truth.size(), rows, "the target " + each.name);
    if (!each.true_class.empty()) require(each.true_class.size(), rows, "the target " + each.name);
    require(each.probabilities.size(), each.classes.size(), "the probabilities of " + each.name);
    for (const auto& column : each.probabilities) {
      require(column.size(), rows, "a probability of " + each.name);
    }
  }
}

/// Given settings are visible; the defaults, about thirty, are folded.
void add_settings(Page& page, const Record& run) {
  const auto add = [&](const std::vector<NameValue>& settings, const char* title, bool folded) {
    Table table = name_value_table(settings, "");
    table.columns = {"Setting", "Value"};
    if (!table.rows.empty()) page.sections.push_back({title, {}, {table}, {}, "", folded});
  };
  const ShownSettings shown = settings_of(run);
  add(shown.given, "Settings as given", false);
  add(shown.tuned, "Settings that the forecast chose", false);
  add(shown.defaults, "Defaults of the other settings", true);
}

Section machine_section(const Record& run) {
  Section section{"Data, machine and timings", {}, {}, {}, "", false};
  const auto add = [&](const std::vector<NameValue>& values, const char* title) {
    if (!values.empty()) section.tables.push_back(name_value_table(values, title));
  };
  add(data_of(run), "Data");
  add({{"shape", run.network.shape}, {"parameters", std::to_string(run.network.parameters)}},
      "Network");
  add(machine_of(run), "Machine");
  if (run.seconds) {
    add({{"load", show(run.seconds->load)},
         {"analysis", show(run.seconds->analysis)},
         {"training", show(run.seconds->training)},
         {"total", show(run.seconds->total)}},
        "Timings in seconds");
  }
  section.tables.push_back({"Program",
                            {"", ""},
                            {{"version", show(run.version)},
                             {"revision", show(run.revision)},
                             {"seed", std::to_string(run.seed)}},
                            ""});
  return section;
}

void add_preflight(Page& page, const Record& run, const std::string& title) {
  if (run.analysis_text.empty()) return;
  page.sections.push_back({title, {}, {}, {}, run.analysis_text, true});
}

/// "2 networks 78-64-64-1 (9281 parameters each) on 824 rows of concrete.csv, by the method path."
std::string what_it_is(const Record& run) {
  const double rate = run.result ? run.result->learning_rate : kNotKnown;
  const int64_t members = run.prediction ? run.prediction->members : 1;
  return fmt::format(
      "{}{} ({} parameters{}) on {} rows of {}, by the method {}{}.",
      members > 1 ? fmt::format("{} networks ", members) : "", show(run.network.shape),
      show_count(run.network.parameters), members > 1 ? " each" : "",
      show_count(run.data.train + (predicts(run) ? run.data.validation : 0)),
      run.data.file.empty() ? "a table" : std::filesystem::path(run.data.file).filename().string(),
      show(run.setting("method").value_or("")),
      std::isnan(rate) ? "" : fmt::format(" at learning rate {}", show(rate)));
}

Section results_section(const Record& run) {
  Section section{"Results", {}, {}, {}, "", false};
  auto& tables = section.tables;
  if (run.prediction) tables = expectation_tables(run.prediction->expected);
  if (Table errors = errors_table(run); predicts(run) && !errors.rows.empty()) {
    tables.push_back(std::move(errors));
  }
  if (run.result) tables.push_back(outcome_table(run));
  if (run.result && !run.result->controller.empty()) {
    tables.push_back(controller_table(run.result->controller));
  }
  if (run.prediction && !run.prediction->importance.empty()) {
    tables.push_back(importance_table(run.prediction->importance));
  }
  if (Table errors = errors_table(run); !predicts(run) && !errors.rows.empty()) {
    tables.push_back(std::move(errors));
  }
  for (Table& table : confusion_tables(run)) tables.push_back(std::move(table));
  return section;
}

bool is_weighted(const Record& run) {
  return std::any_of(run.settings.begin(), run.settings.end(), [](const auto& each) {
    return each.name == "class-weights" || each.name == "sample-weights";
  });
}

Page page_of_one(const Record& run) {
  Page page;
  page.title = fmt::format("Run {}", run.name);
  const bool expects = run.prediction && !run.prediction->expected.empty();
  if (expects) {
    for (const study::Expectation& each : run.prediction->expected) {
      page.summary.push_back(in_words(each));
    }
  }
  if (expects && is_weighted(run)) {
    page.summary.push_back(
        "Losses of the history are weighted as training was; what to expect of new rows, and the "
        "table of errors, count each row the same, after calibration.");
  }
  // If there is an expectation, only errors on test rows add information.
  const std::string errors =
      expects && errors_of(run, RowUse::kTest).empty() ? std::string() : errors_in_words(run);
  if (expects && !errors.empty()) page.summary.push_back(errors);
  page.summary.push_back(what_it_is(run));
  page.summary.push_back(how_it_ended(run));
  if (!expects && !errors.empty()) page.summary.push_back(errors);

  if (Section results = results_section(run); !results.tables.empty()) {
    page.sections.push_back(std::move(results));
  }
  if (auto figures = run_figures(run); !figures.empty()) {
    page.sections.push_back({"Figures", {}, {}, std::move(figures), "", false});
  }
  add_preflight(page, run, "Pre-flight report");
  add_settings(page, run);
  page.sections.push_back(machine_section(run));
  return page;
}

/// Targets of several runs, with the measure used to compare them.
using Compared = std::set<std::pair<std::string, bool>>;  // true: accuracy

double compared(const Record& run, const std::string& target, bool accuracy) {
  for (const study::TargetErrors& error : errors_of(run, RowUse::kValidation)) {
    if (error.target != target) continue;
    return measured(error, accuracy ? "accuracy" : "rmse");
  }
  return kNotKnown;
}

Table comparison_table(const std::vector<Record>& runs) {
  Table table{"",
              {"Run", "Method", "Learning rate", "Network", "Outcome", "Steps", "Training loss",
               "Validation loss"},
              {},
              ""};
  Compared targets;
  for (const Record& run : runs) {
    for (const study::TargetErrors& error : errors_of(run, RowUse::kValidation)) {
      if (!std::isnan(measured(error, "rmse"))) targets.emplace(error.target, false);
      if (!std::isnan(measured(error, "accuracy"))) targets.emplace(error.target, true);
    }
  }
  for (const auto& [target, accuracy] : targets) {
    table.columns.push_back((accuracy ? "Accuracy of " : "RMS error of ") + target);
  }
  table.columns.emplace_back("Seconds");
  for (const Record& run : runs) {
    const auto& result = run.result;
    std::vector<std::string> row{run.name,
                                 show(run.setting("method").value_or("")),
                                 show(result ? result->learning_rate : kNotKnown),
                                 show(run.network.shape),
                                 result ? train::to_string(result->outcome) : "not ended",
                                 result ? std::to_string(result->steps) : show(""),
                                 show(result ? result->train_loss : kNotKnown),
                                 show(result ? result->val_loss : kNotKnown)};
    for (const auto& [target, accuracy] : targets) {
      row.push_back(show(compared(run, target, accuracy)));
    }
    row.push_back(show(result ? result->seconds : kNotKnown));
    table.rows.push_back(std::move(row));
  }
  if (!targets.empty()) {
    const bool all = std::all_of(runs.begin(), runs.end(), predicts);
    const bool none = std::none_of(runs.begin(), runs.end(), predicts);
    table.note = fmt::format("Errors are those of {}, in units of the file.",
                             all    ? "rows held out"
                             : none ? "validation rows"
                                    : "validation rows, or of rows held out by runs that predict");
  }
  return table;
}

/// Settings in which the runs differ; then those they share, once.
std::vector<Table> settings_tables(const std::vector<Record>& runs) {
  Table different{"Settings in which they differ", {"Setting"}, {}, ""};
  Table shared{"Settings that they share", {"Setting", "Value"}, {}, ""};
  for (const Record& run : runs) different.columns.push_back(run.name);
  std::vector<std::string> names;
  for (const Record& run : runs) {
    const ShownSettings shown = settings_of(run);
    for (const auto* part : {&shown.given, &shown.tuned, &shown.defaults}) {
      for (const NameValue& each : *part) {
        if (std::find(names.begin(), names.end(), each.name) == names.end()) {
          names.push_back(each.name);
        }
      }
    }
  }
  for (const auto& name : names) {
    std::vector<std::string> row{name};
    for (const Record& run : runs) row.push_back(setting(run, name));
    const bool same = std::all_of(row.begin() + 2, row.end(),
                                  [&](const std::string& value) { return value == row[1]; });
    if (same) {
      shared.rows.push_back({name, row[1]});
    } else {
      different.rows.push_back(std::move(row));
    }
  }
  std::vector<Table> tables;
  if (!different.rows.empty()) tables.push_back(std::move(different));
  if (!shared.rows.empty()) tables.push_back(std::move(shared));
  return tables;
}

Page page_of_several(const std::vector<Record>& runs) {
  Page page;
  page.title = fmt::format("{} runs", runs.size());
  Section comparison{"Comparison", {}, {comparison_table(runs)}, {}, "", false};
  for (const Record& run : runs) {
    comparison.paragraphs.push_back(fmt::format("{}: {}", run.name, how_it_ended(run)));
  }
  page.sections.push_back(std::move(comparison));
  if (auto figures = overlay_figures(runs); !figures.empty()) {
    page.sections.push_back({"Figures", {}, {}, std::move(figures), "", false});
  }
  for (const Record& run : runs) add_preflight(page, run, "Pre-flight report of " + run.name);
  page.sections.push_back({"Settings", {}, settings_tables(runs), {}, "", false});
  for (const Record& run : runs) {
    Section machine = machine_section(run);
    machine.title += " of " + run.name;
    machine.folded = true;
    page.sections.push_back(std::move(machine));
  }
  return page;
}

}  // namespace

Page run_page(const std::vector<Record>& runs) {
  CDT_REQUIRE(!runs.empty(), "expected a run");
  for (const Record& run : runs) require_sound(run);
  return runs.size() == 1 ? page_of_one(runs[0]) : page_of_several(runs);
}

}  // namespace cdt::report
