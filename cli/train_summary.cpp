#include "cli/train_summary.h"

#include <cdt/core/io/file.h>
#include <cdt/core/text/format.h>
#include <cdt/core/text/text.h>
#include <cdt/core/text/wrap.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cdt::cli {
namespace {

/// The columns of the table: training rows, validation or held-out rows, test rows.
struct ErrorColumn {
  std::string name;
  const study::Errors* errors;
  double loss;
};

/// A table with row names; a dash for unknown values.
class SummaryTable {
 public:
  void add(std::string name, std::vector<std::string> cells) {
    width_ = std::max(width_, printed_width(name));
    lines_.push_back({std::move(name), std::move(cells)});
  }
  void add(std::string name, const std::vector<std::optional<double>>& values) {
    std::vector<std::string> cells;
    for (const auto& value : values) {
      cells.push_back(value && std::isfinite(*value) ? plain(*value) : "-");
    }
    add(std::move(name), std::move(cells));
  }
  std::string text() const {
    std::string all;
    for (const auto& [name, cells] : lines_) {
      all += "  " + name + std::string(width_ - printed_width(name), ' ');
      for (const std::string& cell : cells) all += fmt::format("{:>14}", cell);
      all += "\n";
    }
    return all;
  }

 private:
  size_t width_ = 24;
  std::vector<std::pair<std::string, std::vector<std::string>>> lines_;
};

/// The confusion matrix, unless there are too many classes.
std::string confusion_text(const study::ClassErrors& shown, const std::string& rows) {
  constexpr size_t kMostShown = 10;
  if (shown.classes.size() > kMostShown) return "";
  std::string text =
      fmt::format("\n  {} rows, by class (down) and prediction (across):\n  {:16}", rows, "");
  const size_t width = std::min<size_t>(10, (kColumns - 18) / shown.classes.size());
  const auto cell = [width](const std::string& word) {
    return fmt::format("{:>{}.{}}", word, width, width - 1);
  };
  for (const std::string& column : shown.classes) text += cell(printable_name(column));
  for (size_t i = 0; i < shown.classes.size(); ++i) {
    text += fmt::format("\n  {:16.15}", printable_name(shown.classes[i]));
    for (const int64_t count : shown.confusion[i]) text += cell(std::to_string(count));
  }
  return text + "\n";
}

std::string error_table(const run::TrainedRun& run) {
  const run::RunErrors& errors = *run.record.errors;
  const bool predicts = run.record.prediction.has_value();
  std::vector<ErrorColumn> columns{{"training", &errors.train, run.result.train_loss}};
  columns.push_back({predicts ? "held out" : "validation",
                     errors.validation.empty() ? nullptr : &errors.validation,
                     run.result.val_loss});
  if (!errors.test.empty()) columns.push_back({"test", &errors.test, train::kUnknown});
  SummaryTable table;
  std::vector<std::string> names;
  std::vector<std::optional<double>> losses;
  for (const ErrorColumn& column : columns) {
    names.push_back(column.name);
    losses.emplace_back(column.loss);
  }
  table.add("", names);
  const bool classes = run.problem.preprocess.has_classes();
  const bool weighted = run.problem.data.sample_weights.defined();
  const loss::Traits traits = run.decision.training.loss->traits();
  const std::string in_words =
      *traits.in_words != '\0' ? traits.in_words : run.decision.training.loss->name();
  table.add(in_words + (classes || traits.keeps_units ? "" : " of scaled targets") +
                (weighted ? ", weighted" : ""),
            losses);
  std::string confusion;
  for (size_t i = 0; i < errors.train.size(); ++i) {
    const std::string target = printable_name(errors.train[i].target);
    std::vector<std::optional<double>> rmse, r2;
    std::vector<std::string> accuracy;
    const study::ClassErrors* shown = nullptr;
    std::string shown_name;
    for (const ErrorColumn& column : columns) {
      const auto* value = column.errors ? &(*column.errors)[i].value : nullptr;
      const auto* number = value ? std::get_if<study::NumberErrors>(value) : nullptr;
      const auto* of = value ? std::get_if<study::ClassErrors>(value) : nullptr;
      rmse.push_back(number ? std::optional(number->rmse) : std::nullopt);
      r2.push_back(number ? number->r2 : std::nullopt);
      accuracy.push_back(of ? fmt::format("{:.2f} %", 100 * of->accuracy) : "-");
      if (of != nullptr) shown = of, shown_name = column.name;
    }
    if (shown != nullptr) {
      table.add("accuracy of " + target, accuracy);
      confusion += confusion_text(*shown, shown_name);
    } else {
      table.add("RMS error of " + target, rmse);
      table.add("R² of " + target, r2);
    }
  }
  return "\n" + table.text() + confusion;
}

/// How the run ended; the table of errors follows.
std::string fit_head(const run::TrainedRun& run) {
  return "\n" + wrap(run.result.in_words(), 0) + "\n";
}

std::string network_of(const study::Problem& problem) {
  return fmt::format("{} ({} parameters)", problem.model->describe(),
                     problem.model->parameter_count());
}

/// What was trained, on what and how long.
std::string fit_facts(const run::TrainedRun& run) {
  const train::TrainResult& result = run.result;
  const double rate = result.learning_rate;  // a path has no rate
  return fmt::format("\n{}, {} by {}{}\n{} in {:.2f} s\n", network_of(run.problem),
                     count_of(static_cast<int64_t>(run.problem.split.train.size()), "sample"),
                     run.decision.training.method.name(),
                     std::isnan(rate) ? "" : fmt::format(", learning rate {:.4g}", rate),
                     count_of(result.steps, "step"), result.seconds);
}

std::string prediction_facts(const run::TrainedRun& run) {
  const study::Problem& problem = run.problem;
  const run::RunPrediction& found = *run.record.prediction;
  const auto rows =
      static_cast<int64_t>(problem.split.train.size() + problem.split.validation.size());
  const bool line = std::ranges::any_of(found.targets, [](const auto& t) { return t.line > 0; });
  return fmt::format("\n{} of {}{}, {} by {}\npoint {} of {} in {:.2f} s\n",
                     count_of(found.members - (line ? 1 : 0), "network"), network_of(problem),
                     line ? " and a linear model" : "", count_of(rows, "row"),
                     run.decision.training.method.name(), found.points,
                     run.result.history.size() - 1, run.result.seconds);
}

/// The expected error on new rows.
std::string prediction_head(const run::TrainedRun& run) {
  const study::Problem& problem = run.problem;
  const run::RunPrediction& found = *run.record.prediction;
  std::string text = "\n";
  for (size_t t = 0; t < found.expected.size(); ++t) {
    text += study::to_text(found.expected[t]) + "\n";
    if (!run.record.errors || t >= run.record.errors->train.size()) continue;
    const auto* fitted = std::get_if<study::NumberErrors>(&run.record.errors->train[t].value);
    const std::string limit =
        fitted != nullptr ? study::what_limits(found.expected[t], fitted->rmse) : "";
    if (!limit.empty()) text += "  " + limit + "\n";
  }
  if (problem.data.sample_weights.defined() && !found.expected.empty()) {
    text += fmt::format(
        "  Each row counts the same here. Below, {} is weighted as in training, and\n"
        "  before calibration\n",
        to_string(run.decision.training.loss));
  }
  if (!problem.conflicts.empty()) {
    text += fmt::format(
        "  {} of rows are equal in every feature and differ in the target\n"
        "  (cdt data describe lists them)\n",
        count_of(static_cast<int64_t>(problem.conflicts.size()), "group"));
  }
  if (found.importance.empty()) return text;
  constexpr size_t kShown = 10;
  text += "\nImportance: growth of held-out errors when a column is shuffled\n";
  for (size_t i = 0; i < std::min(kShown, found.importance.size()); ++i) {
    const study::Importance& each = found.importance[i];
    text += fmt::format("  {:>8.1f} %  {}\n", 100 * each.increase, printable_name(each.column));
  }
  if (found.importance.size() > kShown) {
    text += fmt::format("  … and {} more in run.json\n", found.importance.size() - kShown);
  }
  return text;
}

}  // namespace

std::string summarize(const run::TrainedRun& run) {
  const bool predicts = run.record.prediction.has_value();
  std::string text = predicts ? prediction_head(run) : fit_head(run);
  const std::string folder = run.folder.path().string();
  if (run.result.outcome == train::Outcome::kInterrupted) {
    text += fmt::format("cdt train --resume {} continues.\n", folder);
  }
  if (run.record.errors) text += error_table(run);
  text += predicts ? prediction_facts(run) : fit_facts(run);
  if (!run.record.errors) return text;
  return text + fmt::format(
                    "\n{0}: model.safetensors, preprocess.json, history.csv,\n"
                    "  predictions.csv, run.json{2}\n"
                    "Next: cdt predict {0} {1} --out predictions.csv\n",
                    folder, run.problem.table.pictures ? "PICTURES" : "NEW.csv",
                    path_exists(run.folder.report()) ? ", report.html" : "");
}

}  // namespace cdt::cli
