/// What happened at each step, as a table and as history.csv.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cdt::train {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The state after `step` updates, and the control computed there. NaN means not evaluated (an
/// empty cell in the file).
struct StepRecord {
  int64_t step = 0;
  double learning_rate = kUnknown;  ///< rate of the step that starts here; empty in the last row
  double train_loss = kUnknown;     ///< all training samples, true labels
  double val_loss = kUnknown;
  double augment_norm = kUnknown;         ///< ‖y_u‖ of the step that starts here
  double linearization_error = kUnknown;  ///< ‖ŷ − ŷ_ϑ‖
  int64_t refreshed = 0;                  ///< linearizations computed at this step
  int64_t rejected = 0;                   ///< steps from here that the guard rejected
  double seconds = 0;                     ///< since training began, linearizations included
  double objective = kUnknown;  ///< what training minimizes, on all training samples: the loss with
                                ///< weights, smoothing and weight decay
  double decay = kUnknown;      ///< τ of the step of a decay path that starts here
  double freedom = kUnknown;  ///< tr Θ(Θ + τI)⁻¹ at that step, the effective number of parameters
};

/// Numbers are written exactly: parse_history returns the same bits.
std::string to_csv(const std::vector<StepRecord>& history);
/// @throws InvalidArgument if the text does not have the format of to_csv.
std::vector<StepRecord> parse_history(const std::string& text);

}  // namespace cdt::train
