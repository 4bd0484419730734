#include <cdt/core/error.h>
#include <cdt/report/run_figures.h>
#include <cdt/report/run_page.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace cdt::report {
namespace {

void require_sound(const RunRecord& run) {
  const auto require = [&](size_t size, size_t expected, const std::string& what) {
    CDT_REQUIRE(size == expected, "run ", run.name, ": ", what, " has ", size, " entries, not ",
                expected);
  };
  const RunHistory& history = run.history;
  for (const auto& [column, name] : {std::pair{&history.lr, "lr"},
                                     {&history.train_loss, "train_loss"},
                                     {&history.val_loss, "val_loss"},
                                     {&history.augment_norm, "augment_norm"},
                                     {&history.linearization_error, "linearization_error"},
                                     {&history.refreshed, "refreshed"},
                                     {&history.rejected, "rejected"},
                                     {&history.seconds, "seconds"}}) {
    require(column->size(), history.step.size(), std::string("the history of ") + name);
  }
  const RunSpectrum& modes = run.spectrum;
  for (const auto* column : {&modes.step, &modes.gain, &modes.factor_gd, &modes.factor_cdt}) {
    require(column->size(), modes.mode.size(), "a column of the spectrum");
  }
  for (const TargetPredictions& each : run.predictions.targets) {
    const size_t rows = run.predictions.validation.size();
    require(each.predicted.size(), each.truth.size(), "the predictions of " + each.name);
    require(each.predicted_class.size(), each.true_class.size(), "the classes of " + each.name);
    if (!each.truth.empty()) require(each.truth.size(), rows, "the target " + each.name);
    if (!each.true_class.empty()) require(each.true_class.size(), rows, "the target " + each.name);
  }
}

/// A setting as it was given, or else its default.
std::string setting(const RunRecord& run, const std::string& name) {
  for (const auto* part : {&run.given, &run.defaults}) {
    for (const NameValue& each : *part) {
      if (each.name == name) return each.value;
    }
  }
  return show("");
}

std::string how_it_ended(const RunRecord& run) {
  if (!run.outcome) return "It has not ended: the run lasts still, or was killed.";
  return run.outcome->in_words.empty() ? "It ended: " + show(run.outcome->outcome)
                                       : run.outcome->in_words;
}

/// "On validation rows the RMS error of price is 23140 (R² 0.93)."
std::string errors_in_words(const RunRecord& run) {
  const bool validated = !run.validation_errors.empty();
  std::string text;
  for (const TargetErrors& error : validated ? run.validation_errors : run.train_errors) {
    const char* between = text.empty() ? "" : ", ";
    if (!std::isnan(error.rmse)) {
      text += fmt::format("{}the RMS error of {} is {}{}", between, error.target, show(error.rmse),
                          std::isnan(error.r2) ? "" : fmt::format(" (R² {:.3f})", error.r2));
    } else if (!std::isnan(error.accuracy)) {
      text +=
          fmt::format("{}{:.1f} % of {} are right", between, 100 * error.accuracy, error.target);
    }
  }
  if (text.empty()) return text;
  return fmt::format("On {} rows {}.", validated ? "validation" : "training", text);
}

/// One row per target and split; columns are the measures that the run has.
Table errors_table(const RunRecord& run) {
  Table table{"Errors, in units of the file", {"Target", "Rows"}, {}, ""};
  const std::vector<std::pair<double TargetErrors::*, const char*>> all{
      {&TargetErrors::rmse, "RMS error"},
      {&TargetErrors::mae, "Mean absolute error"},
      {&TargetErrors::r2, "R²"},
      {&TargetErrors::accuracy, "accuracy"},
      {&TargetErrors::cross_entropy, "cross_entropy"}};
  std::vector<double TargetErrors::*> measures;
  for (const auto& [measure, title] : all) {
    const auto has = [&, of = measure](const TargetErrors& error) {
      return !std::isnan(error.*of) || (of == &TargetErrors::r2 && !std::isnan(error.rmse));
    };
    if (std::any_of(run.train_errors.begin(), run.train_errors.end(), has) ||
        std::any_of(run.validation_errors.begin(), run.validation_errors.end(), has)) {
      measures.push_back(measure);
      table.columns.emplace_back(title);
    }
  }
  const auto add = [&](const std::vector<TargetErrors>& errors, const char* rows) {
    for (const TargetErrors& error : errors) {
      std::vector<std::string> row{error.target, rows};
      for (const auto measure : measures) row.push_back(show(error.*measure));
      table.rows.push_back(std::move(row));
    }
  };
  add(run.train_errors, "training");
  add(run.validation_errors, "validation");
  return table;
}

/// What was given stands open; the defaults, some thirty, are folded.
void add_settings(Page& page, const RunRecord& run) {
  const auto add = [&](const std::vector<NameValue>& settings, const char* title, bool folded) {
    Table table = name_value_table(settings, "");
    table.columns = {"Setting", "Value"};
    if (!table.rows.empty()) page.sections.push_back({title, {}, {table}, {}, "", folded});
  };
  add(run.given, "Settings as given", false);
  add(run.defaults, "Defaults of the other settings", true);
}

Section machine_section(const RunRecord& run) {
  Section section{"Data, machine and timings", {}, {}, {}, "", false};
  const auto add = [&](const std::vector<NameValue>& values, const char* title) {
    if (!values.empty()) section.tables.push_back(name_value_table(values, title));
  };
  add(run.data, "Data");
  add(run.network, "Network");
  add(run.machine, "Machine");
  add(run.seconds, "Timings in seconds");
  section.tables.push_back(
      {"Program",
       {"", ""},
       {{"version", show(run.version)}, {"revision", show(run.revision)}, {"seed", show(run.seed)}},
       ""});
  return section;
}

void add_preflight(Page& page, const RunRecord& run, const std::string& title) {
  if (!run.preflight.empty()) page.sections.push_back({title, {}, {}, {}, run.preflight, true});
}

Table outcome_table(const RunOutcome& outcome) {
  return {"Outcome",
          {"", ""},
          {{"outcome", show(outcome.outcome)},
           {"steps", show(outcome.steps)},
           {"training loss", show(outcome.train_loss)},
           {"validation loss", show(outcome.val_loss)},
           {"lowest validation loss", show(outcome.best_val_loss)},
           {"at step", show(outcome.best_step)},
           {"kernels computed", show(outcome.linearizations)},
           {"steps taken back", show(outcome.rejected)}},
          ""};
}

Page page_of_one(const RunRecord& run) {
  Page page;
  page.title = fmt::format("Run {}", run.name);
  const double rate = run.outcome ? run.outcome->lr : kNotKnown;
  page.summary.push_back(fmt::format(
      "{} ({} parameters) on {} rows of {}, by the method {}{}.", show(run.shape),
      show(run.parameters), show(run.train_rows),
      run.data_file.empty() ? "a table" : std::filesystem::path(run.data_file).filename().string(),
      show(run.method), std::isnan(rate) ? "" : fmt::format(" at learning rate {}", show(rate))));
  page.summary.push_back(how_it_ended(run));
  if (std::string words = errors_in_words(run); !words.empty()) page.summary.push_back(words);

  Section outcome{"Results", {}, {}, {}, "", false};
  if (run.outcome) outcome.tables.push_back(outcome_table(*run.outcome));
  if (Table errors = errors_table(run); !errors.rows.empty()) {
    outcome.tables.push_back(std::move(errors));
  }
  for (Table& table : confusion_tables(run)) outcome.tables.push_back(std::move(table));
  if (!outcome.tables.empty()) page.sections.push_back(std::move(outcome));
  if (auto figures = run_figures(run); !figures.empty()) {
    page.sections.push_back({"Figures", {}, {}, std::move(figures), "", false});
  }
  add_preflight(page, run, "Pre-flight report");
  add_settings(page, run);
  page.sections.push_back(machine_section(run));
  return page;
}

/// Targets of several runs, each with the measure by which they are compared.
using Compared = std::set<std::pair<std::string, bool>>;  // true: the share of right classes

double measured(const RunRecord& run, const std::string& target, bool accuracy) {
  for (const TargetErrors& error : run.validation_errors) {
    if (error.target == target) return accuracy ? error.accuracy : error.rmse;
  }
  return kNotKnown;
}

Table comparison_table(const std::vector<RunRecord>& runs) {
  Table table{"",
              {"Run", "Method", "Learning rate", "Network", "Outcome", "Steps", "Training loss",
               "Validation loss"},
              {},
              ""};
  Compared targets;
  for (const RunRecord& run : runs) {
    for (const TargetErrors& error : run.validation_errors) {
      if (!std::isnan(error.rmse)) targets.emplace(error.target, false);
      if (!std::isnan(error.accuracy)) targets.emplace(error.target, true);
    }
  }
  for (const auto& [target, accuracy] : targets) {
    table.columns.push_back((accuracy ? "Accuracy of " : "RMS error of ") + target);
  }
  table.columns.emplace_back("Seconds");
  for (const RunRecord& run : runs) {
    const RunOutcome result = run.outcome.value_or(RunOutcome{});
    std::vector<std::string> row{run.name,
                                 show(run.method),
                                 show(result.lr),
                                 show(run.shape),
                                 run.outcome ? show(result.outcome) : "not ended",
                                 show(result.steps),
                                 show(result.train_loss),
                                 show(result.val_loss)};
    for (const auto& [target, accuracy] : targets) {
      row.push_back(show(measured(run, target, accuracy)));
    }
    row.push_back(show(result.seconds));
    table.rows.push_back(std::move(row));
  }
  if (!targets.empty()) table.note = "Errors are those of validation rows, in units of the file.";
  return table;
}

/// Settings in which the runs differ; those they share follow once.
std::vector<Table> settings_tables(const std::vector<RunRecord>& runs) {
  Table different{"Settings in which they differ", {"Setting"}, {}, ""};
  Table shared{"Settings that they share", {"Setting", "Value"}, {}, ""};
  for (const RunRecord& run : runs) different.columns.push_back(run.name);
  std::vector<std::string> names;
  for (const RunRecord& run : runs) {
    for (const auto* part : {&run.given, &run.defaults}) {
      for (const NameValue& each : *part) {
        if (std::find(names.begin(), names.end(), each.name) == names.end()) {
          names.push_back(each.name);
        }
      }
    }
  }
  for (const auto& name : names) {
    std::vector<std::string> row{name};
    for (const RunRecord& run : runs) row.push_back(setting(run, name));
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

Page page_of_several(const std::vector<RunRecord>& runs) {
  Page page;
  page.title = fmt::format("{} runs", runs.size());
  Section comparison{"Comparison", {}, {comparison_table(runs)}, {}, "", false};
  for (const RunRecord& run : runs) {
    comparison.paragraphs.push_back(fmt::format("{}: {}", run.name, how_it_ended(run)));
  }
  page.sections.push_back(std::move(comparison));
  if (auto figures = overlay_figures(runs); !figures.empty()) {
    page.sections.push_back({"Figures", {}, {}, std::move(figures), "", false});
  }
  for (const RunRecord& run : runs) add_preflight(page, run, "Pre-flight report of " + run.name);
  page.sections.push_back({"Settings", {}, settings_tables(runs), {}, "", false});
  for (const RunRecord& run : runs) {
    Section machine = machine_section(run);
    machine.title += " of " + run.name;
    machine.folded = true;
    page.sections.push_back(std::move(machine));
  }
  return page;
}

}  // namespace

Page run_page(const std::vector<RunRecord>& runs) {
  CDT_REQUIRE(!runs.empty(), "expected a run");
  for (const RunRecord& run : runs) require_sound(run);
  return runs.size() == 1 ? page_of_one(runs[0]) : page_of_several(runs);
}

}  // namespace cdt::report
