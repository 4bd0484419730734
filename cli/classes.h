/// Classes as results: how good predictions are, and how they are written and told.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/problem.h"

namespace cdt::cli {

/// Of probabilities [r, C] against labels [r, C], 1 in the column of the class: {"accuracy",
/// "cross_entropy", "classes", "confusion"}; confusion [C][C] counts rows by class (first index)
/// and predicted class.
nlohmann::ordered_json measure_classes(const data::Preprocess& preprocess,
                                       const torch::Tensor& probabilities,
                                       const torch::Tensor& labels);

/// The name of each row's class: that of its largest entry.
std::vector<std::string> class_names(const data::Preprocess& preprocess,
                                     const torch::Tensor& scores);

/// ",P(kind=flat),P(kind=house)": a column of probabilities for each class.
std::string probability_columns(const data::Preprocess& preprocess);
/// ",0.9,0.1" for row i of predictions.
std::string value_cells(const torch::Tensor& predictions, int64_t i);

/// Lines of train's summary: accuracies, and the confusion of validation (else training) rows,
/// unless the classes are too many. `errors` is that of run.json.
std::string summarize_classes(const nlohmann::ordered_json& errors);

/// A warning for each class that no training row has.
std::vector<std::string> classes_without_rows(const Problem& problem);

}  // namespace cdt::cli
