/// Trains a user-defined model for prediction: some samples are held out, and their loss selects
/// the step up to which it is trained on all samples. (For tables and built-in networks see
/// learn.h.)
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/trainer.h>

namespace cdt::study {

/// Draws a fifth of the samples at random as validation samples; equal samples stay on one side.
/// Drops existing validation samples.
/// @throws InvalidArgument if there are fewer than five samples, or all are equal.
train::TrainData hold_out(const train::TrainData& data, uint64_t seed);

/// Trains twice from the same start: without the held-out samples, then on all samples up to the
/// step that was best for those held out.
class HeldOutTrainer {
 public:
  /// The second training requires `refit`; the first ends as given by `patience` and `steps`.
  /// @throws InvalidArgument as hold_out and train::Trainer do.
  HeldOutTrainer(kernel::Model model, train::TrainData data, train::TrainOptions options,
                 bool refit = true);

  /// Trains to the end, or until asked to stop. Stopped in the first training, the outcome is
  /// kInterrupted; in the second, the model is restored to the end of the first. History and
  /// held-out losses are those of the first training, the training loss is that of all samples.
  /// After an exception a further call continues.
  /// @throws NumericalError as train::Trainer does.
  train::TrainResult run(const train::TrainHooks& selection = {},
                         const train::TrainHooks& refit = {});

 private:
  void put(const std::vector<torch::Tensor>& values) const;
  std::vector<torch::Tensor> values() const;

  kernel::Model model_;
  train::TrainData data_;
  train::TrainOptions options_;
  bool refit_;
  std::vector<torch::Tensor> start_;     ///< initial parameters of the model
  std::vector<torch::Tensor> selected_;  ///< parameters at the end of the first training
  train::Trainer first_;
  std::optional<train::TrainResult> found_;  ///< result of the first training, if there is a second
  std::optional<train::Trainer> second_;
};

}  // namespace cdt::study
