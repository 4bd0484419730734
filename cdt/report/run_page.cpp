#include <cdt/report/run_figures.h>
#include <cdt/report/run_page.h>
#include <cdt/report/text.h>

#include <algorithm>
#include <set>

namespace cdt::report {
namespace {

using nlohmann::ordered_json;

/// A setting as it was given, or else its default.
std::string setting(const ordered_json& run, const char* name) {
  for (const char* part : {"settings", "defaults"}) {
    const ordered_json values = field(run, part);
    if (values.is_object() && values.contains(name)) return show(values.at(name));
  }
  return "–";
}

std::string how_it_ended(const ordered_json& run) {
  const ordered_json result = field(run, "result");
  return result.is_null() ? "It has not ended: the run lasts still, or was killed."
                          : text_of(result, "in_words", "It ended: " + show(result, "outcome"));
}

/// "On validation rows the RMS error of price is 23140 (R² 0.93)."
std::string errors_in_words(const ordered_json& run) {
  const ordered_json errors = field(run, "errors");
  const bool validated = !field(errors, "validation").is_null();
  const ordered_json of = field(errors, validated ? "validation" : "train");
  std::string text;
  if (!of.is_object()) return text;
  for (const auto& [target, error] : of.items()) {
    const double rmse = number_of(error, "rmse");
    const double r2 = number_of(error, "r2");
    const double accuracy = number_of(error, "accuracy");
    if (!std::isnan(rmse)) {
      text += fmt::format("{}the RMS error of {} is {}{}", text.empty() ? "" : ", ", target,
                          show(rmse), std::isnan(r2) ? "" : fmt::format(" (R² {:.3f})", r2));
    } else if (!std::isnan(accuracy)) {
      text += fmt::format("{}{:.1f} % of {} are right", text.empty() ? "" : ", ", 100 * accuracy,
                          target);
    }
  }
  if (text.empty()) return text;
  return fmt::format("On {} rows {}.", validated ? "validation" : "training", text);
}

/// One row per target and split; columns are the measures that the run has, whatever they are.
Table errors_table(const ordered_json& run) {
  Table table{"Errors, in units of the file", {"Target", "Rows"}, {}, ""};
  const ordered_json errors = field(run, "errors");
  if (!errors.is_object()) return table;
  std::vector<std::string> measures;
  for (const auto& [split, targets] : errors.items()) {
    if (!targets.is_object()) continue;
    for (const auto& [target, values] : targets.items()) {
      if (!values.is_object()) continue;
      for (const auto& [measure, value] : values.items()) {
        const bool known = std::find(measures.begin(), measures.end(), measure) != measures.end();
        if (!known && !value.is_structured()) measures.push_back(measure);
      }
    }
  }
  const std::map<std::string, std::string> titles{
      {"rmse", "RMS error"}, {"mae", "Mean absolute error"}, {"r2", "R²"}};
  for (const auto& measure : measures) {
    table.columns.push_back(titles.contains(measure) ? titles.at(measure) : measure);
  }
  for (const auto& [split, targets] : errors.items()) {
    if (!targets.is_object()) continue;
    for (const auto& [target, values] : targets.items()) {
      std::vector<std::string> row{target, split == "train" ? "training" : split};
      for (const auto& measure : measures) row.push_back(show(values, measure.c_str()));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

/// What was given stands open; the defaults, some thirty, are folded.
void add_settings(Page& page, const ordered_json& run) {
  for (const auto& [part, title] : {std::pair{"settings", "Settings as given"},
                                    {"defaults", "Defaults of the other settings"}}) {
    Table table = name_value_table(field(run, part), "");
    table.columns = {"Setting", "Value"};
    if (!table.rows.empty()) {
      page.sections.push_back({title, {}, {table}, {}, "", std::string_view(part) == "defaults"});
    }
  }
}

Section machine_section(const ordered_json& run) {
  Section section{"Data, machine and timings", {}, {}, {}, "", false};
  for (const auto& [name, title] : {std::pair{"data", "Data"},
                                    {"network", "Network"},
                                    {"machine", "Machine"},
                                    {"seconds", "Timings in seconds"}}) {
    Table table = name_value_table(field(run, name), title);
    if (!table.rows.empty()) section.tables.push_back(std::move(table));
  }
  section.tables.push_back({"Program",
                            {"", ""},
                            {{"version", show(run, "version")},
                             {"revision", show(run, "revision")},
                             {"seed", show(run, "seed")}},
                            ""});
  return section;
}

void add_preflight(Page& page, const RunFiles& run, const std::string& title) {
  const std::string text = text_of(run.run, "analysis_text");
  if (!text.empty()) page.sections.push_back({title, {}, {}, {}, text, true});
}

Page page_of_one(const RunFiles& files) {
  const ordered_json& run = files.run;
  const ordered_json result = field(run, "result");
  Page page;
  page.title = fmt::format("Run {}", files.name);
  const double rate = number_of(result, "lr");
  page.summary.push_back(fmt::format(
      "{} ({} parameters) on {} rows of {}, by the method {}{}.",
      show(field(run, "network"), "shape"), show(field(run, "network"), "parameters"),
      show(field(run, "data"), "train"),
      std::filesystem::path(text_of(field(run, "data"), "file", "a table")).filename().string(),
      setting(run, "method"),
      std::isnan(rate) ? "" : fmt::format(" at learning rate {}", show(rate))));
  page.summary.push_back(how_it_ended(run));
  if (std::string words = errors_in_words(run); !words.empty()) page.summary.push_back(words);

  Section outcome{"Results", {}, {}, {}, "", false};
  if (result.is_object()) {
    Table table{"Outcome", {"", ""}, {}, ""};
    for (const auto& [name, title] : {std::pair{"outcome", "outcome"},
                                      {"steps", "steps"},
                                      {"train_loss", "training loss"},
                                      {"val_loss", "validation loss"},
                                      {"best_val_loss", "lowest validation loss"},
                                      {"best_step", "at step"},
                                      {"linearizations", "kernels computed"},
                                      {"rejected", "steps taken back"}}) {
      table.rows.push_back({title, show(result, name)});
    }
    outcome.tables.push_back(std::move(table));
  }
  if (Table errors = errors_table(run); !errors.rows.empty())
    outcome.tables.push_back(std::move(errors));
  for (Table& table : confusion_tables(files)) outcome.tables.push_back(std::move(table));
  if (!outcome.tables.empty()) page.sections.push_back(std::move(outcome));
  if (auto figures = run_figures(files); !figures.empty()) {
    page.sections.push_back({"Figures", {}, {}, std::move(figures), "", false});
  }
  add_preflight(page, files, "Pre-flight report");
  add_settings(page, run);
  page.sections.push_back(machine_section(run));
  return page;
}

Table comparison_table(const std::vector<RunFiles>& runs) {
  Table table{"",
              {"Run", "Method", "Learning rate", "Network", "Outcome", "Steps", "Training loss",
               "Validation loss"},
              {},
              ""};
  std::set<std::pair<std::string, const char*>> targets;  // with the measure of each
  for (const RunFiles& run : runs) {
    const ordered_json errors = field(field(run.run, "errors"), "validation");
    if (!errors.is_object()) continue;
    for (const auto& [target, error] : errors.items()) {
      for (const char* measure : {"rmse", "accuracy"}) {
        if (!std::isnan(number_of(error, measure))) targets.emplace(target, measure);
      }
    }
  }
  for (const auto& [target, measure] : targets) {
    table.columns.push_back(
        (std::string_view(measure) == "rmse" ? "RMS error of " : "Accuracy of ") + target);
  }
  table.columns.push_back("Seconds");
  for (const RunFiles& files : runs) {
    const ordered_json result = field(files.run, "result");
    std::vector<std::string> row{files.name,
                                 setting(files.run, "method"),
                                 show(result, "lr"),
                                 show(field(files.run, "network"), "shape"),
                                 result.is_null() ? "not ended" : show(result, "outcome"),
                                 show(result, "steps"),
                                 show(result, "train_loss"),
                                 show(result, "val_loss")};
    const ordered_json errors = field(field(files.run, "errors"), "validation");
    for (const auto& [target, measure] : targets) {
      row.push_back(show(field(errors, target.c_str()), measure));
    }
    row.push_back(show(result, "seconds"));
    table.rows.push_back(std::move(row));
  }
  if (!targets.empty()) table.note = "Errors are those of validation rows, in units of the file.";
  return table;
}

/// Settings in which the runs differ; those they share follow once.
std::vector<Table> settings_tables(const std::vector<RunFiles>& runs) {
  Table different{"Settings in which they differ", {"Setting"}, {}, ""};
  Table shared{"Settings that they share", {"Setting", "Value"}, {}, ""};
  for (const RunFiles& run : runs) different.columns.push_back(run.name);
  std::vector<std::string> names;
  for (const RunFiles& run : runs) {
    for (const char* part : {"settings", "defaults"}) {
      const ordered_json values = field(run.run, part);
      if (!values.is_object()) continue;
      for (const auto& [name, unused] : values.items()) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  }
  for (const auto& name : names) {
    std::vector<std::string> row{name};
    for (const RunFiles& run : runs) row.push_back(setting(run.run, name.c_str()));
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

Page page_of_several(const std::vector<RunFiles>& runs) {
  Page page;
  page.title = fmt::format("{} runs", runs.size());
  Section comparison{"Comparison", {}, {comparison_table(runs)}, {}, "", false};
  for (const RunFiles& run : runs) {
    comparison.paragraphs.push_back(fmt::format("{}: {}", run.name, how_it_ended(run.run)));
  }
  page.sections.push_back(std::move(comparison));
  if (auto figures = overlay_figures(runs); !figures.empty()) {
    page.sections.push_back({"Figures", {}, {}, std::move(figures), "", false});
  }
  for (const RunFiles& run : runs) add_preflight(page, run, "Pre-flight report of " + run.name);
  page.sections.push_back({"Settings", {}, settings_tables(runs), {}, "", false});
  for (const RunFiles& run : runs) {
    Section machine = machine_section(run.run);
    machine.title += " of " + run.name;
    machine.folded = true;
    page.sections.push_back(std::move(machine));
  }
  return page;
}

}  // namespace

Page run_page(const std::vector<std::filesystem::path>& folders) {
  CDT_REQUIRE(!folders.empty(), "expected the folder of a run");
  std::vector<RunFiles> runs;
  std::set<std::string> names;
  for (const auto& folder : folders) {
    runs.push_back(read_run(folder));
    if (!names.insert(runs.back().name).second) runs.back().name = folder.string();
  }
  try {
    return runs.size() == 1 ? page_of_one(runs[0]) : page_of_several(runs);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(c10::str("run.json: ", error.what()));
  }
}

}  // namespace cdt::report
