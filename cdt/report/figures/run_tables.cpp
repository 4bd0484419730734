#include <cdt/report/figures/prediction_figures.h>
#include <cdt/report/figures/run_tables.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace cdt::report {
namespace {

bool known(double value) { return !std::isnan(value); }

/// "4.12 ± 0.28": two digits of the error, and as many places of the value.
std::string with_error(double value, double error) {
  if (!(error > 0) || !std::isfinite(value) || !(std::abs(value) < 1e7) || error < 1e-6) {
    return show(value);
  }
  const int places = std::max(0, 1 - static_cast<int>(std::floor(std::log10(error))));
  return fmt::format("{:.{}f} ± {:.{}f}", value, places, error, places);
}

std::string percent(double share) {
  return known(share) ? fmt::format("{:.1f} %", 100 * share) : show(share);
}

std::string percent_with_error(double share, double error) {
  return known(error) ? fmt::format("{:.1f} ± {:.1f} %", 100 * share, 100 * error) : percent(share);
}

/// What a baseline says about a value for which less is better: within one standard error it is as
/// good.
bool no_better(double value, double error, double baseline) {
  return known(value) && known(baseline) && value + (known(error) ? error : 0) >= baseline;
}

std::string predictor_in_words(const RunRecord& run) {
  const PredictorSummary& found = *run.predictor;
  const bool path = !run.history.decay.empty();
  const std::string point = path ? fmt::format("point {} of the path", found.points)
                                 : fmt::format("epoch {}", found.points);
  const std::string decay =
      path && known(found.decay) ? fmt::format(" (decay τ = {})", show(found.decay)) : "";
  const std::string trained = found.members == 1
                                  ? "the network was trained"
                                  : fmt::format(
                                        "{} networks, whose predictions are averaged, were "
                                        "trained",
                                        found.members);
  if (found.points == 0) {
    return "No point was better on rows held out than the start, which has learned nothing.";
  }
  return fmt::format("Rows held out picked {}{}, and {} to it.", point, decay, trained);
}

}  // namespace

std::string how_it_ended(const RunRecord& run) {
  if (!run.outcome) return "It has not ended: the run lasts still, or was killed.";
  if (run.predictor) return predictor_in_words(run);
  return run.outcome->in_words.empty() ? "It ended: " + show(run.outcome->outcome)
                                       : run.outcome->in_words;
}

std::string errors_in_words(const RunRecord& run) {
  // Rows that nothing was chosen by say most.
  const bool tested = !run.test_errors.empty();
  const bool validated = !run.validation_errors.empty();
  const auto& errors = tested      ? run.test_errors
                       : validated ? run.validation_errors
                                   : run.train_errors;
  std::string text;
  for (const TargetErrors& error : errors) {
    const char* between = text.empty() ? "" : ", ";
    if (known(error.rmse)) {
      text += fmt::format("{}the RMS error of {} is {}{}", between, error.target, show(error.rmse),
                          known(error.r2) ? fmt::format(" (R² {:.3f})", error.r2) : "");
    } else if (known(error.accuracy)) {
      text += fmt::format("{}{} of {} are right", between, percent(error.accuracy), error.target);
      if (known(error.majority)) {
        text +=
            fmt::format(" (always saying the most frequent class: {})", percent(error.majority));
      }
    }
  }
  if (text.empty()) return text;
  const RowUse use = tested ? RowUse::kTest : validated ? RowUse::kValidation : RowUse::kTraining;
  const std::string rows =
      use == RowUse::kValidation && run.predicts ? "rows held out" : name_of(use, run) + " rows";
  return fmt::format("On {} {}.", rows, text);
}

namespace {

/// The sentence about simpler models.
std::string verdict_in_words(const TargetExpectation& e) {
  if (e.verdict) return e.verdict->empty() ? "" : " " + *e.verdict + ".";
  if (known(e.wrong)) {
    return no_better(e.wrong, e.wrong_error, e.majority_wrong)
               ? " Within its uncertainty the model is no better than that."
               : "";
  }
  if (no_better(e.rmse, e.rmse_error, e.mean_rmse)) {
    return " Within its uncertainty the model is no better than the mean: these rows taught "
           "nothing that holds for new ones.";
  }
  return no_better(e.rmse, e.rmse_error, e.linear_rmse)
             ? " Within its uncertainty the model is no better than the linear one."
             : "";
}

}  // namespace

std::string in_words(const TargetExpectation& e) {
  const std::string source = fmt::format("as {} rows show that were held out", e.rows);
  std::string text;
  if (known(e.wrong)) {
    text = fmt::format("On new rows expect {} to be wrong in {} of all cases", e.target,
                       percent_with_error(e.wrong, e.wrong_error));
    if (known(e.log_loss)) {
      text += fmt::format(" (log loss {})", with_error(e.log_loss, e.log_loss_error));
    }
    text += fmt::format(", {}.", source);
    if (known(e.majority_wrong)) {
      text += fmt::format(" Always saying the most frequent class: {}.", percent(e.majority_wrong));
      text += verdict_in_words(e);
    }
    return text + (e.later.empty() ? "" : " " + e.later + ".");
  }
  text = fmt::format("On new rows expect {} to be off by {} (RMS{}), {}.", e.target,
                     with_error(e.rmse, e.rmse_error),
                     known(e.r2) ? fmt::format("; R² {:.3f}", e.r2) : "", source);
  if (known(e.linear_rmse)) text += fmt::format(" A linear model: {};", show(e.linear_rmse));
  if (known(e.mean_rmse)) {
    text += fmt::format(" {}: {}.", known(e.linear_rmse) ? "the mean of the rows" : "Their mean",
                        show(e.mean_rmse));
  }
  text += verdict_in_words(e);
  return text + (e.later.empty() ? "" : " " + e.later + ".");
}

std::vector<Table> expectation_tables(const std::vector<TargetExpectation>& expected) {
  const char* note =
      "± is one standard error of the estimate, by the rows held out: two hold the truth in most "
      "tables.";
  Table numbers{"Expected RMS error on new rows, in units of the file",
                {"Target", "This model", "R²", "Linear model", "Mean", "Rows held out"},
                {},
                note};
  Table classes{"Expected share of wrong rows among new ones",
                {"Target", "This model", "Log loss", "Most frequent class", "Rows held out"},
                {},
                note};
  for (const TargetExpectation& e : expected) {
    const std::string rows = std::to_string(e.rows);
    if (known(e.wrong)) {
      classes.rows.push_back({e.target, percent_with_error(e.wrong, e.wrong_error),
                              with_error(e.log_loss, e.log_loss_error), percent(e.majority_wrong),
                              rows});
    } else {
      numbers.rows.push_back({e.target, with_error(e.rmse, e.rmse_error), show(e.r2),
                              show(e.linear_rmse), show(e.mean_rmse), rows});
    }
  }
  std::vector<Table> tables;
  if (!numbers.rows.empty()) tables.push_back(std::move(numbers));
  if (!classes.rows.empty()) tables.push_back(std::move(classes));
  return tables;
}

Table importance_table(const std::vector<ColumnImportance>& columns) {
  constexpr size_t kMostColumns = 20;
  Table table{"Columns that matter", {"Column", "Held-out loss rises by"}, {}, ""};
  for (const ColumnImportance& each : columns) {
    if (table.rows.size() == kMostColumns) break;
    table.rows.push_back({each.column, percent(each.increase)});
  }
  table.note = "When the values of the column are exchanged among the rows held out.";
  if (columns.size() > kMostColumns) {
    table.note +=
        fmt::format(" {} columns that matter less are left out.", columns.size() - kMostColumns);
  }
  return table;
}

Table errors_table(const RunRecord& run) {
  Table table{"Errors", {"Target", "Rows"}, {}, ""};
  const std::vector<std::pair<double TargetErrors::*, const char*>> all{
      {&TargetErrors::rmse, "RMS error"},
      {&TargetErrors::mae, "Mean absolute error"},
      {&TargetErrors::r2, "R²"},
      {&TargetErrors::accuracy, "Accuracy"},
      {&TargetErrors::balanced_accuracy, "Balanced accuracy"},
      {&TargetErrors::majority, "Always the most frequent class"},
      {&TargetErrors::cross_entropy, "Cross entropy"}};
  const std::vector<std::pair<RowUse, const std::vector<TargetErrors>*>> parts{
      {RowUse::kTraining, &run.train_errors},
      {RowUse::kValidation, &run.validation_errors},
      {RowUse::kTest, &run.test_errors}};
  std::vector<double TargetErrors::*> measures;
  bool units = false;
  for (const auto& [measure, title] : all) {
    const auto has = [&, of = measure](const TargetErrors& error) {
      return known(error.*of) || (of == &TargetErrors::r2 && known(error.rmse));
    };
    if (std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
          return std::any_of(part.second->begin(), part.second->end(), has);
        })) {
      measures.push_back(measure);
      table.columns.emplace_back(title);
      units = units || measure == &TargetErrors::rmse;
    }
  }
  if (units) table.title += ", in units of the file";
  const auto is_share = [](double TargetErrors::*measure) {
    return measure == &TargetErrors::accuracy || measure == &TargetErrors::balanced_accuracy ||
           measure == &TargetErrors::majority;
  };
  for (const auto& [use, errors] : parts) {
    for (const TargetErrors& error : *errors) {
      std::vector<std::string> row{error.target, name_of(use, run)};
      for (const auto measure : measures) {
        row.push_back(is_share(measure) ? percent(error.*measure) : show(error.*measure));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

/// Why a walk went no further.
std::string end_of_walk(const std::string& outcome) {
  static const std::map<std::string, std::string> kWords{
      {"early-stopping", "held-out rows gained no more"},
      {"steps", "the last point was reached"},
      {"time", "the time was up"},
      {"floor", "nothing was left to move"}};
  const auto found = kWords.find(outcome);
  return found == kWords.end() ? show(outcome) : found->second;
}

Table outcome_table(const RunRecord& run) {
  const RunOutcome outcome = run.outcome.value_or(RunOutcome{});
  Table table{
      "Outcome",
      {"", ""},
      {run.predictor ? std::vector<std::string>{"the walk ended", end_of_walk(outcome.outcome)}
                     : std::vector<std::string>{"outcome", show(outcome.outcome)}},
      ""};
  const auto add = [&](const char* name, std::string value) {
    table.rows.push_back({name, std::move(value)});
  };
  if (run.predictor) {
    const PredictorSummary& found = *run.predictor;
    const bool path = !run.history.decay.empty();
    const auto& step = run.history.step;
    add("networks", std::to_string(found.members));
    if (!step.empty()) add(path ? "points walked" : "epochs walked", show(step.back()));
    add(path ? "point picked" : "epoch picked", std::to_string(found.points));
    if (path) add("decay τ there", show(found.decay));
    if (found.temperature != 1) add("temperature of classes", show(found.temperature));
    add("training loss", show(outcome.train_loss));
    add("held-out loss", show(outcome.best_val_loss));
  } else {
    add("steps", show(outcome.steps));
    add("training loss", show(outcome.train_loss));
    add("validation loss", show(outcome.val_loss));
    add("lowest validation loss", show(outcome.best_val_loss));
    add("at step", show(outcome.best_step));
  }
  add("kernels computed", show(outcome.linearizations));
  add("steps taken back", show(outcome.rejected));
  return table;
}

}  // namespace cdt::report
