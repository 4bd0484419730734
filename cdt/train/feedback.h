/// The feedback at one linearization, in the kernel's eigenbasis: what a step does and what it
/// promises.
#pragma once

#include <cdt/control/spectral.h>
#include <cdt/train/options.h>

#include <optional>

namespace cdt::train {

/// Weights of the control problem. With `weights`, Q = q·diag(weights) and the gain comes from the
/// general Riccati solver; without, from the closed form.
struct FeedbackOptions {
  dynamics::Loss loss = dynamics::Loss::kMse;
  double q = 1.0;
  double p = 0.1;
  double shape = 0;
  double ridge =
      0;  ///< added to every eigenvalue: weight decay acts as the kernel Θ + (decay/c_L)I
  std::optional<torch::Tensor> weights;  ///< [n], float64
};

/// Errors appear as modal coordinates m = Vᵀe [n].
class Feedback {
 public:
  /// @throws InvalidArgument as the controllers do; also if there are weights and a shape.
  Feedback(dynamics::Spectrum spectrum, FeedbackOptions options);

  /// Designs the gain for rate α; the eigendecomposition is kept.
  void design(double rate);
  double rate() const { return rate_; }
  const dynamics::Spectrum& spectrum() const { return spectrum_; }

  /// m = Vᵀe.
  torch::Tensor project(const torch::Tensor& error) const;
  /// e = V m.
  torch::Tensor expand(const torch::Tensor& modal) const;
  /// G m: the gradient with respect to the outputs is c_L·V G m.
  torch::Tensor steer(const torch::Tensor& modal) const;
  /// What one step of the local model at α·factor leaves of m, given G m.
  torch::Tensor predict(const torch::Tensor& modal, const torch::Tensor& steered,
                        double factor) const;
  /// What the guard watches: ‖m‖² on the reachable part; with weights the cost to go mᵀPm, because
  /// the weighted optimum may let unimportant errors rise for a while.
  double merit(const torch::Tensor& modal) const;
  /// G [n, n], for a loop that needs nothing but V G Vᵀe.
  torch::Tensor steering_matrix() const;
  /// Whether errors are weighted, so that `merit` is a cost to go.
  bool weighted() const { return cost_.defined(); }
  /// max |1 − s(1 + k)| on the reachable subspace.
  double closed_loop_radius() const { return radius_; }

 private:
  torch::Tensor reachable(const torch::Tensor& modal) const;

  dynamics::Spectrum spectrum_;
  FeedbackOptions options_;
  double rate_ = 0;
  double radius_ = 0;
  torch::Tensor step_;      ///< s [n]
  torch::Tensor steering_;  ///< 1 + k [n], or VᵀGV [n, n] with weights
  torch::Tensor cost_;      ///< VᵀPV [n, n] with weights
};

}  // namespace cdt::train
