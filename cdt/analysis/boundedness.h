/// Boundedness under losses that are not quadratic (paper App. boundednessLosses). Quadratic ones:
/// assess_stability.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::analysis {

/// (α/n)‖Θ‖_∞: under the mean absolute error, ŷ⁺ = ŷ − (α/n)Θ sgn(ŷ − y), steps do not shrink near
/// the labels, and no output moves further than this in one. (The paper's radius αΘ/(rn_L) is a
/// matrix; this is its norm.)
///
/// Proved for a definite Θ: the mean of |ŷ − y| over outputs and steps falls to half of it or
/// below. With V = eᵀΘ⁻¹e, V⁺ − V = −2(α/n)‖e‖₁ + (α/n)²sgn(e)ᵀΘsgn(e), and the last product is at
/// most n‖Θ‖_∞. Observed, not proved: in the end every single output stays within it.
/// @throws InvalidArgument if Θ is not square float64 and finite, or α < 0.
double mae_radius(const torch::Tensor& theta, double learning_rate);

/// The largest α for which a step brings the outputs closer to where they belong: V = ‖ŷ − ŷ_e‖²
/// changes by −2α eᵀΘg + α²‖Θg‖², so α < 2eᵀΘg/‖Θg‖². g = ∂L/∂ŷ of any loss, e = ŷ − ŷ_e, both [n].
/// 0 if no step does, because eᵀΘg ≤ 0. (The paper takes V = ŷᵀŷ, which has nothing to do with the
/// labels, and prints the cross term of −yᵀlog ŷ with the wrong sign.)
/// @throws InvalidArgument if a shape or dtype does not fit or an entry is not finite.
double lyapunov_lr_max(const torch::Tensor& theta, const torch::Tensor& gradient,
                       const torch::Tensor& error);

}  // namespace cdt::analysis
