/// The controller for weights that commute with the kernel, Q = q(Θ) and R = ρ(Θ): closed form,
/// mode by mode.
///
/// With s = α c_L λ for each eigenvalue λ of Θ (docs/explanation/mathematics.md):
///   β = ρ(2 − s) − q s,   w = (−β + √(β² + 4qρ)) / 2      (s times P's eigenvalue; no division by
///   s) k(s) = (1 − s) w / (ρ + s w),   1 + k(s) = (ρ + w) / (ρ + s w),   closed loop ρ(1 − s) / (ρ
///   + s w).
/// Slow modes are sped up by √(1 + q/ρ), modes that gradient descent would blow up are damped.
#pragma once

#include <cdt/core/error.h>
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
  /// Spectral shaping: a factor on q as a function of s [n] → [n], positive; empty means 1. Less q
  /// on the modes that only carry noise asks for less effort there.
  std::function<torch::Tensor(const torch::Tensor& s)> shape_q;
};

/// K = V diag(k) Vᵀ + k_t(I − VVᵀ) and what it promises.
///
/// Where only leading modes are known, the rest, the tail, is steered as one by the gain k_t = k(s̄)
/// of s̄ = αc_L·tail_bound, which no step there exceeds. The true modes of the tail then have the
/// factors 1 − s(1 + k_t), between 1 − s̄(1 + k_t) > −1 and 1, at any rate; and since k falls with
/// s, αc_LΘK is off by at most s̄(k(0) − k(s̄)). With all modes known there is no tail.
struct SpectralController {
  dynamics::Modes modes;
  double step_scale = 0;     ///< α c_L
  torch::Tensor s;           ///< [m] step_scale·λ
  torch::Tensor q;           ///< [m]
  torch::Tensor rho;         ///< [m]
  ModeGains gains;           ///< [m]
  double tail_step = 0;      ///< s̄; 0 without a tail
  double tail_steering = 1;  ///< 1 + k(s̄)

  /// ȳ = ŷ − G(ŷ − y), detached: the label to train on instead of y. Any floating dtype, shape [n],
  /// [r, n_L] or alike, which the result keeps; the arithmetic is float64.
  /// @throws InvalidArgument if the shapes differ, do not have n entries, or an entry is not
  /// finite.
  torch::Tensor augment(const torch::Tensor& y_hat, const torch::Tensor& y) const;
  /// The rest takes e [n], float64 and finite, else throws InvalidArgument.
  /// G e [n], the steered error: the gradient with respect to ŷ is c_L·G e.
  torch::Tensor steer(const torch::Tensor& error) const;
  /// What one step of the local model leaves of e [n]; of the tail e itself, than which no more is
  /// left of it: with a tail the norm is a bound.
  torch::Tensor predict(const torch::Tensor& error) const;
  /// K, G = I + K, and P [n, n]. P covers the known reachable modes; on null directions it is
  /// infinite and left out.
  torch::Tensor gain_matrix() const;
  torch::Tensor steering_matrix() const;
  torch::Tensor riccati_matrix() const;
  /// ½ eᵀPe; infinite if e has a part (above tol::kUnreachableError) on a null direction, and for
  /// lack of a bound if it has one on the tail.
  double optimal_cost(const torch::Tensor& error) const;
  /// max |1 − s(1 + k)| over reachable modes, below 1 even where s is too small to show in it; 1 if
  /// no mode is reachable, since nothing moves. 1 with a tail, whose slowest mode may hardly move.
  double closed_loop_radius() const;
};

/// The controller for step S = α c_L Θ, step_scale = αc_L (loss::step_scale). O(n) beyond the
/// modes: a new α needs no new eigendecomposition. Shapes are asked for the tail's s̄ [1] as well.
/// @throws InvalidArgument if αc_L, q or ρ is not positive and finite, a shape returns other than n
/// positive numbers, or numbers overflow: steps above 10¹⁵⁰, q and ρ too far apart.
SpectralController design_spectral(const dynamics::Modes& modes, double step_scale,
                                   const SpectralWeights& weights = {});

/// The same from Θ [n, n], float64, of a network of `network_dtype`, whose rounding decides which
/// modes count as null.
SpectralController design_spectral(const torch::Tensor& theta, double step_scale,
                                   const SpectralWeights& weights = {},
                                   torch::ScalarType network_dtype = torch::kFloat32);

/// ‖P − Q − AᵀP(I − SG)‖ / (‖P‖(1 + ‖A‖)(1 + ‖S‖‖G‖)), Frobenius (of A, S and G: spectral), on the
/// reachable subspace, with A and S from `theta` itself rather than from its eigendecomposition: it
/// measures both. Relative to the size of its terms: at a step of 10⁸ rounding of Θ alone moves
/// them by 10⁸ units. Three matrix products; one n×n and some n×512 temporaries.
double riccati_residual(const SpectralController& controller, const torch::Tensor& theta);
/// The same of any law: w = s·P, 1 + k and q on steps s [m] = αc_Lλ + `decay_step`.
double riccati_residual(const dynamics::Modes& modes, const torch::Tensor& s,
                        const torch::Tensor& w, const torch::Tensor& steering,
                        const torch::Tensor& q, double step_scale, double decay_step,
                        const torch::Tensor& theta);

/// weight·shape(s) for each mode. @throws InvalidArgument unless they are positive, one a mode.
torch::Tensor shaped_weight(double weight,
                            const std::function<torch::Tensor(const torch::Tensor& s)>& shape,
                            const torch::Tensor& s, std::string_view name);
/// @throws InvalidArgument if the square of a mode's step overflows.
void require_steps(double step_scale, const dynamics::Modes& modes);

/// k(0) = √(1 + q/ρ) − 1 without cancellation: slow modes learn 1 + k(0) times faster.
double gain_of_slow_modes(double q, double rho);

}  // namespace cdt::control
