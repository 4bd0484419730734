/// The feedback at one linearization: what a step does and what the local model promises of it.
///
/// There are two kinds, for quadratic losses and for the cross entropy, each with its own
/// coordinates of the outputs, its state, in which the loop is linear; and a decorator of both that
/// adds weight decay. Whoever steers asks for steps and merits: the basis is the feedback's own
/// business, in a checkpoint and in memory too.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>
#include <cdt/train/history.h>
#include <cdt/train/saved_state.h>

#include <functional>

namespace cdt::train {

/// A step that the guard has to judge: θ⁺ = (1 − shrink)θ − Jᵀseed, or θ + delta.
struct Proposal {
  torch::Tensor seed;   ///< [n], float64, the rate included; undefined if delta is not
  torch::Tensor delta;  ///< [P]
  double shrink = 0;
  torch::Tensor prediction;   ///< the state that the local model promises, or
  double promise = kUnknown;  ///< by how much the merit falls
  double augment_norm = 0;    ///< ‖y_u‖
};

/// What the paper's method applies without asking: the gradient ∂L/∂ŷ, steered.
struct Steered {
  torch::Tensor seed;  ///< [n], float64, without the rate
  /// y_u, up to its sign and shape; made when it is asked for, since no step waits for it. Empty:
  /// labels are as they are.
  std::function<torch::Tensor()> augment;
};

class Feedback {
 public:
  virtual ~Feedback() = default;

  /// Designs the gain for rate α; the eigendecomposition is kept.
  virtual void design(double rate) = 0;
  virtual double rate() const = 0;
  /// The largest rate at which no mode of plain descent oscillates.
  virtual double unit_rate() const = 0;
  /// The closed loop's rate κ in the norm `distance`.
  virtual double closed_loop_radius() const = 0;

  /// What it promises as it is designed now. The kernel Θ of this linearization, where somebody has
  /// it and asks for all that there is to know: residuals of equations are measured with it, and
  /// eigenvalues computed.
  virtual control::Certificate certificate(const torch::Tensor& theta = {}) const = 0;

  /// Of outputs ŷ [b, n_L], float64.
  virtual torch::Tensor state(const torch::Tensor& outputs) const = 0;
  /// One step at `rate`, with the gain of the rate designed for, from the present parameters.
  virtual Proposal propose(const torch::Tensor& state, double rate) const = 0;
  /// The seed alone, by one product with a matrix that is made at the first call.
  virtual Steered steer(const torch::Tensor& outputs) = 0;
  /// That matrix [n, n], where the seed is its product with ŷ − y; undefined: it is something else.
  virtual torch::Tensor matrix() { return {}; }
  /// Whether `steer` is always the same operations on the device, and reads nothing of it.
  virtual bool steers_blind() const { return false; }
  /// What the guard holds against the promise, as far as the outputs decide it.
  virtual double merit(const torch::Tensor& state) const = 0;
  /// The rest of it, at the present parameters.
  virtual double parameter_merit() const { return 0; }
  /// From the equilibrium, on the reachable part, in the norm in which the loop contracts.
  virtual double distance(const torch::Tensor& state) const = 0;
  /// No less than the change of `distance` by a unit change of the outputs.
  virtual double sensitivity() const { return 1; }
  /// Whether nothing is left that labels can move: the state is at rest up to an error `rounding`
  /// of the outputs, or up to the share tol::kUnreachableError.
  virtual bool settled(const torch::Tensor& state, double rounding) const = 0;

  /// The step from this state was taken and kept.
  virtual void took(const torch::Tensor&) {}

  /// Whether it serves other parameters than those that it was made at; one that does not is made
  /// anew for each step, and not saved.
  virtual bool lasts() const { return true; }
  /// Whether the last proposal is as exact as its form can be.
  virtual bool complete() const { return true; }

  /// Memory that it needs in use.
  virtual int64_t bytes() const = 0;
  /// All that the linearization found; options, labels and the rate are the caller's to give again.
  virtual void save(SavedState& state) const = 0;
  /// What it has beside the linearization and the design, of one that was made and designed so.
  virtual void restore(const SavedState&) {}
};

/// Feedback in an eigenbasis: the state is m [m], a step that is seeded with `seed_of(u)` takes it
/// to m − λ ∘ u, and the gradient of the loss is the seed of c·m (exactly so at the linearization).
class ModalFeedback : public Feedback {
 public:
  double rate() const override { return rate_; }
  double closed_loop_radius() const override { return radius_; }
  control::Certificate certificate(const torch::Tensor& theta = {}) const override;

  /// λ [m]
  const torch::Tensor& eigenvalues() const { return modes_.values; }
  /// c
  virtual double gradient_factor() const = 0;
  /// By how much the state moves if the outputs do, by [b·n_L].
  virtual torch::Tensor moved_state(const torch::Tensor& outputs) const = 0;
  /// [n]
  virtual torch::Tensor seed_of(const torch::Tensor& modal) const = 0;
  /// G m: the gradient, steered, is the seed of c·G m.
  virtual torch::Tensor steer_modes(const torch::Tensor& modal) const = 0;
  /// The loss above its minimum, with its weights, errors out of reach included.
  virtual double loss(const torch::Tensor& state) const = 0;

  /// From the next design on, for the kernel with `ridge` added to every eigenvalue.
  void set_ridge(double ridge) { ridge_ = ridge; }

  int64_t bytes() const override;
  void save(SavedState& state) const override;
  static bool is_saved(const SavedState& state);
  /// The n modes that `save` has written.
  static dynamics::Modes saved_modes(const SavedState& state, int64_t n, torch::Device device);

 protected:
  /// One layout of the eigenvectors, wherever they come from: products round the same way after a
  /// checkpoint.
  /// @throws InvalidArgument unless the modes are complete: the state is all of the error.
  explicit ModalFeedback(dynamics::Modes modes);

  torch::Tensor reachable(const torch::Tensor& modal) const {
    return modal.narrow(0, modes_.nullity(), modes_.rank);
  }
  /// The plant at rate α: steps are α·factor times the eigenvalues, the ridge among them.
  control::Plant plant(double rate, double factor) const;
  /// Θ of the outputs as the kernel of the state: of the state's own coordinates. Default: as it
  /// is.
  virtual torch::Tensor kernel_of_state(const torch::Tensor& theta) const { return theta; }

  dynamics::Modes modes_;
  double ridge_ = 0;
  double rate_ = 0;
  double radius_ = 0;
  std::unique_ptr<control::Controller> controller_;  ///< once designed
};

}  // namespace cdt::train
