/// Your own model learns to predict new samples: some samples are held out, and their
/// loss picks the step to which it is trained on all of them. (Of a table and a network of ours,
/// walks do so: learn.h.)
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/trainer.h>

namespace cdt::study {

/// A fifth of the samples, drawn at random, becomes the validation samples; equal ones stay on one
/// side, and validation samples that are there already are left out.
/// @throws InvalidArgument if there are fewer than five samples, or all are equal.
train::TrainData hold_out(const train::TrainData& data, uint64_t seed);

/// Two trainings: of the samples that are not held out, and from the same start of all of them, to
/// the step that was best for those held out.
class HeldOutTrainer {
 public:
  /// The second one needs `refit`; the first one ends as the options say: `patience`, `steps`.
  /// @throws InvalidArgument as hold_out and train::Trainer do.
  HeldOutTrainer(kernel::Model model, train::TrainData data, train::TrainOptions options,
                 bool refit = true);

  /// To the end, or until asked to stop: in the first training the outcome is then kInterrupted; in
  /// the second one the model is put back to where the first one had ended. History and losses of
  /// held-out samples are those of the first training, the training loss is that of all samples.
  /// After an exception it goes on where it was.
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
  std::vector<torch::Tensor> start_;     ///< the model's parameters
  std::vector<torch::Tensor> selected_;  ///< likewise, where the first training ended
  train::Trainer first_;
  std::optional<train::TrainResult> found_;  ///< of the first one, if there is a second
  std::optional<train::Trainer> second_;
};

}  // namespace cdt::study
