/// Controllers that act on each mode by itself: v = g(s)x for a mode of step s, so that x⁺ =
/// (1 − s g(s))x. A new one is a function that returns a Law (docs/cpp.md).
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <functional>
#include <optional>
#include <string>

namespace cdt::control {

/// Functions of steps s [m] ≥ 0, float64; of one mode what they say does not depend on the others.
struct Law {
  std::string name;                                               ///< "lqr q=1 p=0.1"
  std::string optimal;                                            ///< Certificate::optimal
  std::function<torch::Tensor(const torch::Tensor& s)> steering;  ///< g(s)
  /// 1 − s g(s), without cancellation. Empty: as it stands here.
  std::function<torch::Tensor(const torch::Tensor& s)> closed_loop{};
  /// g(s) − 1, without cancellation. Empty: as it stands here.
  std::function<torch::Tensor(const torch::Tensor& s)> gain{};
  /// s·P and the weight q on the state, of a law with an infinite-horizon cost ½xᵀPx.
  std::function<torch::Tensor(const torch::Tensor& s)> cost{};
  std::function<torch::Tensor(const torch::Tensor& s)> weight{};
  double effort = 0;                ///< p, the weight on label augments of that cost
  std::optional<double> damping{};  ///< ν with g = 1/(s + ν): a solve, no modes needed

  /// 1 − s g(s)
  torch::Tensor leaves(const torch::Tensor& s) const {
    return closed_loop ? closed_loop(s) : 1 - s * steering(s);
  }
  /// g(s) − 1
  torch::Tensor augments(const torch::Tensor& s) const { return gain ? gain(s) : steering(s) - 1; }
};

/// g constant: plain descent, or with a higher rate.
Law descent(double gain = 1);
/// The least of Σ q‖e‖² + p‖y_u‖² over all steps to come (spectral.h). `shape` gives factors on q,
/// positive, as a function of s; empty means 1.
/// @throws InvalidArgument unless q and p are positive and finite.
Law lqr(double q, double p, std::function<torch::Tensor(const torch::Tensor& s)> shape = {});
/// The least of ‖e⁺‖² + μ‖δ‖² in one step, ν = αcμ: what a guarded step solves. Between 0 and 1 is
/// left of every mode, however long its step.
/// @throws InvalidArgument unless ν is positive and finite.
Law damped(double nu);
/// ν with which slow modes go as far as under lqr(q, p): 1/√(1 + q/p).
double damping_like(double q, double p);

}  // namespace cdt::control
