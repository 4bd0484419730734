/// Weight decay as part of the control problem, around any feedback.
///
/// With the loss L + ½d‖θ‖² and θ = Jᵀa + θ⊥ the gradient is Jᵀ(c·seed of (m + (d/c)ã)) + dθ⊥, ã
/// being a in the feedback's coordinates: ã = λ⁻¹ times the state's change by Jθ. So the same
/// problem arises with the eigenvalues λ + d/c and the state m + (d/c)ã, and θ⊥ decays by itself.
/// Adding dθ to a steered step instead would have another fixed point, and is unstable at large
/// rates.
#pragma once

#include <cdt/kernel/model.h>
#include <cdt/train/feedback.h>

#include <functional>
#include <memory>

namespace cdt::train {

class DecayedFeedback : public Feedback {
 public:
  /// Decay d > 0 of the parameters of `model`; `inputs` gives the samples of the linearization.
  DecayedFeedback(std::unique_ptr<ModalFeedback> inner, double decay, kernel::Model model,
                  std::function<torch::Tensor()> inputs);

  void design(double rate) override { inner_->design(rate); }
  double rate() const override { return inner_->rate(); }
  double unit_rate() const override { return inner_->unit_rate(); }
  double closed_loop_radius() const override { return inner_->closed_loop_radius(); }
  control::Certificate certificate(const torch::Tensor& theta = {}) const override {
    return inner_->certificate(theta);
  }
  torch::Tensor state(const torch::Tensor& outputs) const override {
    return inner_->state(outputs);
  }
  /// Costs one Jacobian-vector product, Jθ.
  Proposal propose(const torch::Tensor& state, double rate) const override;
  /// Without the decay: the paper's method shrinks the parameters beside its step.
  Steered steer(const torch::Tensor& outputs) override { return inner_->steer(outputs); }
  bool steers_blind() const override { return inner_->steers_blind(); }
  /// The loss; `parameter_merit` is ½d‖θ‖².
  double merit(const torch::Tensor& state) const override { return inner_->loss(state); }
  double parameter_merit() const override;
  double distance(const torch::Tensor& state) const override { return inner_->distance(state); }
  double sensitivity() const override { return inner_->sensitivity(); }
  /// Where no step lowers the objective there is nothing left: errors stay, in favour of small
  /// weights.
  bool settled(const torch::Tensor&, double) const override { return true; }
  int64_t bytes() const override { return inner_->bytes(); }
  void save(SavedState& state) const override { inner_->save(state); }

 private:
  std::unique_ptr<ModalFeedback> inner_;
  double decay_;
  kernel::Model model_;
  std::function<torch::Tensor()> inputs_;
};

}  // namespace cdt::train
