/// How a training run ended, and what it took.
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/core/error.h>
#include <cdt/train/history.h>

#include <string>
#include <string_view>

namespace cdt::train {

enum class Outcome {
  kTarget,         ///< the training loss (above its minimum, for smoothed labels) reached stop_loss
  kFloor,          ///< nothing is left but rounding, and errors that no label can move
  kStuck,          ///< no step, nor two in a row, helps any more, though labels could
  kEarlyStopping,  ///< the validation loss did not improve for `patience` steps
  kPlateau,        ///< the training loss did not improve for `plateau` steps
  kSteps,          ///< the step limit
  kTime,           ///< the time limit
  kInterrupted,    ///< the caller asked to stop; a checkpoint was handed out
  kStopped,        ///< likewise, by what it had seen of the steps: a callback of Python's
  kDiverged,       ///< the training loss is no longer finite
};
std::string to_string(Outcome outcome);
/// @throws InvalidArgument on another name.
Outcome parse_outcome(std::string_view name);

struct TrainResult {
  Outcome outcome = Outcome::kSteps;
  int64_t steps = 0;
  double train_loss = kUnknown;  ///< of the weights that the model now has
  double val_loss = kUnknown;
  double objective = kUnknown;  ///< likewise; under a guard no higher than in the first row
  int64_t best_step = -1;       ///< with the lowest validation loss seen; −1: none
  double best_val_loss = kUnknown;
  bool best_kept = false;  ///< the model has the weights of the best step, not of the last
  int64_t linearizations = 0;
  int64_t rejected = 0;
  std::string form;                 ///< how steps were solved ("dual", …); empty: nothing was
  std::string form_why;             ///< why so
  double learning_rate = kUnknown;  ///< α at the first step
  /// Certificate of the controller that took the first step; empty if none did.
  control::Certificate controller{};
  double seconds = 0;
  std::vector<StepRecord> history;

  bool diverged() const { return outcome == Outcome::kDiverged; }
  /// A few sentences: how it ended, what it took, what to look at.
  std::string in_words() const;
};

}  // namespace cdt::train
