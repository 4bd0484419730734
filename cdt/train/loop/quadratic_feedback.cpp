#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/train/loop/quadratic_feedback.h>

namespace cdt::train {

using torch::Tensor;

namespace {

/// Shaped weights must be positive; this is as good as none.
constexpr double kLeastShare = 1e-9;

double norm_of(const Tensor& v) { return v.norm().item<double>(); }

}  // namespace

QuadraticFeedback::QuadraticFeedback(dynamics::Modes modes, Tensor labels, FeedbackOptions options)
    : ModalFeedback(std::move(modes)),
      labels_(std::move(labels)),
      options_(std::move(options)),
      gradient_factor_(loss::gradient_factor(options_.loss, modes_.size())) {
  CDT_REQUIRE(!options_.weights || options_.shape == 0,
              "weights of samples or outputs and spectral shaping exclude each other: weighted "
              "errors have no common eigenbasis with the kernel");
}

void QuadraticFeedback::design(double rate) {
  const control::Plant here = plant(rate, gradient_factor_);
  control::ControlProblem problem{.q = options_.q, .p = options_.p};
  if (options_.weights && modes_.rank > 0) {
    problem.Q = *options_.weights * options_.q;
    problem.R = torch::full_like(*options_.weights, options_.p);
  }
  if (options_.shape > 0 && modes_.rank > 0) {
    problem.shape = [values = modes_.values, largest = modes_.largest(), scale = here.step_scale(),
                     ridge = ridge_, shape = options_.shape](const Tensor& s) {
      const bool own = s.sizes() == values.sizes();  // to the bit
      const Tensor share = own ? values / largest : (s / scale - ridge).clamp_min(0) / largest;
      return (share / (share + shape)).clamp_min(kLeastShare);
    };
  }
  auto controller = control::design(here, problem);
  if (const auto* law = dynamic_cast<const control::ModalController*>(controller.get())) {
    steering_ = law->steering();
    radius_ = law->closed_loop_radius();
  } else {
    const auto& gain = dynamic_cast<const control::GainController&>(*controller).gain();
    const Tensor& V = modes_.vectors;
    steering_ = V.t().mm(gain.steering).mm(V);
    cost_ = V.t().mm(gain.cost).mm(V);
    radius_ = gain.radius;
  }
  step_ = here.steps();
  controller_ = std::move(controller);
  rate_ = rate;
  matrix_ = Tensor();
}

double QuadraticFeedback::unit_rate() const {
  return dynamics::unit_rate(modes_, gradient_factor_);
}

Tensor QuadraticFeedback::state(const Tensor& outputs) const {
  return modes_.vectors.t().mv(outputs.reshape({-1}) - labels_);
}

Tensor QuadraticFeedback::moved_state(const Tensor& outputs) const {
  return modes_.vectors.t().mv(outputs);
}

Tensor QuadraticFeedback::seed_of(const Tensor& modal) const { return modes_.vectors.mv(modal); }

Tensor QuadraticFeedback::steer_modes(const Tensor& modal) const {
  return steering_.dim() == 1 ? steering_ * modal : steering_.mv(modal);
}

Proposal QuadraticFeedback::propose(const Tensor& modal, double rate) const {
  Proposal proposal;
  const Tensor steered = steer_modes(modal);
  proposal.augment_norm = norm_of(steered - modal);
  proposal.seed = seed_of(steered) * (rate * gradient_factor_);
  proposal.prediction = torch::addcmul(modal, step_, steered, -rate / rate_);
  return proposal;
}

Tensor QuadraticFeedback::matrix() {
  if (!matrix_.defined()) {
    const Tensor& V = modes_.vectors;
    matrix_ = steering_.dim() == 1 ? (V * steering_).mm(V.t()) : V.mm(steering_).mm(V.t());
    matrix_.mul_(gradient_factor_);
  }
  return matrix_;
}

Steered QuadraticFeedback::steer(const Tensor& outputs) {
  const Tensor error = outputs.reshape({-1}) - labels_;
  const Tensor seed = matrix().mv(error);
  return {seed, [seed, error, c = gradient_factor_] { return seed / c - error; }};
}

double QuadraticFeedback::merit(const Tensor& modal) const {
  if (cost_.defined()) return torch::dot(modal, cost_.mv(modal)).item<double>();
  const Tensor moved = reachable(modal);
  return torch::dot(moved, moved).item<double>();
}

double QuadraticFeedback::loss(const Tensor& modal) const {
  const Tensor error = options_.weights ? modes_.vectors.mv(modal) : modal;
  const Tensor weighted = options_.weights ? *options_.weights * error : error;
  return gradient_factor_ / 2 * torch::dot(error, weighted).item<double>();
}

double QuadraticFeedback::distance(const Tensor& modal) const { return norm_of(reachable(modal)); }

bool QuadraticFeedback::settled(const Tensor& modal, double rounding) const {
  const double left = distance(modal);
  const double whole = norm_of(modal);
  return options_.weights || left <= rounding ||
         left * left <= tol::kUnreachableError * whole * whole;
}

int64_t QuadraticFeedback::bytes() const {
  // Steering and cost of the general solver, the matrix of `steer`.
  return ModalFeedback::bytes() * (1 + (options_.weights ? 2 : 0) + (options_.steers ? 1 : 0));
}

}  // namespace cdt::train
