/// What a trained network predicts, in units of the file, and how far off it is.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/data/samples.h>
#include <cdt/study/problem.h>

#include <limits>
#include <optional>
#include <variant>

namespace cdt::study {

/// Of a target that is a number, in units of the file.
struct NumberErrors {
  double rmse = train::kUnknown;
  double mae = train::kUnknown;
  std::optional<double> r2;  ///< none for a constant target

  void fields(Fields& f);
};

/// Of a target that is a class.
struct ClassErrors {
  double accuracy = 0;
  double cross_entropy = 0;  ///< −log of the right class's probability, on average; NaN: not known
  std::vector<std::string> classes;
  std::vector<std::vector<int64_t>> confusion;  ///< rows by class (first index) and predicted class
  double majority = 0;           ///< share of the most frequent class: who always says it has this
  double balanced_accuracy = 0;  ///< the mean recall of the classes that have rows
  std::vector<double> recall;  ///< by class, the share of its rows that is right; NaN without rows

  void fields(Fields& f);
};

/// Fills majority, balanced accuracy and recall from the confusion.
void add_baselines(ClassErrors& errors);

struct TargetErrors {
  std::string target;
  std::variant<NumberErrors, ClassErrors> value;
};
using Errors = std::vector<TargetErrors>;
/// An object with a member for each target.
void fields(Fields& f, Errors& errors);

/// What predictions of a number are held to: no further than the targets of training rows went,
/// scaled; then in units of the file times a factor.
struct TargetCalibration {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double factor = 1;
  double line = 0;  ///< the share of the last member, a line; the others share the rest

  void fields(Fields& f);
};

/// Networks whose predictions are averaged: numbers, as networks learn them; of classes
/// probabilities.
struct Predictor {
  std::vector<nn::Network> members;
  /// Of numbers: whose mean() outputs stand for; none: they are the numbers.
  loss::LossPtr loss;
  double temperature = 1;                  ///< of classes: divides their logits
  std::vector<TargetCalibration> targets;  ///< of numbers; empty: as they come

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

/// What outputs [r, t] predict, scaled, held to the bounds of their targets.
torch::Tensor bounded(const Predictor& predictor, const torch::Tensor& outputs);

/// The probabilities [r, C] that are nearest to outputs [r, C]: none below zero, 1 in all. Outputs
/// that were fitted to 1 and 0 keep their order.
torch::Tensor nearest_probabilities(const torch::Tensor& outputs);

/// Predictions [r, t], scaled, in units of the file.
torch::Tensor from_scaled(const Predictor& predictor, const data::Preprocess& preprocess,
                          const torch::Tensor& scaled);
/// Outputs z [r, n_L] of one member as predictions in units of the file [r, t], or probabilities.
torch::Tensor in_units(const Predictor& predictor, const data::Preprocess& preprocess,
                       const torch::Tensor& outputs);

/// Whether the last member is a line with a share of its own (linear.h).
bool has_line(const Predictor& predictor);

/// The members' outputs on features x [r, F], averaged: [r, n_L], float64, on the CPU.
torch::Tensor mean_outputs(const Predictor& predictor, const torch::Tensor& x);

/// Predictions for r samples, in units of the file [r, t], float64; of classes their probabilities
/// [r, C]. Samples are asked for in blocks, so that a long file needs little memory.
/// @throws InvalidArgument, naming `source`, if one is not finite.
torch::Tensor predict_targets(const Predictor& predictor, const data::Preprocess& preprocess,
                              const data::Samples& samples, const std::string& source);

/// Predictions [r, t] against targets [r, t], both in units of the file; of classes probabilities
/// [r, C] against labels [r, C], 1 in the column of the class.
Errors measure_errors(const data::Preprocess& preprocess, const torch::Tensor& predictions,
                      const torch::Tensor& targets);
/// Of one target that is a class.
ClassErrors measure_classes(const data::Preprocess& preprocess, const torch::Tensor& probabilities,
                            const torch::Tensor& labels);

/// Predictions and targets of some rows of the problem's table.
struct RowPredictions {
  torch::Tensor predicted;
  torch::Tensor wanted;
};
RowPredictions predict_rows(const Problem& problem, const Predictor& predictor,
                            const std::vector<int64_t>& rows);

/// The name of each row's class: that of its largest entry.
std::vector<std::string> class_names(const data::Preprocess& preprocess,
                                     const torch::Tensor& scores);

}  // namespace cdt::study
