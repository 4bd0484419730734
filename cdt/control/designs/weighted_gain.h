/// The optimal gain for arbitrary weights Q ⪰ 0 and R ≻ 0, such as different weights of samples or
/// outputs.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/control/riccati.h>
#include <cdt/core/error.h>

namespace cdt::control {

/// Q and R are [n, n], or diagonals [n]. Solves the Riccati equation by doubling on the reachable
/// subspace with the full R (a projected one would be suboptimal). `residual` refers to the
/// balanced coordinates in which it was solved.
///
/// K is zero on null directions, and on modes with a step below 10⁻¹⁰, so slow that 10¹⁰ steps
/// would not show them: no label moves them, and their cost is infinite unless their error is zero.
/// (lqr without Q and R keeps the limit k(0) there; neither choice has an effect.)
/// @throws InvalidArgument if Q is not PSD, R not PD, a shape or dtype does not fit, modes are
///   missing, or every mode is slower than that.
/// @throws NumericalError if Q gives no weight to a mode that gradient descent blows up (not
///   detectable), or on no convergence.
GainController::Gain weighted_gain(const Plant& plant, const torch::Tensor& Q,
                                   const torch::Tensor& R, const RiccatiOptions& options = {});

}  // namespace cdt::control
