#include <cdt/report/figures/prediction_figures.h>
#include <cdt/report/figures/run_tables.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace cdt::report {
namespace {

bool known(double value) { return !std::isnan(value); }

/// "4.12 ± 0.28": two digits of the error, and as many decimals of the value.
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

std::string predictor_in_words(const Record& run) {
  const study::RunPrediction& found = *run.prediction;
  const bool path = walks_path(run);
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

std::string how_it_ended(const Record& run) {
  if (!run.result) return "It has not ended: the run lasts still, or was killed.";
  if (run.prediction) return predictor_in_words(run);
  return run.in_words.empty() ? "It ended: " + train::to_string(run.result->outcome) : run.in_words;
}

std::string errors_in_words(const Record& run) {
  // Prefers rows that were not used for any choice.
  RowUse use = RowUse::kTest;
  if (errors_of(run, use).empty()) use = RowUse::kValidation;
  if (errors_of(run, use).empty()) use = RowUse::kTraining;
  std::string text;
  for (const study::TargetErrors& error : errors_of(run, use)) {
    const char* between = text.empty() ? "" : ", ";
    const double rmse = measured(error, "rmse"), r2 = measured(error, "r2");
    const double accuracy = measured(error, "accuracy");
    const double majority = measured(error, "majority");
    if (known(rmse)) {
      text += fmt::format("{}the RMS error of {} is {}{}", between, error.target, show(rmse),
                          known(r2) ? fmt::format(" (R² {:.3f})", r2) : "");
    } else if (known(accuracy)) {
      text += fmt::format("{}{} of {} are right", between, percent(accuracy), error.target);
      if (known(majority)) {
        text += fmt::format(" (always saying the most frequent class: {})", percent(majority));
      }
    }
  }
  if (text.empty()) return text;
  const std::string rows =
      use == RowUse::kValidation && predicts(run) ? "rows held out" : name_of(use, run) + " rows";
  return fmt::format("On {} {}.", rows, text);
}

std::string in_words(const study::Expectation& e) {
  const bool classes = known(e.majority_wrong);
  const std::string source = fmt::format("as {} rows show that were held out", e.rows);
  std::string text;
  if (classes) {
    text = fmt::format("On new rows expect {} to be wrong in {} of all cases", e.target,
                       percent_with_error(e.wrong.value, e.wrong.error));
    if (known(e.log_loss.value)) {
      text += fmt::format(" (log loss {})", with_error(e.log_loss.value, e.log_loss.error));
    }
    text += fmt::format(", {}. Always saying the most frequent class: {}.", source,
                        percent(e.majority_wrong));
  } else {
    text = fmt::format("On new rows expect {} to be off by {} (RMS{}), {}.", e.target,
                       with_error(e.rmse.value, e.rmse.error),
                       known(e.r2) ? fmt::format("; R² {:.3f}", e.r2) : "", source);
    if (known(e.linear_rmse)) text += fmt::format(" A linear model: {};", show(e.linear_rmse));
    if (known(e.mean_rmse)) {
      text += fmt::format(" {}: {}.", known(e.linear_rmse) ? "the mean of the rows" : "Their mean",
                          show(e.mean_rmse));
    }
  }
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) text += " " + sentence + ".";
  };
  add(study::verdict_of(e));
  if (e.later) add(study::to_text(*e.later, classes));
  return text;
}

std::vector<Table> expectation_tables(const std::vector<study::Expectation>& expected) {
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
  for (const study::Expectation& e : expected) {
    const std::string rows = std::to_string(e.rows);
    if (known(e.majority_wrong)) {
      classes.rows.push_back({e.target, percent_with_error(e.wrong.value, e.wrong.error),
                              with_error(e.log_loss.value, e.log_loss.error),
                              percent(e.majority_wrong), rows});
    } else {
      numbers.rows.push_back({e.target, with_error(e.rmse.value, e.rmse.error), show(e.r2),
                              show(e.linear_rmse), show(e.mean_rmse), rows});
    }
  }
  std::vector<Table> tables;
  if (!numbers.rows.empty()) tables.push_back(std::move(numbers));
  if (!classes.rows.empty()) tables.push_back(std::move(classes));
  return tables;
}

Table importance_table(const std::vector<study::Importance>& columns) {
  constexpr size_t kMostColumns = 20;
  Table table{"Columns that matter", {"Column", "Held-out loss rises by"}, {}, ""};
  for (const study::Importance& each : columns) {
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

Table errors_table(const Record& run) {
  Table table{"Errors", {"Target", "Rows"}, {}, ""};
  struct Shown {
    const char *measure, *title;
    bool share = false;
  };
  constexpr std::array kAll{Shown{"rmse", "RMS error"},
                            Shown{"mae", "Mean absolute error"},
                            Shown{"r2", "R²"},
                            Shown{"accuracy", "Accuracy", true},
                            Shown{"balanced_accuracy", "Balanced accuracy", true},
                            Shown{"majority", "Always the most frequent class", true},
                            Shown{"cross_entropy", "Cross entropy"}};
  constexpr std::array kUses{RowUse::kTraining, RowUse::kValidation, RowUse::kTest};
  std::vector<Shown> measures;
  for (const Shown& each : kAll) {
    // R² is undefined for a constant target.
    const char* proof = std::string_view(each.measure) == "r2" ? "rmse" : each.measure;
    const bool has = std::any_of(kUses.begin(), kUses.end(), [&](RowUse use) {
      const study::Errors& errors = errors_of(run, use);
      return std::any_of(errors.begin(), errors.end(),
                         [&](const auto& error) { return known(measured(error, proof)); });
    });
    if (!has) continue;
    measures.push_back(each);
    table.columns.emplace_back(each.title);
    if (&each == &kAll.front()) {
      table.title += ", in units of the file";
    }
  }
  for (const RowUse use : kUses) {
    for (const study::TargetErrors& error : errors_of(run, use)) {
      std::vector<std::string> row{error.target, name_of(use, run)};
      for (const auto& [measure, title, share] : measures) {
        const double value = measured(error, measure);
        row.push_back(share ? percent(value) : show(value));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

/// Why a path ended.
std::string end_of_walk(train::Outcome outcome) {
  switch (outcome) {
    case train::Outcome::kEarlyStopping:
      return "held-out rows gained no more";
    case train::Outcome::kSteps:
      return "the last point was reached";
    case train::Outcome::kTime:
      return "the time was up";
    case train::Outcome::kFloor:
      return "nothing was left to move";
    default:
      return train::to_string(outcome);
  }
}

Table outcome_table(const Record& run) {
  const train::TrainResult result = run.result.value_or(train::TrainResult());
  Table table{
      "Outcome",
      {"", ""},
      {run.prediction ? std::vector<std::string>{"the path ended", end_of_walk(result.outcome)}
                      : std::vector<std::string>{"outcome", train::to_string(result.outcome)}},
      ""};
  const auto add = [&](const char* name, std::string value) {
    table.rows.push_back({name, std::move(value)});
  };
  if (run.prediction) {
    const study::RunPrediction& found = *run.prediction;
    const bool path = walks_path(run);
    add("networks", std::to_string(found.members));
    if (!run.history.empty()) {
      add(path ? "points taken" : "epochs taken",
          show(static_cast<double>(run.history.back().step)));
    }
    add(path ? "point picked" : "epoch picked", std::to_string(found.points));
    if (path) add("decay τ there", show(found.decay));
    if (found.temperature != 1) add("temperature of classes", show(found.temperature));
    add("training loss", show(result.train_loss));
    add("held-out loss", show(result.best_val_loss));
  } else {
    add("steps", std::to_string(result.steps));
    add("training loss", show(result.train_loss));
    add("validation loss", show(result.val_loss));
    add("lowest validation loss", show(result.best_val_loss));
    add("at step", result.best_step < 0 ? show("") : std::to_string(result.best_step));
  }
  add("kernels computed", std::to_string(result.linearizations));
  add("steps taken back", std::to_string(result.rejected));
  return table;
}

Table controller_table(const control::Certificate& controller) {
  Table table{"The controller that took the first step", {"", ""}, {}, ""};
  if (controller.empty()) return table;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) table.rows.push_back({name, value});
  };
  const auto bounds = [](const control::Known& number) -> std::string {
    if (number.exact()) return show(number.value);
    if (!number.bounded()) return "";
    if (!(number.upper < std::numeric_limits<double>::infinity())) {
      return "at least " + show(number.lower);
    }
    return fmt::format("between {} and {}", show(number.lower), show(number.upper));
  };
  const auto given = [](double value) { return std::isnan(value) ? std::string() : show(value); };
  add("controller", controller.controller);
  add("makes least", controller.optimal);
  add("gain of slow errors", given(controller.gain));
  add("left of the slowest error by a step", bounds(controller.radius));
  add("stable while the kernel grows by less than", bounds(controller.kernel_margin));
  add("no error changes its sign below", bounds(controller.overshoot_margin));
  add("stable for label augments scaled by", bounds(controller.gain_margin));
  add("residual of its equation", given(controller.residual));
  add("digest", controller.digest);
  return table;
}

}  // namespace cdt::report
