#include "cli/train_summary.h"

#include <cdt/core/format.h>
#include <cdt/core/text.h>
#include <fmt/format.h>

#include <cmath>

namespace cdt::cli {
namespace {

/// A line of the table; a dash for what is not known.
std::string line(const std::string& name, std::optional<double> training,
                 std::optional<double> validation) {
  const auto cell = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  return fmt::format("  {:24}{:>14}{:>14}\n", name, cell(training), cell(validation));
}

std::string number_lines(const std::string& target, const study::NumberErrors& train,
                         const study::NumberErrors* validation) {
  const bool validated = validation != nullptr;
  return line("RMS error of " + target, train.rmse,
              validated ? std::optional(validation->rmse) : std::nullopt) +
         line("R² of " + target, train.r2, validated ? validation->r2 : std::nullopt);
}

/// Accuracies, and the confusion of validation (else training) rows, unless the classes are too
/// many.
std::string class_lines(const std::string& target, const study::ClassErrors& train,
                        const study::ClassErrors* validation) {
  constexpr size_t kMostShown = 10;
  const auto percent = [](const study::ClassErrors& e) {
    return fmt::format("{:.2f} %", 100 * e.accuracy);
  };
  const bool validated = validation != nullptr;
  std::string text = fmt::format("  {:24}{:>14}{:>14}\n", "accuracy of " + target, percent(train),
                                 validated ? percent(*validation) : "-");
  const study::ClassErrors& shown = validated ? *validation : train;
  if (shown.classes.size() > kMostShown) return text;
  text += fmt::format("\n  {} rows, by class (down) and prediction (across):\n  {:16}",
                      validated ? "validation" : "training", "");
  const auto cell = [](const std::string& word) { return fmt::format("{:>10.9}", word); };
  for (const std::string& column : shown.classes) text += cell(printable_name(column));
  for (size_t i = 0; i < shown.classes.size(); ++i) {
    text += fmt::format("\n  {:16.15}", printable_name(shown.classes[i]));
    for (const int64_t count : shown.confusion[i]) text += cell(std::to_string(count));
  }
  return text + "\n";
}

std::string fit_head(const run::TrainedRun& run) {
  const study::Problem& problem = run.problem;
  const train::TrainResult& result = run.result;
  return fmt::format("\n{} ({} parameters), {} by {}, learning rate {:.4g}: {} in {:.2f} s\n{}\n",
                     problem.model->describe(), problem.model->parameter_count(),
                     count_of(static_cast<int64_t>(problem.split.train.size()), "sample"),
                     train::to_string(run.training.method), result.learning_rate,
                     count_of(result.steps, "step"), result.seconds, result.in_words());
}

std::string prediction_head(const run::TrainedRun& run) {
  const study::Problem& problem = run.problem;
  const train::TrainResult& result = run.result;
  const run::RunPrediction& found = *run.record.prediction;
  const auto rows =
      static_cast<int64_t>(problem.split.train.size() + problem.split.validation.size());
  std::string text =
      fmt::format("\n{} of {} ({} parameters), {} by {}: point {} of {} in {:.2f} s\n",
                  count_of(found.members, "network"), problem.model->describe(),
                  problem.model->parameter_count(), count_of(rows, "row"),
                  train::to_string(run.training.method), found.points, result.history.size() - 1,
                  result.seconds);
  for (const study::Expectation& e : found.expected) text += study::to_text(e) + "\n";
  return text;
}

}  // namespace

std::string summarize(const run::TrainedRun& run) {
  const study::Problem& problem = run.problem;
  const train::TrainResult& result = run.result;
  const auto& errors = run.record.errors;
  std::string text = run.record.prediction ? prediction_head(run) : fit_head(run);
  if (result.outcome == train::Outcome::kInterrupted) {
    text += fmt::format("cdt train --resume {} continues.\n", run.folder.path().string());
  }
  if (!errors) return text;
  const bool classes = problem.preprocess.has_classes();
  text += fmt::format("\n  {:24}{:>14}{:>14}\n", "", "training",
                      run.record.prediction ? "held out" : "validation");
  text += line(dynamics::to_string(run.training.loss) + (classes ? "" : " of scaled targets"),
               result.train_loss, result.val_loss);
  for (size_t i = 0; i < errors->train.size(); ++i) {
    const auto& [name, value] = errors->train[i];
    const std::string target = printable_name(name);
    const auto* other = errors->validation.empty() ? nullptr : &errors->validation[i].value;
    if (const auto* number = std::get_if<study::NumberErrors>(&value)) {
      text +=
          number_lines(target, *number, other ? &std::get<study::NumberErrors>(*other) : nullptr);
    } else {
      text += class_lines(target, std::get<study::ClassErrors>(value),
                          other ? &std::get<study::ClassErrors>(*other) : nullptr);
    }
  }
  return text + fmt::format(
                    "\n{0}: model.safetensors, preprocess.json, history.csv, "
                    "predictions.csv, run.json, report.html\nNext: cdt predict {0} NEW.csv --out "
                    "predictions.csv\n",
                    run.folder.path().string());
}

}  // namespace cdt::cli
