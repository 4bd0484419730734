#include <cdt/control/general.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/train/quadratic_feedback.h>

namespace cdt::train {

using torch::Tensor;

namespace {

/// Shaped weights must be positive; this is as good as none.
constexpr double kLeastShare = 1e-9;

double norm_of(const Tensor& v) { return v.norm().item<double>(); }

}  // namespace

QuadraticFeedback::QuadraticFeedback(dynamics::Modes modes, Tensor labels, FeedbackOptions options)
    : Feedback(std::move(modes)),
      labels_(std::move(labels)),
      options_(std::move(options)),
      gradient_factor_(dynamics::gradient_factor(options_.loss, modes_.size())) {
  CDT_REQUIRE(!options_.weights || options_.shape == 0,
              "weights of samples or outputs and spectral shaping exclude each other: weighted "
              "errors have no common eigenbasis with the kernel");
}

void QuadraticFeedback::design(double rate) {
  dynamics::Modes effective = modes_;
  if (options_.ridge > 0) effective.values = modes_.values + options_.ridge;
  const Tensor& V = modes_.vectors;
  if (options_.weights && modes_.rank > 0) {
    const auto controller =
        control::design_general(effective, rate * gradient_factor_, *options_.weights * options_.q,
                                torch::full_like(*options_.weights, options_.p));
    step_ = effective.values * (rate * gradient_factor_);
    steering_ = V.t().mm(controller.steering).mm(V);
    cost_ = V.t().mm(controller.P).mm(V);
    radius_ = controller.closed_loop_radius;
  } else {
    control::SpectralWeights weights{options_.q, options_.p, {}, {}};
    if (options_.shape > 0 && modes_.rank > 0) {
      weights.shape_q = [this](const Tensor&) {
        const Tensor share = modes_.values / modes_.largest();
        return (share / (share + options_.shape)).clamp_min(kLeastShare);
      };
    }
    const auto controller = control::design_spectral(effective, rate * gradient_factor_, weights);
    step_ = controller.s;
    steering_ = controller.gains.steering;
    radius_ = controller.closed_loop_radius();
  }
  rate_ = rate;
  matrix_ = Tensor();
}

double QuadraticFeedback::unit_rate() const {
  return dynamics::unit_rate(modes_, gradient_factor_);
}

Tensor QuadraticFeedback::state(const Tensor& outputs) const {
  return modes_.vectors.t().mv(outputs.reshape({-1}) - labels_);
}

Tensor QuadraticFeedback::steer_modes(const Tensor& modal) const {
  return steering_.dim() == 1 ? steering_ * modal : steering_.mv(modal);
}

Proposal QuadraticFeedback::propose(const Tensor& modal, double rate, double weight_decay,
                                    const Tensor& moved) const {
  Proposal proposal;
  if (weight_decay == 0) {
    const Tensor steered = steer_modes(modal);
    proposal.augment_norm = norm_of(steered - modal);
    proposal.seed = expand(steered) * (rate * gradient_factor_);
    proposal.prediction = torch::addcmul(modal, step_, steered, -rate / rate_);
    return proposal;
  }
  // With decay d the gradient is Jᵀc_L(e + (d/c_L)a) + dθ⊥, where θ = Jᵀa + θ⊥. So the same problem
  // arises with the kernel Θ + (d/c_L)I and the error e + (d/c_L)a, and θ⊥ decays by itself.
  const Tensor in_modes = modes_.vectors.t().mv(moved);  // Vᵀ J θ
  const Tensor& lambda = modes_.values;
  const Tensor a = torch::where(lambda > 0, in_modes / lambda, torch::zeros_like(in_modes));
  const Tensor steered = steer_modes(modal + a * (weight_decay / gradient_factor_));
  proposal.shrink = std::min(1.0, rate * weight_decay);
  const Tensor seed = steered * (rate * gradient_factor_) - a * proposal.shrink;
  proposal.seed = expand(seed);
  proposal.augment_norm = norm_of(steered - modal);
  proposal.prediction = modal - in_modes * proposal.shrink - lambda * seed;
  return proposal;
}

Steered QuadraticFeedback::steer(const Tensor& outputs) {
  if (!matrix_.defined()) {
    const Tensor& V = modes_.vectors;
    matrix_ = steering_.dim() == 1 ? (V * steering_).mm(V.t()) : V.mm(steering_).mm(V.t());
  }
  const Tensor error = outputs.reshape({-1}) - labels_;
  const Tensor steered = matrix_.mv(error);
  return {steered * gradient_factor_, norm_of(steered - error)};
}

double QuadraticFeedback::merit(const Tensor& modal) const {
  if (cost_.defined() && options_.ridge == 0) {
    return torch::dot(modal, cost_.mv(modal)).item<double>();
  }
  const Tensor moved = options_.ridge > 0 ? modal : reachable(modal);
  return torch::dot(moved, moved).item<double>();
}

double QuadraticFeedback::distance(const Tensor& modal) const { return norm_of(reachable(modal)); }

bool QuadraticFeedback::settled(const Tensor& modal, double rounding) const {
  const double left = distance(modal);
  const double whole = norm_of(modal);
  return weighted() || left <= rounding || left * left <= tol::kUnreachableError * whole * whole;
}

}  // namespace cdt::train
