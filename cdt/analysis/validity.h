/// How long the local model may be believed: what a short trial of true training says about it
/// (paper App. lipschitzness, linearization, Lagrangian, boundedness).
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <torch/types.h>

#include <optional>

namespace cdt::analysis {

/// Largest ‖f(ŷ₁) − f(ŷ₂)‖/‖ŷ₁ − ŷ₂‖ between states of a trajectory [f + 1, n], f(ŷ(k)) = ŷ(k + 1).
/// A lower bound of the Lipschitz constant, reported as an estimate; pairs closer than
/// tol::kDistinctOutputs of their size are left out as rounding. Zero if none is left.
/// @throws InvalidArgument unless the trajectory is float64 and finite.
double lipschitz_estimate(const torch::Tensor& trajectory);

/// The exponential bound of a local model on its way: γκᵏ‖ŷ(k₀) − ŷ_e‖ after k steps, or the
/// product of their κ where steps differ. The first step at which ‖ŷ_ϑ − ŷ_e‖ exceeds what it
/// leaves after the Lagrange error is k_c.
struct ValidityBound {
  double initial_distance = 0;  ///< ‖ŷ(k₀) − ŷ_e‖
  double distance = 0;          ///< the bound now; the same at first, times γ

  void advance(double kappa) { distance *= kappa; }
  /// Up to rounding (tol::kValiditySlack of the first distance). A distance that is not finite
  /// violates every bound.
  bool violated(double local_distance, double lagrange) const;
};

/// A short training run of f steps on a copy of the network, recorded by the caller. Float64.
struct Trial {
  bool controlled = false;      ///< under CDT, or plain gradient descent
  torch::Tensor outputs;        ///< ŷ(k) [f + 1, n]; rows after a divergence may be anything
  torch::Tensor local_outputs;  ///< ŷ_ϑ(k) [f + 1, n], from Jacobian-vector products
  torch::Tensor displacements;  ///< ‖ϑ(k)‖ [f + 1]
  torch::Tensor target;         ///< ŷ_e [n]: the labels, for a quadratic loss
  double hessian_norm = 0;      ///< largest norm of ∂²ŷ/∂θ² found along the path
  double hessian_accuracy = 0;  ///< by what share it may be too low, as far as is known
  double kappa = 0;             ///< the loop's rate in the local model
  double gamma = 1;
};

/// What it says.
struct TrialFindings {
  bool controlled = false;
  int64_t steps = 0;               ///< that were finite
  bool diverged = false;           ///< an output was not finite
  double lipschitz = 0;            ///< observed: an estimate from below
  double lipschitz_local = 0;      ///< of the local map: κ
  double linearization_error = 0;  ///< ‖ŷ − ŷ_ϑ‖ after the last finite step
  double relative_error = 0;  ///< the same over ‖ŷ − ŷ(k₀)‖: the share of the way not foreseen
  double lagrange_bound = 0;    ///< ½h‖ϑ‖² there: an estimate, as h is
  double hessian_norm = 0;      ///< h, an estimate
  double hessian_accuracy = 0;  ///< by what share h may be too low
  std::optional<int64_t> kc{};  ///< none: the local model kept its bound

  void fields(Fields& f);
};

/// @throws InvalidArgument if shapes do not fit, there is no step, or the first row is not finite.
TrialFindings assess_trial(const Trial& trial);

}  // namespace cdt::analysis
