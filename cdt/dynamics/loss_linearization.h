/// Derivatives of losses with respect to the outputs, and the resulting control-oriented dynamics
/// (paper App. losslin).
///
/// Outputs ŷ and labels y are [r, C], float64; derivatives do not couple samples, so the Hessian
/// has one block [C, C] per sample. Every function throws InvalidArgument if shapes or dtypes
/// differ, an entry is not finite, or the loss lacks the derivative (the message says why).
#pragma once

#include <cdt/core/error.h>
#include <cdt/loss/loss.h>

namespace cdt::dynamics {

/// L
double output_loss(const loss::LossPtr& loss, const torch::Tensor& y_hat, const torch::Tensor& y);

/// ∂L/∂ŷ [r, C]. For the cross entropy (softmax(ŷ) − y)/r, also for labels that do not sum to 1:
/// augmented labels enter affinely.
torch::Tensor loss_gradient(const loss::LossPtr& loss, const torch::Tensor& y_hat,
                            const torch::Tensor& y);

/// ∂²L/∂ŷ² [r, C, C]
torch::Tensor loss_hessian(const loss::LossPtr& loss, const torch::Tensor& y_hat,
                           const torch::Tensor& y);

/// −∂²L/∂ŷ∂y [r, C, C]: the effect of a label augment y_u on the negative gradient.
torch::Tensor label_influence(const loss::LossPtr& loss, const torch::Tensor& y_hat,
                              const torch::Tensor& y);

/// ∂³L/∂ŷ³[u, v] [r, C] for directions u, v [r, C].
torch::Tensor third_derivative(const loss::LossPtr& loss, const torch::Tensor& y_hat,
                               const torch::Tensor& y, const torch::Tensor& u,
                               const torch::Tensor& v);

/// Upper bound on ‖∂³L/∂ŷ³‖ between two outputs, for the bound on the linearized gradient (eq.
/// LossLagrangeError; at ŷ(k₀) alone, as printed, it is no bound). Zero for quadratic losses. For
/// the cross entropy √2/(3√3 r), its global maximum: a third central moment of a unit vector's
/// entries.
double third_derivative_bound(const loss::LossPtr& loss, const torch::Tensor& from,
                              const torch::Tensor& to, const torch::Tensor& y);

/// ŷ⁺ = Aŷ + B y_u + bias: the control-oriented training dynamics (eq. lin_trainig_dynamics) around
/// ŷ₀, outputs stacked sample-major.
struct ControlOrientedDynamics {
  torch::Tensor A;     ///< I − αΘH [n, n]
  torch::Tensor B;     ///< αΘ(−∂²L/∂ŷ∂y) [n, n]
  torch::Tensor bias;  ///< αΘ(Hŷ₀ − g₀) [n]
};

/// Θ [n, n].
/// @throws InvalidArgument if the loss has no curvature: its Hessian is zero, so A = I for any
///   rate.
ControlOrientedDynamics control_oriented_dynamics(const loss::LossPtr& loss,
                                                  const torch::Tensor& theta, double learning_rate,
                                                  const torch::Tensor& y_hat,
                                                  const torch::Tensor& y);

using loss::times_blocks;

}  // namespace cdt::dynamics
