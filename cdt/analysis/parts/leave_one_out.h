/// What the kernel says of new rows before anything is trained.
#pragma once

#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>

namespace cdt::analysis {

/// For the network's first outputs, corrected by kernel regression, ŷ + Θ(Θ + τI)⁻¹(y − ŷ):
/// exact, without solving the n smaller problems. For labels y and outputs ŷ [n], float64, of
/// one output a sample; `modes` must be complete.
/// @throws InvalidArgument if modes are missing or there are fewer than two rows.
LeaveOneOut leave_one_out(const dynamics::Modes& modes, const torch::Tensor& labels,
                          const torch::Tensor& outputs);

}  // namespace cdt::analysis
