/// The feedback at one linearization: what a step does and what the local model promises of it.
///
/// The trainer knows two kinds, for quadratic losses and for the cross entropy. Each has its own
/// coordinates of the outputs, its state, in which the loop is linear.
#pragma once

#include <cdt/dynamics/modes.h>

namespace cdt::train {

/// A step that the guard has to judge: θ⁺ = (1 − shrink)θ − Jᵀseed.
struct Proposal {
  torch::Tensor seed;  ///< [n], float64, the rate included
  double shrink = 0;
  torch::Tensor prediction;  ///< the state that the local model promises
  double augment_norm = 0;   ///< ‖y_u‖
};

/// What the paper's method applies without asking: the gradient ∂L/∂ŷ, steered.
struct Steered {
  torch::Tensor seed;  ///< [n], float64, without the rate
  double augment_norm = 0;
};

class Feedback {
 public:
  virtual ~Feedback() = default;

  /// Designs the gain for rate α; the eigendecomposition is kept.
  virtual void design(double rate) = 0;
  double rate() const { return rate_; }
  const dynamics::Modes& modes() const { return modes_; }
  /// The mean Hessian of the loss [r, C − 1, C − 1], which the spectrum contains; undefined where
  /// it is the same everywhere.
  virtual torch::Tensor curvature() const { return {}; }
  /// The largest rate at which no mode of plain descent oscillates.
  virtual double unit_rate() const = 0;
  /// The closed loop's rate κ in the norm `distance`.
  double closed_loop_radius() const { return radius_; }

  /// Of outputs ŷ [b, n_L], float64.
  virtual torch::Tensor state(const torch::Tensor& outputs) const = 0;
  /// One step at `rate`, with the gain of the rate designed for. With weight decay, `moved` is Jθ.
  virtual Proposal propose(const torch::Tensor& state, double rate, double weight_decay = 0,
                           const torch::Tensor& moved = {}) const = 0;
  /// The seed alone, by one product with a matrix that is made at the first call.
  virtual Steered steer(const torch::Tensor& outputs) = 0;
  /// What the guard watches.
  virtual double merit(const torch::Tensor& state) const = 0;
  /// From the equilibrium, on the reachable part, in the norm in which the loop contracts.
  virtual double distance(const torch::Tensor& state) const = 0;
  /// No less than the change of `distance` by a unit change of the outputs.
  virtual double sensitivity() const { return 1; }
  /// Whether nothing is left that labels can move: the state is at rest up to an error `rounding`
  /// of the outputs, or up to the share tol::kUnreachableError.
  virtual bool settled(const torch::Tensor& state, double rounding) const = 0;
  /// Whether some errors may rise in favour of others, so that `merit` is a cost to go.
  virtual bool weighted() const { return false; }

 protected:
  /// One layout of the eigenvectors, wherever they come from: products round the same way after a
  /// checkpoint.
  explicit Feedback(dynamics::Modes modes) : modes_(std::move(modes)) {
    modes_.vectors = modes_.vectors.t().contiguous().t();
  }
  torch::Tensor reachable(const torch::Tensor& modal) const {
    return modal.narrow(0, modes_.nullity(), modes_.rank);
  }

  dynamics::Modes modes_;
  double rate_ = 0;
  double radius_ = 0;
};

}  // namespace cdt::train
