/// Steps that are taken blind: one after the other on the device, and looked at together.
///
/// A step that the host looks at waits for the device, and the device for the host: on a GPU that
/// takes ten times as long as the step itself. So a stride takes many steps, leaves their numbers
/// on the device and reads them once. A run that should have ended within it goes
/// back to where the stride began and takes fewer: to the same bits, since a step is always the
/// same operations.
#pragma once

#include <cdt/train/method.h>
#include <cdt/train/stride_player.h>

namespace cdt::train {

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
  void prepare(int64_t step);
  void step();
  void validate();

  std::shared_ptr<const Setup> setup_;
  StepMethod& method_;
  StridePlayer player_;
  int64_t linearizations_ = -1;  ///< for which it is prepared
  bool steers_ = false;          ///< the last of its numbers is ‖y_u‖
  torch::Tensor weights_;
  std::vector<torch::Tensor> start_;  ///< parameters where the last stride began
};

}  // namespace cdt::train
