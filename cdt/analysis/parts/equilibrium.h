/// Whether training stands still, and why (paper App. equilibriums).
#pragma once

#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>

namespace cdt::analysis {

/// `gradient` g [n], float64; `gradient_scale` is a gradient that counts as large, c_L‖y‖ say:
/// below tol::kStationary of it g is zero. Reachable shares below tol::kUnreachableError are, too.
/// @throws InvalidArgument if a shape does not fit, an entry is not finite, or α < 0.
Equilibrium classify_equilibrium(const dynamics::Modes& modes, const torch::Tensor& gradient,
                                 double learning_rate, double gradient_scale,
                                 int64_t outputs_per_sample);

}  // namespace cdt::analysis
