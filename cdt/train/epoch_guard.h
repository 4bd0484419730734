/// The guard over whole epochs: a batch cannot see what its step does to the others.
///
/// At the start of each epoch the objective of all training samples is compared with what it was an
/// epoch before. Where it rose, the parameters go back to that start, bit by bit, and the steps
/// that follow get a lower share of their rates; at low rates they are gradient descent, which
/// descends.
#pragma once

#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

namespace cdt::train {

/// The share of its rates that a step may use, by how epochs went.
class EpochShare {
 public:
  double value() const { return share_; }
  void kept();
  void taken_back();
  /// Too many epochs in a row were taken back.
  bool exhausted() const;

  void save(SavedState& state) const;
  void restore(const SavedState& state);

 private:
  double share_ = 1;
  int64_t good_ = 0;      ///< epochs in a row that were kept
  int64_t failures_ = 0;  ///< … taken back
};

class EpochGuard {
 public:
  explicit EpochGuard(std::shared_ptr<const Setup> setup) : setup_(std::move(setup)) {}

  /// At the start of an epoch, step k, with `here` of all samples; again at the same step changes
  /// nothing. False: the epoch before was taken back, and `here` is what it began with.
  bool accept(int64_t step, Whole& here);
  /// Others have moved the parameters before step k: what is taken back goes no further than that.
  void start_from(int64_t step);
  /// At any time: whether the objective is no higher than at the start of the epoch.
  bool holds(const Whole& here) const;
  const std::vector<torch::Tensor>& start() const { return start_; }  ///< parameters then
  const Whole& at_start() const { return at_start_; }

  double share() const { return share_.value(); }
  bool exhausted() const { return share_.exhausted(); }
  int64_t rejected() const { return rejected_; }  ///< steps that were taken back

  void save(SavedState& state) const;
  /// A state of before there were epoch guards has none: it begins with the next epoch.
  void restore(const SavedState& state);

 private:
  std::shared_ptr<const Setup> setup_;
  int64_t step_ = -1;  ///< of the last start; −1: none yet
  Whole at_start_;
  std::vector<torch::Tensor> start_;
  EpochShare share_;
  int64_t rejected_ = 0;
};

}  // namespace cdt::train
