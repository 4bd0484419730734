/// When a run is over, by what it has shown so far.
#pragma once

#include <cdt/train/options.h>
#include <cdt/train/result.h>
#include <cdt/train/saved_state.h>

namespace cdt::train {

/// What the rules look at before each step. NaN: not evaluated.
struct Seen {
  int64_t step = 0;
  double batch_loss = 0;         ///< of the samples of this step
  double train_loss = kUnknown;  ///< of all
  double val_loss = kUnknown;
  double misfit = kUnknown;  ///< of a smoothed loss, above its minimum, on all samples
  double seconds = 0;
};

/// Target, step limit, patience, plateau, time limit, and divergence.
class StoppingRules {
 public:
  explicit StoppingRules(const TrainOptions& options) : options_(options) {}

  struct Verdict {
    std::optional<Outcome> outcome;  ///< why to stop, if so
    bool best = false;               ///< the lowest validation loss so far
  };
  /// Once for each step.
  Verdict check(const Seen& seen);

  int64_t best_step() const { return best_step_; }  ///< −1: none
  double best_val_loss() const { return best_val_loss_; }
  /// Whether the end should take the weights of an earlier step.
  bool prefers_best(int64_t step) const {
    return options_.patience > 0 && best_step_ >= 0 && best_step_ < step;
  }
  /// The weights of the best step are not at hand: look for another.
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
