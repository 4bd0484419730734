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

class ClassFeedback : public Feedback {
 public:
  ClassFeedback(control::CrossEntropyPlant plant, double q, double p);

  void design(double rate) override;
  torch::Tensor curvature() const override { return plant_.curvature; }
  double unit_rate() const override { return plant_.unit_rate(); }
  torch::Tensor state(const torch::Tensor& outputs) const override;
  /// @throws InvalidArgument with weight decay, of which this feedback knows nothing.
  Proposal propose(const torch::Tensor& state, double rate, double weight_decay,
                   const torch::Tensor& moved) const override;
  Steered steer(const torch::Tensor& outputs) override;
  /// The smoothed loss above its minimum; 0 if no label moves any logit against another.
  double merit(const torch::Tensor& state) const override;
  double distance(const torch::Tensor& state) const override;
  double sensitivity() const override;
  bool settled(const torch::Tensor& state, double rounding) const override;

 private:
  torch::Tensor logits(const torch::Tensor& modal) const;
  Steered steer_modes(const torch::Tensor& modal, const torch::Tensor& steered) const;

  control::CrossEntropyPlant plant_;
  double q_;
  double p_;
  torch::Tensor step_;      ///< s [m]
  torch::Tensor steering_;  ///< 1 + k [m]
};

}  // namespace cdt::train
