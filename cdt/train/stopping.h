/// Stopping rules: when a run ends, judged by its losses and time so far.
#pragma once

#include <cdt/train/options.h>
#include <cdt/train/result.h>
#include <cdt/train/saved_state.h>

namespace cdt::train {

/// What the rules observe before each step. NaN: not evaluated.
struct Seen {
  int64_t step = 0;
  double batch_loss = 0;         ///< loss of the samples of this step
  double train_loss = kUnknown;  ///< loss of all training samples
  double val_loss = kUnknown;
  double misfit = kUnknown;  ///< of a smoothed loss: distance above its minimum, all samples
  double seconds = 0;
};

/// Target, step limit, patience, plateau, time limit, and divergence.
class StoppingRules {
 public:
  explicit StoppingRules(const TrainOptions& options) : options_(options) {}

  struct Verdict {
    std::optional<Outcome> outcome;  ///< why to stop, if at all
    bool best = false;               ///< the lowest validation loss so far
  };
  /// Call once per step.
  Verdict check(const Seen& seen);

  int64_t best_step() const { return best_step_; }  ///< −1: none
  double best_val_loss() const { return best_val_loss_; }
  /// Whether the run should end with the weights of an earlier step.
  bool prefers_best(int64_t step) const {
    return options_.patience > 0 && best_step_ >= 0 && best_step_ < step;
  }
  /// The weights of the best step are not available: search for a new best.
  void forget_best() { best_step_ = -1; }

  void save(SavedState& state) const;
  void restore(const SavedState& state);

 private:
  TrainOptions options_;
  int64_t best_step_ = -1;
  double best_val_loss_ = kUnknown;
  int64_t plateau_step_ = 0;
  double plateau_loss_ = kUnknown;
};

}  // namespace cdt::train
