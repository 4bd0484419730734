/// Runs of one shape that take their steps together, as batched products: the runs of a sweep, say,
/// of one architecture with other seeds and rates. On a GPU a small network leaves most of the
/// device idle, and as many as fit take little longer than one.
///
/// Rules, history and results are each Trainer's own: only the steps between its first and its end
/// are taken for it. Batched products round in another order than single ones, and the order may
/// depend on how many runs there are: the same bits come from the same runs together. Those of one
/// run do not depend on the others' numbers, though: one that diverges does not disturb them.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/trainer.h>

namespace cdt::train {

class Together {
 public:
  /// Whether these runs can be trained together: not started, by a method that steers linearly or
  /// not at all and never looks (gd, gd-matched, cdt with one linearization), on all samples,
  /// with the same shapes, dtype, device, loss, steps and validation; without weights, weight decay
  /// and patience.
  static bool takes(const std::vector<Trainer*>& runs);

  /// `stack` is of their models, in this order, all of which must outlive it.
  /// @throws InvalidArgument if it does not take them, or the stack is of other models.
  Together(std::vector<Trainer*> runs, kernel::Stack stack, const StrideOptions& options = {});

  /// Each to its end, as Trainer::run would take it to rounding; or until asked to stop, between
  /// two strides. A stride's seconds are shared by the runs that took part in it.
  /// @throws NumericalError as Trainer::step.
  std::vector<TrainResult> run(const std::function<bool()>& stop_requested = {});

 private:
  const Setup& setup(size_t k) const { return *runs_[k]->setup_; }
  bool begin(const std::function<bool()>& stop_requested);
  void gather();
  void step();
  void validate();
  void stride();
  void hand_back(size_t k);

  std::vector<Trainer*> runs_;
  kernel::Stack stack_;
  StridePlayer player_;
  int64_t step_ = 1;                  ///< of all that go on
  std::vector<bool> over_;            ///< by run: its steps are not of interest any more
  torch::Tensor x_, y_;               ///< [K, r, …]; [K, n], float64
  torch::Tensor x_val_, y_val_;       ///< likewise
  torch::Tensor matrix_;              ///< [K, n, n] float64, of runs that are steered
  std::vector<torch::Tensor> start_;  ///< parameters where the last stride began
};

}  // namespace cdt::train
