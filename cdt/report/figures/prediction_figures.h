/// Figures of a run's predictions: the path, predictions against the truth, classes.
#pragma once

#include <cdt/report/figures/run_values.h>

namespace cdt::report {

/// "training", "held out" (for a run that predicts) or "validation", "test".
std::string name_of(RowUse use, const Record& run);

/// Losses and effective number of parameters against the decay τ; none without a path. A loss is
/// plotted at the τ with which its point was reached, so the start is not shown.
std::optional<Figure> path_figure(const Record& run);

/// Predicted against true numbers; none for classes.
std::optional<Figure> prediction_figure(const Record& run, size_t target);

/// Residuals against predictions; none for classes.
std::optional<Figure> residual_figure(const Record& run, size_t target);

/// Observed frequency against predicted probability, in bins of rows not used in training; none for
/// numbers, or if probabilities are unknown.
std::optional<Figure> reliability_figure(const Record& run, size_t target);

/// Confusion tables, if the targets of the run are classes.
std::vector<Table> confusion_tables(const Record& run);

}  // namespace cdt::report
