/// Steps that are taken blind: one after the other on the device, and looked at together.
///
/// A step that the host looks at waits for the device, and the device for the host: on a GPU that
/// takes ten times as long as the step itself. So a stride takes many steps, leaves their numbers
/// on the device and reads them once. Whoever finds that the run should have ended within it goes
/// back to where the stride began and takes fewer: to the same bits, since a step is always the
/// same operations.
#pragma once

#include <cdt/kernel/playback.h>
#include <cdt/train/method.h>

namespace cdt::train {

struct StrideOptions {
  /// Steps between two looks; 0: on a GPU as many as take some twentieth of a second, at most 256;
  /// elsewhere, where looking is free, 1.
  int64_t most = 0;
  /// Steps on a GPU are recorded as a CUDA graph, and played back.
  bool record = true;
};

/// What a step of a stride showed, before the parameters moved.
struct BlindRow {
  Measured at;
  double rate = kUnknown;
  double val_loss = kUnknown;
  double augment_norm = kUnknown;
};

/// The strides of a run.
class Strides {
 public:
  /// Of a method that goes with the trainer, as they do.
  Strides(std::shared_ptr<const Setup> setup, StepMethod& method, const StrideOptions& options);

  /// How many steps can be taken from step k on without looking: 0, or 2 and more.
  int64_t length(int64_t step) const;
  /// Takes them.
  std::vector<BlindRow> take(int64_t step, int64_t count);
  /// Back to where the last stride began, and `count` of its steps again.
  void retake(int64_t count);
  /// `count` more of them, after `retake`.
  void go_on(int64_t count);

 private:
  enum Sequences : size_t { kStep, kValidate };

  void prepare(int64_t step);
  void step();
  void validate();
  int64_t unbroken(int64_t step, int64_t end) const;
  void pace(int64_t count, double seconds);

  std::shared_ptr<const Setup> setup_;
  StepMethod& method_;
  StrideOptions options_;
  int64_t pace_;                 ///< steps of the next stride, if nothing else limits them
  bool rehearsed_ = false;       ///< the first stride is not timed
  int64_t together_ = 1;         ///< steps that are played as one
  int64_t linearizations_ = -1;  ///< of which `playback_` is
  bool steers_ = false;          ///< the last of its numbers is ‖y_u‖
  torch::Tensor weights_;
  torch::Tensor plan_;        ///< [capacity, 2]: rate and 1 − shrink of each step
  torch::Tensor now_;         ///< [1]: which step it is
  torch::Tensor rows_;        ///< [capacity, k]: the numbers of each; k is known after the first
  torch::Tensor validation_;  ///< [capacity, k] likewise
  std::vector<torch::Tensor> start_;  ///< parameters where the last stride began
  std::unique_ptr<kernel::Playback> playback_;
};

}  // namespace cdt::train
