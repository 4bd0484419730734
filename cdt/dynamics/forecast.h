/// Complete training and validation curves of the local model in closed form, for many controllers
/// at once.
///
/// In the eigenbasis of Θ the modes are independent: after k steps of e⁺ = e − d_k h e, with h = s
/// for gradient descent and h = s(1 + k(s)) under control, the share g = 1 − Π(1 − d_j h) of a
/// mode's error is removed. Outputs elsewhere follow through Θ(x_val, x): each mode has moved them
/// by Θ(x_val, x)v (vᵀe) g / λ for any schedule d, because the sum over steps telescopes.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>
#include <cdt/loss/loss.h>

#include <vector>

namespace cdt::dynamics {

/// The errors before training, in modal coordinates.
struct ModalProblem {
  int64_t size = 0;                ///< n
  torch::Tensor values;            ///< λ [rank], reachable modes only
  torch::Tensor error;             ///< Vᵀe [rank]
  double stuck = 0;                ///< ‖e‖² on null directions, which remains
  int64_t validation_size = 0;     ///< m; 0 without validation data
  torch::Tensor transfer;          ///< [min(m, rank), rank]: Θ(x_val, x)V Λ⁻¹ diag(Vᵀe)
  torch::Tensor validation_error;  ///< [min(m, rank)], in the same coordinates
  double validation_stuck = 0;     ///< ‖e_val‖² outside these coordinates
};

/// For e = ŷ − y [n] on the training samples, float64.
/// @throws InvalidArgument if a shape or dtype does not fit or an entry is not finite.
ModalProblem modal_problem(const Modes& modes, const torch::Tensor& error);
/// The same with Θ(x_val, x) [m, n] and e_val [m].
ModalProblem modal_problem(const Modes& modes, const torch::Tensor& error,
                           const torch::Tensor& cross_kernel,
                           const torch::Tensor& validation_error);

/// Losses by controller and stopping step; infinite if the dynamics has diverged.
struct Curves {
  torch::Tensor train;       ///< [G, T]
  torch::Tensor validation;  ///< [G, T], undefined without validation data
};

/// Curves for contractions h [G, rank] at the given steps (ascending, from 1), under d_k = 1/(1 +
/// decay·k). A constant rate uses powers, O(G·T·rank·m) in all; a decaying rate uses cumulative
/// products, O(G·rank) more per step up to the last.
/// @throws InvalidArgument if a shape does not fit, h is negative or not finite, steps are not
///   ascending from 1, or decay < 0.
Curves predict_curves(const ModalProblem& problem, const torch::Tensor& contraction,
                      const std::vector<int64_t>& steps, const loss::LossPtr& loss,
                      double decay = 0);

/// `count` distinct integers from 1 to `last` (all of them, if there are fewer), evenly spaced in
/// their logarithm once that is more than one apart.
/// @throws InvalidArgument unless count ≥ 2 and last ≥ 1.
std::vector<int64_t> log_spaced_steps(int64_t count, int64_t last);

}  // namespace cdt::dynamics
