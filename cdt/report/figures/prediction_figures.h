/// The figures of what a run predicts: the path to it, predictions beside the truth, classes.
#pragma once

#include <cdt/report/figures/run_values.h>

namespace cdt::report {

/// "training", "held out" (of a run that predicts) or "validation", "test".
std::string name_of(RowUse use, const Record& run);

/// Losses and effective number of parameters against the decay τ; none if the run walked no path.
/// A loss stands at the τ under which its point was reached, the start therefore nowhere.
std::optional<Figure> path_figure(const Record& run);

/// Predicted against true numbers; none of classes.
std::optional<Figure> prediction_figure(const Record& run, size_t target);

/// What is left of the truth, against the prediction; none of classes.
std::optional<Figure> residual_figure(const Record& run, size_t target);

/// How often what was predicted with some probability was so, in bins of rows that did not train;
/// none of numbers, or where probabilities are not known.
std::optional<Figure> reliability_figure(const Record& run, size_t target);

/// How often each class was taken for which, where the targets of the run are classes.
std::vector<Table> confusion_tables(const Record& run);

}  // namespace cdt::report
