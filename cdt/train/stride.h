/// Blind steps: a stride takes many steps on the device, one after another, and reads their results
/// together.
///
/// A step whose result the host reads makes host and device wait for each other, which on a GPU
/// takes ten times as long as the step itself. A stride leaves the numbers of its steps on the
/// device and reads them once. If the run should have ended within a stride, the parameters are
/// reset to its start and fewer steps are taken, with the same bits, since a step always performs
/// the same operations.
#pragma once

#include <cdt/train/method.h>
#include <cdt/train/stride_player.h>

namespace cdt::train {

/// The results of one step of a stride, before it moved the parameters.
struct BlindRow {
  Measured at;
  double rate = kUnknown;
  double val_loss = kUnknown;
  double augment_norm = kUnknown;
};

/// The strides of a run.
class Strides {
 public:
  /// `method` must have blind steps and outlive this object.
  Strides(std::shared_ptr<const Setup> setup, StepMethod& method, const StrideOptions& options);

  /// How many steps can be taken blind from step k on: 0, or 2 and more.
  int64_t length(int64_t step) const;
  /// Takes `count` steps from step k on.
  std::vector<BlindRow> take(int64_t step, int64_t count);
  /// Resets to the start of the last stride and repeats `count` of its steps.
  void retake(int64_t count);
  /// Takes `count` more of them, after `retake`.
  void go_on(int64_t count);

 private:
  void prepare(int64_t step);
  void step();
  void validate();

  std::shared_ptr<const Setup> setup_;
  StepMethod& method_;
  StridePlayer player_;
  int64_t linearizations_ = -1;  ///< linearization count for which the steps were prepared
  bool steers_ = false;          ///< the last number of a step is ‖y_u‖
  torch::Tensor weights_;
  std::vector<torch::Tensor> start_;  ///< parameters at the start of the last stride
};

}  // namespace cdt::train
