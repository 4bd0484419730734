#include "cli/train_summary.h"

#include <cdt/core/format.h>
#include <fmt/format.h>

#include "cli/classes.h"

namespace cdt::cli {
namespace {

using nlohmann::ordered_json;

ordered_json errors_of(const Problem& problem, const std::vector<int64_t>& rows) {
  if (rows.empty()) return nullptr;
  return measure_errors(
      problem.preprocess,
      predict_targets(problem.model, problem.preprocess,
                      problem.preprocess.transform(problem.table, rows), problem.table.source),
      problem.preprocess.to_original(problem.preprocess.transform_targets(problem.table, rows)));
}

/// A line of the table: numbers, or dashes for nulls.
std::string line(const std::string& name, const ordered_json& training,
                 const ordered_json& validation) {
  const auto cell = [](const ordered_json& value) {
    return value.is_null() ? std::string("-") : fmt::format("{:.4g}", value.get<double>());
  };
  return fmt::format("  {:24}{:>14}{:>14}\n", name, cell(training), cell(validation));
}

}  // namespace

ordered_json describe_result(const train::TrainResult& result) {
  return {{"outcome", train::to_string(result.outcome)},
          {"in_words", result.in_words()},
          {"steps", result.steps},
          {"lr", number_or_null(result.learning_rate)},
          {"train_loss", number_or_null(result.train_loss)},
          {"val_loss", number_or_null(result.val_loss)},
          {"best_step", result.best_step < 0 ? ordered_json() : ordered_json(result.best_step)},
          {"best_val_loss", number_or_null(result.best_val_loss)},
          {"linearizations", result.linearizations},
          {"rejected", result.rejected},
          {"seconds", result.seconds}};
}

ordered_json describe_errors(const Problem& problem) {
  return {{"train", errors_of(problem, problem.split.train)},
          {"validation", errors_of(problem, problem.split.validation)}};
}

std::string summarize(const Problem& problem, const TrainingOptions& training,
                      const train::TrainResult& result, const ordered_json& errors,
                      const RunFolder& folder) {
  std::string text = fmt::format(
      "\n{} ({} parameters), {} by {}, learning rate {:.4g}: {} in {:.2f} s\n{}\n",
      problem.model->describe(), problem.model->parameter_count(),
      count_of(static_cast<int64_t>(problem.split.train.size()), "sample"), training.method,
      result.learning_rate, count_of(result.steps, "step"), result.seconds, result.in_words());
  if (result.outcome == train::Outcome::kInterrupted) {
    text += fmt::format("cdt train --resume {} continues.\n", folder.path().string());
  }
  if (result.diverged()) return text;
  const bool classes = problem.preprocess.has_classes();
  text += fmt::format("\n  {:24}{:>14}{:>14}\n", "", "training", "validation");
  text += line(training.loss + (classes ? "" : " of scaled targets"),
               number_or_null(result.train_loss), number_or_null(result.val_loss));
  if (classes) {
    text += summarize_classes(errors);
  } else {
    for (const auto& [target, error] : errors.at("train").items()) {
      const auto& validation = errors.at("validation");
      const auto of = [&validation, &target = target](const char* key) {
        return validation.is_null() ? ordered_json() : validation.at(target).at(key);
      };
      text += line("RMS error of " + target, error.at("rmse"), of("rmse"));
      text += line("R² of " + target, error.at("r2"), of("r2"));
    }
  }
  return text + fmt::format(
                    "\n{0}: model.safetensors, preprocess.json, history.csv, "
                    "predictions.csv, run.json, report.html\nNext: cdt predict {0} NEW.csv --out "
                    "predictions.csv\n",
                    folder.path().string());
}

}  // namespace cdt::cli
