#include <cdt/core/check.h>
#include <cdt/kernel/products.h>
#include <cdt/train/loop/decayed_feedback.h>
#include <cdt/train/setup.h>

namespace cdt::train {

using torch::Tensor;

DecayedFeedback::DecayedFeedback(std::unique_ptr<ModalFeedback> inner, double decay,
                                 kernel::Model model, std::function<Tensor()> inputs)
    : inner_(std::move(inner)),
      decay_(decay),
      model_(std::move(model)),
      inputs_(std::move(inputs)) {
  require_positive(decay, "weight decay");
  inner_->set_ridge(decay / inner_->gradient_factor());
}

Proposal DecayedFeedback::propose(const Tensor& modal, double rate) const {
  const Tensor moved = kernel::jacobian_vector_product(
      model_, inputs_(), kernel::flatten(model_, model_.parameters()));
  const Tensor in_modes = inner_->moved_state(moved.to(torch::kFloat64));
  const Tensor& lambda = inner_->eigenvalues();
  const double c = inner_->gradient_factor();
  const Tensor a = torch::where(lambda > 0, in_modes / lambda, torch::zeros_like(in_modes));
  const Tensor steered = inner_->steer_modes(modal + a * (decay_ / c));
  Proposal proposal;
  proposal.shrink = std::min(1.0, rate * decay_);
  const Tensor step = steered * (rate * c) - a * proposal.shrink;
  proposal.seed = inner_->seed_of(step);
  proposal.augment_norm = (steered - modal).norm().item<double>();
  proposal.prediction = modal - in_modes * proposal.shrink - lambda * step;
  return proposal;
}

double DecayedFeedback::parameter_merit() const {
  return decay_ / 2 * parameter_square(model_).item<double>();
}

}  // namespace cdt::train
