/// What the kernel says of new rows before anything is trained: kernel regression with each row
/// left out in turn.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

namespace cdt::analysis {

/// Mean squares of errors, in units of the labels.
struct LeaveOneOut {
  double decay = 0;    ///< τ, the best of a grid from 10⁻⁶ to 10² mean eigenvalues
  double freedom = 0;  ///< tr Θ(Θ + τI)⁻¹, the effective number of parameters there
  double error = 0;    ///< of rows that were left out
  double fitted = 0;   ///< of the same rows where they were learned
  double mean = 0;     ///< of the mean of the other labels, the simplest model
  double outputs = 0;  ///< of the network's outputs as they are

  double r2() const { return mean > 0 ? 1 - error / mean : 0; }
  /// For the present outputs: hardly above 0 for a network that has not seen the labels. One
  /// that has carries them in outputs and kernel, and leaving a row out does not take it away.
  double outputs_r2() const { return mean > 0 ? 1 - outputs / mean : 0; }
};

/// For the network's first outputs, corrected by kernel regression, ŷ + Θ(Θ + τI)⁻¹(y − ŷ):
/// exact, without solving the n smaller problems. For labels y and outputs ŷ [n], float64, of
/// one output a sample; `modes` must be complete.
/// @throws InvalidArgument if modes are missing or there are fewer than two rows.
LeaveOneOut leave_one_out(const dynamics::Modes& modes, const torch::Tensor& labels,
                          const torch::Tensor& outputs);

}  // namespace cdt::analysis
