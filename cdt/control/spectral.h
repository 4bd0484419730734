/// The controller for weights that commute with the kernel, Q = q(Θ) and R = ρ(Θ): closed form,
/// mode by mode.
///
/// With s = α c_L λ for each eigenvalue λ of Θ (DESIGN section 2):
///   β = ρ(2 − s) − q s,   w = (−β + √(β² + 4qρ)) / 2      (s times P's eigenvalue; no division by
///   s) k(s) = (1 − s) w / (ρ + s w),   1 + k(s) = (ρ + w) / (ρ + s w),   closed loop ρ(1 − s) / (ρ
///   + s w).
/// Slow modes are sped up by √(1 + q/ρ), modes that gradient descent would blow up are damped.
#pragma once

#include <cdt/dynamics/modes.h>

#include <functional>

namespace cdt::control {

/// The optimal feedback of independent modes; tensors of one shape, float64.
struct ModeGains {
  torch::Tensor w;         ///< s·P: finite at s = 0, where P is not.
  torch::Tensor gain;      ///< k(s)
  torch::Tensor steering;  ///< 1 + k(s), from its own formula: at s = 10⁶ adding 1 to k would leave
                           ///< no digit in float32.
  torch::Tensor closed_loop;  ///< 1 − s(1 + k), |·| < 1 for every s > 0
};

/// @throws InvalidArgument unless 0 ≤ s ≤ 10¹⁵⁰, q > 0, ρ > 0 and finite, all float64 of one shape.
ModeGains mode_gains(const torch::Tensor& s, const torch::Tensor& q, const torch::Tensor& rho);

struct SpectralWeights {
  double q = 1.0;    ///< on the error; only q/ρ matters for the gain. The paper's Q = I.
  double rho = 0.1;  ///< on the label augment. The paper's p = 0.1: slow modes 3.3 times faster.
  /// Spectral shaping: factors on q and ρ as functions of s [n] → [n], positive; empty means 1.
  /// Less q on the modes that only carry noise asks for less effort there.
  std::function<torch::Tensor(const torch::Tensor& s)> shape_q;
  std::function<torch::Tensor(const torch::Tensor& s)> shape_rho;
};

/// K = V diag(k) Vᵀ and what it promises.
struct SpectralController {
  dynamics::Modes modes;
  double step_scale = 0;  ///< α c_L
  torch::Tensor s;        ///< [n] step_scale·λ
  torch::Tensor q;        ///< [n]
  torch::Tensor rho;      ///< [n]
  ModeGains gains;        ///< [n]

  /// ȳ = ŷ − G(ŷ − y), detached: the label to train on instead of y. Any floating dtype, shape [n],
  /// [r, n_L] or alike, which the result keeps; the arithmetic is float64.
  /// @throws InvalidArgument if the shapes differ, do not have n entries, or an entry is not
  /// finite.
  torch::Tensor augment(const torch::Tensor& y_hat, const torch::Tensor& y) const;
  /// The rest takes e [n], float64 and finite, else throws InvalidArgument.
  /// G e [n], the steered error: the gradient with respect to ŷ is c_L·G e.
  torch::Tensor steer(const torch::Tensor& error) const;
  /// What one step of the local model leaves of e [n].
  torch::Tensor predict(const torch::Tensor& error) const;
  /// K, G = I + K, and P [n, n]. P covers the reachable subspace; on null directions it is infinite
  /// and left out.
  torch::Tensor gain_matrix() const;
  torch::Tensor steering_matrix() const;
  torch::Tensor riccati_matrix() const;
  /// ½ eᵀPe; infinite if e has a part (above tol::kUnreachableError) on a null direction.
  double optimal_cost(const torch::Tensor& error) const;
  /// max |1 − s(1 + k)| over reachable modes; 1 if there are none, since nothing moves.
  double closed_loop_radius() const;
};

/// The controller for step S = α c_L Θ, step_scale = αc_L (dynamics::step_scale). O(n) beyond the
/// modes: a new α needs no new eigendecomposition.
/// @throws InvalidArgument if αc_L, q or ρ is not positive and finite, a shape returns other than n
/// positive numbers, or numbers overflow: steps above 10¹⁵⁰, q and ρ too far apart.
SpectralController design_spectral(const dynamics::Modes& modes, double step_scale,
                                   const SpectralWeights& weights = {});

/// The same from Θ [n, n], float64.
SpectralController design_spectral(const torch::Tensor& theta, double step_scale,
                                   const SpectralWeights& weights = {});

/// ‖P − Q − AᵀP(I − SG)‖ / (‖P‖(1 + ‖A‖)(1 + ‖S‖‖G‖)), Frobenius (of A, S and G: spectral), on the
/// reachable subspace, with A and S from `theta` itself rather than from its eigendecomposition: it
/// measures both. Relative to the size of its terms: at a step of 10⁸ rounding of Θ alone moves
/// them by 10⁸ units. Three matrix products; one n×n and some n×512 temporaries.
double riccati_residual(const SpectralController& controller, const torch::Tensor& theta);

/// k(0) = √(1 + q/ρ) − 1 without cancellation: slow modes learn 1 + k(0) times faster.
double gain_of_slow_modes(double q, double rho);

}  // namespace cdt::control
