/// Trains several runs of one shape together, as batched products: for example the runs of a sweep
/// that share an architecture and differ in seeds and rates. On a GPU a small network leaves most
/// of the device idle, so as many runs as fit take little longer than one.
///
/// Each Trainer keeps its own rules, history and results; only the steps between its first and its
/// last are taken for it. Batched products round differently from single ones, and the rounding may
/// depend on the number of runs: results are reproducible for the same set of runs. The bits of one
/// run do not depend on the numbers of the others, so a run that diverges does not disturb them.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/trainer.h>

namespace cdt::train {

class Together {
 public:
  /// Whether these runs can be trained together: not started; a method that steers linearly or not
  /// at all and takes blind steps (gd, gd-matched, cdt with one linearization); all samples at each
  /// step; the same shapes, dtype, device, loss, steps and validation; no weights, weight decay or
  /// patience.
  static bool takes(const std::vector<Trainer*>& runs);

  /// `stack` holds their models, in this order; all of them must outlive it.
  /// @throws InvalidArgument if `takes` is false, or the stack holds other models.
  Together(std::vector<Trainer*> runs, kernel::Stack stack, const StrideOptions& options = {});

  /// Runs each to its end, as Trainer::run would up to rounding, or until asked to stop between two
  /// strides. The time of a stride is divided among the runs that took part in it.
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
  int64_t step_ = 1;                  ///< current step of all runs that continue
  std::vector<bool> over_;            ///< by run: it has ended, its steps are ignored
  torch::Tensor x_, y_;               ///< [K, r, …]; [K, n], float64
  torch::Tensor x_val_, y_val_;       ///< likewise
  torch::Tensor matrix_;              ///< [K, n, n] float64, if the runs are steered
  std::vector<torch::Tensor> start_;  ///< parameters at the start of the last stride
};

}  // namespace cdt::train
