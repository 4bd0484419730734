/// Detectability for a singular Q: every mode that gradient descent does not damp must have a cost
/// (footnote to paper eq. LQC).
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

namespace cdt::control {

struct Detectability {
  bool detectable = true;
  int64_t unseen = 0;       ///< directions with |1 − s| ≥ 1 that have no weight in Q
  double worst_factor = 0;  ///< 1 − s of the fastest of them
};

/// Checks (A, Q) for A = I − S, S = step_scale·Θ, on the reachable subspace, Q [n, n] PSD. Equal
/// eigenvalues are treated together: Q must not vanish on any direction of their common eigenspace.
/// @throws InvalidArgument if Q is not symmetric PSD of the spectrum's size, or step_scale < 0.
Detectability assess_detectability(const dynamics::Modes& modes, double step_scale,
                                   const torch::Tensor& Q);

}  // namespace cdt::control
