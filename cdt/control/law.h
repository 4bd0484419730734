/// Laws act on each mode separately: v = g(s)x for a mode of step s, so that x⁺ = (1 − s g(s))x. A
/// new one is a function that returns a Law (docs/cpp.md).
///
/// s = αcλ for an eigenvalue λ of the kernel (docs/explanation/mathematics.md).
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cdt::control {

/// Functions of steps s ≥ 0, float64 of any shape. Each mode's value must not depend on the others.
struct Law {
  std::string name;                                               ///< "lqr q=1 p=0.1"
  std::string optimal;                                            ///< Certificate::optimal
  std::function<torch::Tensor(const torch::Tensor& s)> steering;  ///< g(s)
  /// 1 − s g(s), without cancellation. Empty: computed from g.
  std::function<torch::Tensor(const torch::Tensor& s)> closed_loop{};
  /// The gain k(s) = g(s) − 1, without cancellation. Empty: computed from g.
  std::function<torch::Tensor(const torch::Tensor& s)> gain{};
  /// s·P and the state weight q, if the law minimizes an infinite-horizon cost ½xᵀPx.
  std::function<torch::Tensor(const torch::Tensor& s)> cost{};
  std::function<torch::Tensor(const torch::Tensor& s)> weight{};
  double effort = 0;                ///< p, the weight on label augments in that cost
  std::optional<double> damping{};  ///< ν if g = 1/(s + ν), which needs a solve and no modes

  /// 1 − s g(s)
  torch::Tensor leaves(const torch::Tensor& s) const {
    return closed_loop ? closed_loop(s) : 1 - s * steering(s);
  }
  /// k(s) = g(s) − 1
  torch::Tensor augments(const torch::Tensor& s) const { return gain ? gain(s) : steering(s) - 1; }
};

/// Constant g: plain descent, or descent at `gain` times the rate.
Law descent(double gain = 1);

/// Minimizes Σ q‖e‖² + p‖y_u‖² over all future steps, in closed form:
///     β = p(2 − s) − q s,   w = (−β + √(β² + 4qp)) / 2
///     k(s) = (1 − s) w / (p + s w),   1 + k(s) = (p + w) / (p + s w)
///     closed loop p(1 − s) / (p + s w)
/// where w = s·P stays finite at s = 0. Slow modes are sped up by √(1 + q/p); modes that diverge
/// under gradient descent are damped. Each formula is evaluated as written: at s = 10⁶, adding 1 to
/// k would leave no correct digit in float32.
///
/// `shape` (spectral shaping) returns positive factors on q as a function of s; empty means 1. A
/// lower q on modes that carry only noise reduces the effort spent on them.
/// @throws InvalidArgument unless q and p are positive and finite. The functions of the law throw
///   it unless 0 ≤ s ≤ 10¹⁵⁰, float64, the shape returns one positive number per mode, and no
///   number overflows (q and p too far apart).
Law lqr(double q, double p, std::function<torch::Tensor(const torch::Tensor& s)> shape = {});

/// Minimizes the same cost over the next `horizon` steps, with terminal weight q, and applies the
/// first step: a receding horizon. It tends to lqr, more slowly for smaller s: a mode that takes a
/// thousand steps needs a horizon of some thousand.
/// @throws InvalidArgument as lqr, or if the horizon is below 1.
Law receding(double q, double p, int64_t horizon);

/// Minimizes ‖e⁺‖² + μ‖δ‖² in one step, ν = αcμ, as a guarded step does. It leaves a share between
/// 0 and 1 of every mode, whatever its step.
/// @throws InvalidArgument unless ν is positive and finite.
Law damped(double nu);

/// The ν that gives slow modes the same speed as lqr(q, p): 1/√(1 + q/p).
double damping_like(double q, double p);

/// k(0) = √(1 + q/p) − 1 of lqr, without cancellation: slow modes are learned 1 + k(0) times
/// faster.
double gain_of_slow_modes(double q, double p);

}  // namespace cdt::control
