/// How a training run ended, and its final numbers.
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/core/error.h>
#include <cdt/train/history.h>

#include <string>
#include <string_view>

namespace cdt::train {

enum class Outcome {
  kTarget,         ///< the training loss (above its minimum, for smoothed labels) reached stop_loss
  kFloor,          ///< only rounding errors are left, and errors that no label can move
  kStuck,          ///< no step, and no pair of steps, lowers the loss, although labels could
  kEarlyStopping,  ///< the validation loss did not improve for `patience` steps
  kPlateau,        ///< the training loss did not improve for `plateau` steps
  kSteps,          ///< the step limit
  kTime,           ///< the time limit
  kInterrupted,    ///< the caller asked to stop; the checkpoint hook was called
  kStopped,        ///< a Python callback asked to stop
  kDiverged,       ///< the training loss is no longer finite
};
std::string to_string(Outcome outcome);
/// @throws InvalidArgument on another name.
Outcome parse_outcome(std::string_view name);

struct TrainResult {
  Outcome outcome = Outcome::kSteps;
  int64_t steps = 0;
  double train_loss = kUnknown;  ///< with the model's final weights
  double val_loss = kUnknown;
  double objective = kUnknown;  ///< likewise; under a guard no higher than in the first row
  int64_t best_step = -1;       ///< step with the lowest validation loss; −1: none
  double best_val_loss = kUnknown;
  bool best_kept = false;  ///< the model has the weights of the best step instead of the last
  int64_t linearizations = 0;
  int64_t rejected = 0;
  std::string form;                 ///< solver of the steps ("dual", …); empty: none
  std::string form_why;             ///< why this solver was chosen
  double learning_rate = kUnknown;  ///< α at the first step
  /// Certificate of the controller that took the first step; empty if none did.
  control::Certificate controller{};
  double seconds = 0;
  std::vector<StepRecord> history;

  bool diverged() const { return outcome == Outcome::kDiverged; }
  /// A few sentences: how the run ended, what it cost, what to check.
  std::string in_words() const;
};

}  // namespace cdt::train
