/// What happened at each step, as a table and as history.csv.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cdt::train {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The state after `step` updates, and the control that was computed there. NaN: not evaluated (an
/// empty cell in the file).
struct StepRecord {
  int64_t step = 0;
  double learning_rate = kUnknown;  ///< of the step that starts here; empty in the last row
  double train_loss = kUnknown;     ///< against the true labels, of all training samples
  double val_loss = kUnknown;
  double augment_norm = kUnknown;         ///< ‖y_u‖ of the step that starts here
  double linearization_error = kUnknown;  ///< ‖ŷ − ŷ_ϑ‖
  int64_t refreshed = 0;                  ///< linearizations here
  int64_t rejected = 0;                   ///< steps from here that the guard took back
  double seconds = 0;                     ///< since training began, linearizations included
  double objective = kUnknown;  ///< of all training samples, what training lowers: the loss with
                                ///< weights, smoothing and weight decay
  double decay = kUnknown;      ///< τ of the point of a path that starts here
  double freedom = kUnknown;    ///< tr Θ(Θ + τI)⁻¹ there, the effective number of parameters
};

/// Numbers survive to the last bit.
std::string to_csv(const std::vector<StepRecord>& history);
/// @throws InvalidArgument if the text is not what to_csv writes.
std::vector<StepRecord> parse_history(const std::string& text);

}  // namespace cdt::train
