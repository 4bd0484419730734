/// Bounds on the error of the local model, from given norms (paper App. Lagrangian, losslin,
/// boundedness).
///
/// All require two derivatives; across the kinks of a ReLU network they are indicative only. If the
/// norm h of ∂²ŷ/∂θ² is estimated (kernel/curvature.h), the bound is an estimate too.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::dynamics {

/// E_y = ½ h‖ϑ‖² ≥ ‖ŷ − ŷ_ϑ‖ (eq. NTK:overbound), h the largest norm on the segment from θ(k₀) to
/// θ(k).
/// @throws InvalidArgument if an argument is negative or not finite, as do the other functions
///   here.
double lagrange_bound(double hessian_norm, double displacement_norm);

/// E_L = ½ t(‖ŷ_ϑ − ŷ(k₀)‖ + E_y)²: the error of the linearized loss gradient at the true output
/// (eq. LossLagrangeError with E_y injected), t the largest norm of ∂³L/∂ŷ³ on the segment.
double loss_gradient_bound(double third_norm, double output_displacement, double output_error);

/// E⁺ = c E + α‖Θ‖E_L: bound after the control-oriented step ŷ ↦ ŷ − αΘ(g₀ + H(ŷ − ŷ₀)) from a
/// state with error E. c = ‖I − αΘH‖₂; with c ≤ 1 this is the cumulative bound E + α‖Θ‖E_L.
/// (Printed with a minus sign, which cannot be a bound.)
double control_oriented_bound(double output_error, double contraction, double step_norm,
                              double gradient_error);

/// γκᵏ‖ŷ(k₀) − ŷ_e‖ + E_y: the global dynamics around ŷ_e. The Lagrange term is added; the printed
/// difference is only the trigger of k_c (analysis/validity.h).
double global_bound(double gamma, double kappa, int64_t steps, double initial_distance,
                    double lagrange);

/// κ + αc_L(2√λ_max h r + h²r²): the largest factor by which a step of gradient descent on the
/// network itself can multiply the error while the parameters stay within r of θ(k₀). κ = ‖I − S‖,
/// λ_max of Θ(k₀), h the norm of ∂²ŷ/∂θ² in that ball. Quantifies the remark on robust stability:
/// ‖J − J₀‖ ≤ hr, so the kernel changes by at most the bracket.
double robust_contraction(double kappa, double step_scale, double lambda_max, double hessian_norm,
                          double radius);

/// The largest r with robust_contraction ≤ 1; within it, training is stable although the kernel
/// changes. 0 if κ ≥ 1, infinite if h = 0.
double robust_radius(double kappa, double step_scale, double lambda_max, double hessian_norm);

}  // namespace cdt::dynamics
