/// Between a controller and the network: what a step does at one linearization, and what the local
/// model promises of it.
///
/// Coordinates turn outputs into errors x; the controller steers them, or gives the step itself;
/// the feedback makes seeds and parameter steps of that, and says what a guard watches. Weight
/// decay d is part of the same problem. With the loss L + ½d‖θ‖² and θ = Jᵀa + θ⊥ the gradient is
/// Jᵀ(c·seed of (x + (d/c)ã)) + dθ⊥, ã being a in the coordinates, M⁻¹ times the change of x by Jθ:
/// the eigenvalues are λ + d/c, the state is x + (d/c)ã, and θ⊥ decays by itself. Adding dθ to a
/// steered step instead would have another fixed point, and is unstable at large rates.
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

/// A step that the guard has to judge: θ⁺ = (1 − shrink)θ − Jᵀseed, or θ + delta.
struct Proposal {
  torch::Tensor seed;   ///< [n], float64, the rate included; undefined if delta is not
  torch::Tensor delta;  ///< [P]
  double shrink = 0;
  double left = kUnknown;     ///< the merit that the local model promises, or
  double promise = kUnknown;  ///< by how much it falls
  double augment_norm = 0;    ///< ‖y_u‖
  bool complete = true;       ///< as exact as its solver can be
};

/// Weight decay of a linearization.
struct Decay {
  double rate = 0;  ///< d; 0: there is none, and nothing else is asked for
  std::optional<kernel::Model> model;
  std::function<torch::Tensor()> inputs;  ///< x of the linearization
};

struct FeedbackOptions {
  control::ControllerFactory make;
  /// The user's: it may keep a state over steps and linearizations, so each step asks it, and what
  /// it says of merit holds.
  bool own = false;
  Decay decay;
  bool steers = false;  ///< `steer` will be called: its matrix counts as memory
};

class Feedback {
 public:
  /// `plant` is of the coordinates' kernel, at any rate; its modes, if it was made of them, are
  /// complete. `before` is the feedback of the linearization before, or none: a controller of the
  /// user's goes on from its state.
  /// @throws InvalidArgument if modes are missing.
  Feedback(CoordinatesPtr coordinates, control::Plant plant, FeedbackOptions options,
           const Feedback* before = nullptr);

  /// Designs the controller for rate α; what the linearization has cost is kept.
  void design(double rate);
  double rate() const { return rate_; }  ///< 0 before
  double unit_rate() const { return plant_.unit_rate(); }
  /// The closed loop's rate κ in the norm `distance`.
  double closed_loop_radius() const;
  /// What it promises as it is designed now. The kernel Θ of this linearization, where somebody has
  /// it and asks for all that there is to know: residuals of equations are measured with it, and
  /// eigenvalues computed.
  control::Certificate certificate(const torch::Tensor& theta = {}) const;

  // Of outputs ŷ [b, n_L], float64.
  /// One step at `rate`, with the gain of the rate designed for, from the present parameters.
  Proposal propose(const torch::Tensor& outputs, double rate) const;
  /// The seed alone, by one product with a matrix that is made at the first call; of classes, and
  /// of a controller of the user's, by that.
  Steered steer(const torch::Tensor& outputs);
  /// That matrix [n, n], where the seed is its product with ŷ − y; undefined: it is something else.
  torch::Tensor matrix() { return steers_blind() ? coordinates_->kernel(matrix_) : matrix_; }
  /// Whether `steer` is always the same operations on the device, and reads nothing of it.
  bool steers_blind();
  /// What the guard holds against the promise, as far as the outputs decide it.
  double merit(const torch::Tensor& outputs) const;
  /// The rest of it, at the present parameters: ½d‖θ‖².
  double parameter_merit() const;
  /// From the equilibrium, on what is known to be reachable, in the norm in which the loop
  /// contracts.
  double distance(const torch::Tensor& outputs) const;
  /// No less than the change of `distance` by a unit change of the outputs.
  double sensitivity() const { return coordinates_->sensitivity(); }
  /// Whether nothing is left that labels can move: the state is at rest up to an error `rounding`
  /// of the outputs, or up to the share tol::kUnreachableError. With weight decay always: where no
  /// step lowers the objective errors stay, in favour of small weights. Asked at a run's end, it
  /// may decompose the kernel.
  bool settled(const torch::Tensor& outputs, double rounding) const;
  /// The step from these outputs was taken and kept.
  void took(const torch::Tensor& outputs);

  /// Whether it serves other parameters than those that it was made at; one that does not is made
  /// anew for each step, and not saved.
  bool lasts() const { return plant_.has_matrix() || plant_.has_modes(); }
  const control::Controller& controller() const { return *controller_; }  ///< once designed

  int64_t bytes() const;  ///< that it needs in use
  /// All that the linearization found; options, labels and the rate are the caller's to give again.
  void save(SavedState& state) const;
  /// What the controller has beside that, of a feedback that was made and designed so.
  void restore(const SavedState& state);
  /// The plant that `save` has written, of n errors; none if it has neither matrix nor modes.
  static control::Plant saved_plant(const SavedState& state, int64_t n, double rank_tolerance,
                                    torch::Device device, const control::Plant::Options& options);

 private:
  Proposal propose_decayed(const torch::Tensor& x, double rate) const;
  /// Whether the guard watches the loss itself, and not what the controller says.
  bool watches_loss() const {
    return options_.decay.rate > 0 || (!options_.own && !coordinates_->quadratic());
  }
  double loss(const torch::Tensor& x) const;
  /// x as the modes have it, VVᵀx: rounds as what is steered.
  torch::Tensor seen(const torch::Tensor& x) const;
  control::Observation at(const torch::Tensor& x) const { return {x, taken_}; }
  torch::Tensor steered(const torch::Tensor& x) const;

  CoordinatesPtr coordinates_;
  control::Plant plant_;
  FeedbackOptions options_;
  std::unique_ptr<control::Controller> controller_;
  double rate_ = 0;
  int64_t taken_ = 0;     ///< steps that were kept
  torch::Tensor matrix_;  ///< c G, once somebody has asked for it
};

}  // namespace cdt::train
