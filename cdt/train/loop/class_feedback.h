/// Feedback for the softmax cross entropy on logits (control/cross_entropy.h): the state is ζ =
/// H^½(z − z_e) in the eigenbasis of H^½ΘH^½ [r(C − 1)].
///
/// The gain weighs ξᵀHξ against y_uᵀH⁻¹y_u, the loss to second order: closed form, so that a new
/// rate costs nothing. H stays that of the linearization: the logits of the local model move as
/// promised whatever H is, and the guard compares with the loss itself.
#pragma once

#include <cdt/control/cross_entropy.h>
#include <cdt/train/feedback.h>

namespace cdt::train {

class ClassFeedback : public ModalFeedback {
 public:
  ClassFeedback(control::CrossEntropyPlant plant, double q, double p);

  void design(double rate) override;
  double unit_rate() const override { return plant_.unit_rate(); }
  torch::Tensor state(const torch::Tensor& outputs) const override;
  Proposal propose(const torch::Tensor& state, double rate) const override;
  Steered steer(const torch::Tensor& outputs) override;
  /// The smoothed loss above its minimum; 0 if no label moves any logit against another.
  double merit(const torch::Tensor& state) const override;
  double distance(const torch::Tensor& state) const override;
  double sensitivity() const override;
  bool settled(const torch::Tensor& state, double rounding) const override;

  double gradient_factor() const override { return 1 / static_cast<double>(plant_.samples); }
  torch::Tensor moved_state(const torch::Tensor& outputs) const override;
  torch::Tensor seed_of(const torch::Tensor& modal) const override;
  torch::Tensor steer_modes(const torch::Tensor& modal) const override { return steering_ * modal; }
  double loss(const torch::Tensor& state) const override;

  int64_t bytes() const override;
  /// With the mean Hessian H, which the modes contain.
  void save(SavedState& state) const override;
  static control::CrossEntropyPlant saved_curvature(const SavedState& state,
                                                    const torch::Tensor& labels, double smoothing);
  static control::CrossEntropyPlant saved_plant(const SavedState& state,
                                                const torch::Tensor& labels, double smoothing);

 protected:
  torch::Tensor kernel_of_state(const torch::Tensor& theta) const override;

 private:
  torch::Tensor logits(const torch::Tensor& modal) const;
  Steered steered(const torch::Tensor& modal) const;

  control::CrossEntropyPlant plant_;
  double q_;
  double p_;
  torch::Tensor step_;      ///< s [m]
  torch::Tensor steering_;  ///< 1 + k [m]
};

}  // namespace cdt::train
