/// The guard over whole epochs, for batches: a batch cannot see what its step does to the others.
///
/// At the start of each epoch, the guard compares the objective of all training samples with its
/// value one epoch earlier. If it rose, the parameters are reset to that earlier start, bit by bit,
/// and the following steps use a smaller share of their rates. At low rates the steps are gradient
/// descent, which lowers the objective.
#pragma once

#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

namespace cdt::train {

/// The share of their rates that steps may use. It falls with each rejected epoch and recovers with
/// accepted ones.
class EpochShare {
 public:
  double value() const { return share_; }
  void kept();
  void taken_back();
  /// Too many consecutive epochs were rejected.
  bool exhausted() const;

  void save(SavedState& state) const;
  void restore(const SavedState& state);

 private:
  double share_ = 1;
  int64_t good_ = 0;      ///< consecutive accepted epochs
  int64_t failures_ = 0;  ///< consecutive rejected epochs
};

class EpochGuard {
 public:
  explicit EpochGuard(std::shared_ptr<const Setup> setup) : setup_(std::move(setup)) {}

  /// Call at the start of an epoch, at step k, with the values `here` of all samples; repeated
  /// calls for one step change nothing. Returns false if the last epoch was rejected: the
  /// parameters and `here` are then those of its start.
  bool accept(int64_t step, Whole& here);
  /// Call if the caller moved the parameters before step k: a rejection resets to these parameters,
  /// not to older ones.
  void start_from(int64_t step);
  /// Whether the objective is no higher than at the start of the epoch. Can be called at any time.
  bool holds(const Whole& here) const;
  const std::vector<torch::Tensor>& start() const { return start_; }  ///< their parameters
  const Whole& at_start() const { return at_start_; }

  double share() const { return share_.value(); }
  bool exhausted() const { return share_.exhausted(); }
  int64_t rejected() const { return rejected_; }  ///< rejected steps

  void save(SavedState& state) const;
  /// Checkpoints from before epoch guards existed have no such state; the guard then starts with
  /// the next epoch.
  void restore(const SavedState& state);

 private:
  std::shared_ptr<const Setup> setup_;
  int64_t step_ = -1;  ///< step of the last start; −1: none yet
  Whole at_start_;
  std::vector<torch::Tensor> start_;
  EpochShare share_;
  int64_t rejected_ = 0;
};

}  // namespace cdt::train
