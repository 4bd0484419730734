#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>
#include <cdt/train/loop/class_feedback.h>

#include <cmath>

namespace cdt::train {

using torch::Tensor;

ClassFeedback::ClassFeedback(control::CrossEntropyPlant plant, double q, double p)
    : ModalFeedback(plant.modes), plant_(std::move(plant)), q_(q), p_(p) {
  plant_.modes = modes_;
}

void ClassFeedback::design(double rate) {
  const control::Plant here =
      plant(rate / static_cast<double>(plant_.samples), 1);  // the step of ζ is (α/r)H^½ΘH^½
  auto controller = std::make_unique<control::ModalController>(here, control::lqr(q_, p_));
  step_ = controller->steps();
  steering_ = controller->steering();
  radius_ = controller->closed_loop_radius();
  controller_ = std::move(controller);
  rate_ = rate;
}

Tensor ClassFeedback::kernel_of_state(const Tensor& theta) const {
  return plant_.kernel_of_state(theta);
}

Tensor ClassFeedback::state(const Tensor& outputs) const {
  if (!torch::isfinite(outputs).all().item<bool>()) {  // a step too far, not the caller's mistake
    return torch::full({modes_.count()}, NAN, modes_.values.options());
  }
  return modes_.vectors.t().mv(plant_.coordinates(outputs));
}

Tensor ClassFeedback::moved_state(const Tensor& outputs) const {
  const Tensor zero_sum = outputs.view({plant_.samples, -1}).mm(plant_.basis).unsqueeze(2);
  return modes_.vectors.t().mv(plant_.root.matmul(zero_sum).reshape({-1}));
}

Tensor ClassFeedback::seed_of(const Tensor& modal) const {
  return plant_.seed(modes_.vectors.mv(modal)).reshape({-1}) * static_cast<double>(plant_.samples);
}

Tensor ClassFeedback::logits(const Tensor& modal) const {
  return plant_.logits(modes_.vectors.mv(modal));
}

Steered ClassFeedback::steered(const Tensor& modal) const {
  const Tensor seed = plant_.seed(modes_.vectors.mv(steer_modes(modal)));
  // ȳ = p − r·seed, so y_u = ȳ − ȳ_ε.
  const auto augment = [this, modal, seed] {
    return torch::softmax(logits(modal), 1) - plant_.targets -
           seed * static_cast<double>(plant_.samples);
  };
  return {seed.reshape({-1}), augment};
}

Proposal ClassFeedback::propose(const Tensor& modal, double rate) const {
  const Steered action = steered(modal);
  Proposal proposal;
  proposal.seed = action.seed * rate;
  proposal.augment_norm = action.augment().norm().item<double>();
  proposal.prediction = torch::addcmul(modal, step_, steer_modes(modal), -rate / rate_);
  return proposal;
}

Steered ClassFeedback::steer(const Tensor& outputs) { return steered(state(outputs)); }

double ClassFeedback::loss(const Tensor& modal) const {
  if (!torch::isfinite(modal).all().item<bool>()) return NAN;
  return plant_.excess_loss(logits(modal));
}

double ClassFeedback::merit(const Tensor& modal) const {
  return modes_.rank == 0 ? 0 : loss(modal);
}

double ClassFeedback::distance(const Tensor& modal) const {
  return reachable(modal).norm().item<double>();
}

double ClassFeedback::sensitivity() const {
  return std::sqrt(torch::linalg_eigvalsh(plant_.curvature).max().item<double>());
}

bool ClassFeedback::settled(const Tensor& modal, double rounding) const {
  if (distance(modal) <= sensitivity() * rounding) return true;
  // The loss has errors that no label moves if its gradient H^−½Zᵀ(p − ȳ_ε) is out of reach.
  const Tensor z = logits(modal);
  const Tensor gradient = (torch::softmax(z, 1) - plant_.targets).mm(plant_.basis).unsqueeze(2);
  const Tensor in_modes = modes_.vectors.t().mv(plant_.inverse_root.matmul(gradient).reshape({-1}));
  const double left = reachable(in_modes).norm().item<double>();
  const double whole = in_modes.norm().item<double>();
  return left * left <= tol::kUnreachableError * whole * whole;
}

int64_t ClassFeedback::bytes() const {
  constexpr int64_t kBlocks = 3;  // H and its roots
  return ModalFeedback::bytes() + kBlocks * static_cast<int64_t>(plant_.curvature.nbytes());
}

void ClassFeedback::save(SavedState& state) const {
  ModalFeedback::save(state);
  state.tensors["curvature"] = plant_.curvature;
}

control::CrossEntropyPlant ClassFeedback::saved_curvature(const SavedState& state,
                                                          const Tensor& labels, double smoothing) {
  const int64_t free = labels.size(1) - 1;
  const Tensor curvature = state.tensor("curvature", {labels.size(0), free, free});
  auto plant = control::cross_entropy_plant(labels, smoothing, curvature.to(labels.device()));
  require_finite(plant.inverse_root, "the inverse root of the checkpoint's curvature");
  return plant;
}

control::CrossEntropyPlant ClassFeedback::saved_plant(const SavedState& state, const Tensor& labels,
                                                      double smoothing) {
  auto plant = saved_curvature(state, labels, smoothing);
  plant.modes = saved_modes(state, labels.size(0) * (labels.size(1) - 1), labels.device());
  return plant;
}

}  // namespace cdt::train
