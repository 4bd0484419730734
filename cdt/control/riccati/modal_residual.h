/// The residual of the Riccati equation for a gain that acts mode by mode.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

namespace cdt::control {

/// ‖P − Q − AᵀP(I − SG)‖ / (‖P‖(1 + ‖A‖)(1 + ‖S‖‖G‖)), Frobenius (of A, S and G: spectral), on the
/// reachable subspace. P, G and Q have the eigenvalues w/s, `steering` and `weights` [m] for the
/// steps s [m]; A and S come from `theta` itself rather than from its modes, S = step_scale·Θ +
/// decay_step·I, so that the residual measures the modes too. It is relative to the size of its
/// terms: at a step of 10⁸ rounding of Θ alone moves them by 10⁸ units. Three matrix products; one
/// n×n and some n×512 temporaries.
double riccati_residual(const dynamics::Modes& modes, const torch::Tensor& s,
                        const torch::Tensor& w, const torch::Tensor& steering,
                        const torch::Tensor& weights, double step_scale, double decay_step,
                        const torch::Tensor& theta);

}  // namespace cdt::control
