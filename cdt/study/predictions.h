/// Predictions of a trained network in units of the file, and their errors.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/data/samples.h>
#include <cdt/study/problem.h>

#include <limits>
#include <optional>
#include <variant>

namespace cdt::study {

/// Errors of a numeric target, in units of the file.
struct NumberErrors {
  double rmse = train::kUnknown;
  double mae = train::kUnknown;
  std::optional<double> r2;  ///< none for a constant target

  void fields(Fields& f);
};

/// Errors of a class target.
struct ClassErrors {
  double accuracy = 0;
  double cross_entropy = 0;  ///< mean −log of the right class's probability; NaN: unknown
  std::vector<std::string> classes;
  std::vector<std::vector<int64_t>> confusion;  ///< rows by class (first index) and predicted class
  double majority = 0;           ///< share of the most frequent class: the accuracy of always
                                 ///< predicting it
  double balanced_accuracy = 0;  ///< the mean recall of the classes that have rows
  std::vector<double> recall;  ///< by class, the share of its rows predicted correctly; NaN without
                               ///< rows

  void fields(Fields& f);
};

/// Computes majority, balanced accuracy and recall from the confusion matrix.
void add_baselines(ClassErrors& errors);

struct TargetErrors {
  std::string target;
  std::variant<NumberErrors, ClassErrors> value;
};
using Errors = std::vector<TargetErrors>;
/// An object with one member per target.
void fields(Fields& f, Errors& errors);

/// Calibration of a numeric target: predictions are clamped to the range of the training targets,
/// scaled, then multiplied by a factor in units of the file.
struct TargetCalibration {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double factor = 1;
  double line = 0;  ///< share of the last member, a linear model; the others share the rest

  void fields(Fields& f);
};

/// Networks whose predictions are averaged: numbers in scaled units, classes as probabilities.
struct Predictor {
  std::vector<nn::Network> members;
  /// For numbers: the loss whose mean() converts outputs; none: outputs are the numbers.
  loss::LossPtr loss;
  double temperature = 1;                  ///< for classes: divides their logits
  std::vector<TargetCalibration> targets;  ///< for numbers; empty: no calibration

  Predictor() = default;
  Predictor(nn::Network model, loss::LossPtr of = nullptr)  // NOLINT: a network *is* one
      : members{std::move(model)}, loss(std::move(of)) {}

  torch::Tensor mean(const torch::Tensor& outputs) const {
    return loss ? loss->mean(outputs) : outputs;
  }
  torch::Tensor spread(const torch::Tensor& mean) const {
    return loss ? loss->spread(mean) : torch::ones_like(mean);
  }
  double least_target() const {
    return loss ? loss->traits().least_target : -std::numeric_limits<double>::infinity();
  }
};

/// Scaled predictions from outputs [r, t], clamped to the bounds of their targets.
torch::Tensor bounded(const Predictor& predictor, const torch::Tensor& outputs);

/// The probabilities [r, C] nearest to outputs [r, C]: non-negative, with sum 1. Outputs that were
/// fitted to 1 and 0 keep their order.
torch::Tensor nearest_probabilities(const torch::Tensor& outputs);

/// Converts scaled predictions [r, t] to units of the file.
torch::Tensor from_scaled(const Predictor& predictor, const data::Preprocess& preprocess,
                          const torch::Tensor& scaled);
/// Converts outputs z [r, n_L] of one member to predictions in units of the file [r, t], or
/// probabilities.
torch::Tensor in_units(const Predictor& predictor, const data::Preprocess& preprocess,
                       const torch::Tensor& outputs);

/// Whether the last member is a linear model with its own share (linear.h).
bool has_line(const Predictor& predictor);

/// Outputs on features x [r, F], averaged over members: [r, n_L], float64, on the CPU.
torch::Tensor mean_outputs(const Predictor& predictor, const torch::Tensor& x);

/// Predictions for r samples, in units of the file [r, t], float64; for classes probabilities [r,
/// C]. Loads samples in blocks, so a long file needs little memory.
/// @throws InvalidArgument, naming `source`, if a prediction is not finite.
torch::Tensor predict_targets(const Predictor& predictor, const data::Preprocess& preprocess,
                              const data::Samples& samples, const std::string& source);

/// Errors of predictions [r, t] against targets [r, t], both in units of the file; for classes
/// probabilities [r, C] against one-hot labels [r, C].
Errors measure_errors(const data::Preprocess& preprocess, const torch::Tensor& predictions,
                      const torch::Tensor& targets);
/// Errors of a single class target.
ClassErrors measure_classes(const data::Preprocess& preprocess, const torch::Tensor& probabilities,
                            const torch::Tensor& labels);

/// Predictions and targets of some rows of the problem's table.
struct RowPredictions {
  torch::Tensor predicted;
  torch::Tensor wanted;
};
RowPredictions predict_rows(const Problem& problem, const Predictor& predictor,
                            const std::vector<int64_t>& rows);

/// Name of each row's class, the one with the largest score.
std::vector<std::string> class_names(const data::Preprocess& preprocess,
                                     const torch::Tensor& scores);

}  // namespace cdt::study
