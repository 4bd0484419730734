/// Connects a controller and the network: computes the step at one linearization, and the local
/// model's prediction for it.
///
/// Coordinates turn outputs into errors x; the controller steers them, or returns the step itself;
/// the feedback converts the result into seeds and parameter steps, and defines what a guard
/// monitors. Weight decay d is part of the same problem. With the loss L + ½d‖θ‖² and θ = Jᵀa + θ⊥
/// the gradient is Jᵀ(c·seed of (x + (d/c)ã)) + dθ⊥, where ã is a in the coordinates, M⁻¹ times the
/// change of x by Jθ: the eigenvalues are λ + d/c, the state is x + (d/c)ã, and θ⊥ decays by
/// itself. Adding dθ to a steered step instead would have a different fixed point and be unstable
/// at large rates.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/train/history.h>
#include <cdt/train/loop/coordinates.h>
#include <cdt/train/method.h>
#include <cdt/train/saved_state.h>

#include <functional>
#include <memory>
#include <optional>

namespace cdt::train {

/// A step for the guard to judge: θ⁺ = (1 − shrink)θ − Jᵀseed, or θ + delta.
struct Proposal {
  torch::Tensor seed;   ///< [n], float64, including the rate; undefined if delta is used
  torch::Tensor delta;  ///< [P]
  double shrink = 0;
  double left = kUnknown;     ///< the predicted merit, or
  double promise = kUnknown;  ///< its predicted decrease
  double augment_norm = 0;    ///< ‖y_u‖
  bool complete = true;       ///< the solver reached its tolerance
};

/// Weight decay at a linearization.
struct Decay {
  double rate = 0;  ///< d; 0: no decay, and the other fields are unused
  std::optional<kernel::Model> model;
  std::function<torch::Tensor()> inputs;  ///< x of the linearization
};

struct FeedbackOptions {
  control::ControllerFactory make;
  /// The controller is the user's. It may keep state across steps and linearizations, so it is
  /// evaluated at every step, and its merit is used.
  bool own = false;
  Decay decay;
  bool steers = false;  ///< `steer` will be called: its matrix counts as memory
};

class Feedback {
 public:
  /// `plant` has the kernel of the coordinates, at any rate; its modes, if it was made from modes,
  /// are complete. `before` is the feedback of the previous linearization, or null: a user's
  /// controller continues from its state.
  /// @throws InvalidArgument if modes are missing.
  Feedback(CoordinatesPtr coordinates, control::Plant plant, FeedbackOptions options,
           const Feedback* before = nullptr);

  /// Designs the controller for rate α; reuses the linearization.
  void design(double rate);
  double rate() const { return rate_; }  ///< 0 before `design`
  double unit_rate() const { return plant_.unit_rate(); }
  /// The closed loop's contraction rate κ in the norm `distance`.
  double closed_loop_radius() const;
  /// Certificate of the current design. Given the kernel Θ of this linearization, it includes the
  /// residuals of equations and the eigenvalues.
  control::Certificate certificate(const torch::Tensor& theta = {}) const;

  // The arguments are outputs ŷ [b, n_L], float64.
  /// One step at `rate`, with the gain for the design rate, from the current parameters.
  Proposal propose(const torch::Tensor& outputs, double rate) const;
  /// Only the seed, by one product with a matrix that is computed at the first call. For classes
  /// and for a user's controller, the controller is evaluated instead.
  Steered steer(const torch::Tensor& outputs);
  /// That matrix [n, n], if the seed is its product with ŷ − y; otherwise undefined.
  torch::Tensor matrix() { return steers_blind() ? coordinates_->kernel(matrix_) : matrix_; }
  /// Whether `steer` always performs the same device operations, and reads nothing from the device.
  bool steers_blind();
  /// What the guard compares with the prediction, as far as it depends on the outputs.
  double merit(const torch::Tensor& outputs) const;
  /// The remaining part, at the current parameters: ½d‖θ‖².
  double parameter_merit() const;
  /// Distance from the equilibrium on the known reachable subspace, in the norm in which the loop
  /// contracts.
  double distance(const torch::Tensor& outputs) const;
  /// An upper bound on the change of `distance` per unit change of the outputs.
  double sensitivity() const { return coordinates_->sensitivity(); }
  /// Whether labels can reduce nothing further: the state is at rest up to an error `rounding` of
  /// the outputs, or up to the share tol::kUnreachableError. Always true with weight decay: if no
  /// step lowers the objective, the remaining errors are the price of small weights. Called at the
  /// end of a run; it may decompose the kernel.
  bool settled(const torch::Tensor& outputs, double rounding) const;
  /// Call after the step from these outputs was accepted.
  void took(const torch::Tensor& outputs);

  /// Whether it can be used at other parameters than its own; otherwise it is recomputed for each
  /// step, and not saved.
  bool lasts() const { return plant_.has_matrix() || plant_.has_modes(); }
  const control::Controller& controller() const { return *controller_; }  ///< after `design`

  int64_t bytes() const;  ///< memory in use
  /// Saves the results of the linearization; the caller provides options, labels and rate again.
  void save(SavedState& state) const;
  /// Restores the controller's state, for a feedback made and designed in the same way.
  void restore(const SavedState& state);
  /// The plant that `save` has written, with n errors.
  static control::Plant saved_plant(const SavedState& state, int64_t n, double rank_tolerance,
                                    torch::Device device, const control::Plant::Options& options);

 private:
  Proposal propose_decayed(const torch::Tensor& x, double rate) const;
  /// Whether the guard monitors the loss itself, and not the controller's merit.
  bool watches_loss() const {
    return options_.decay.rate > 0 || (!options_.own && !coordinates_->quadratic());
  }
  double loss(const torch::Tensor& x) const;
  /// The projection VVᵀx onto the modes; rounds like the steered error.
  torch::Tensor seen(const torch::Tensor& x) const;
  control::Observation at(const torch::Tensor& x) const { return {x, taken_}; }
  torch::Tensor steered(const torch::Tensor& x) const;

  CoordinatesPtr coordinates_;
  control::Plant plant_;
  FeedbackOptions options_;
  std::unique_ptr<control::Controller> controller_;
  double rate_ = 0;
  int64_t taken_ = 0;     ///< accepted steps
  torch::Tensor matrix_;  ///< c G, computed on demand
};

}  // namespace cdt::train
