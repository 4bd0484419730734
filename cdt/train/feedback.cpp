#include <cdt/control/general.h>
#include <cdt/core/error.h>
#include <cdt/train/feedback.h>

namespace cdt::train {

using torch::Tensor;

namespace {

/// Shaped weights must be positive; this is as good as none.
constexpr double kLeastShare = 1e-9;

}  // namespace

Feedback::Feedback(dynamics::Spectrum spectrum, FeedbackOptions options)
    : spectrum_(std::move(spectrum)), options_(std::move(options)) {
  CDT_REQUIRE(!options_.weights || options_.shape == 0,
              "weights of samples or outputs and spectral shaping exclude each other: weighted "
              "errors have no common eigenbasis with the kernel");
  // One layout, wherever the spectrum comes from: products round the same way after a checkpoint.
  spectrum_.eigenvectors = spectrum_.eigenvectors.t().contiguous().t();
}

void Feedback::design(double rate) {
  dynamics::Spectrum effective = spectrum_;
  if (options_.ridge > 0) effective.eigenvalues = spectrum_.eigenvalues + options_.ridge;
  const Tensor& V = spectrum_.eigenvectors;
  if (options_.weights && spectrum_.rank > 0) {
    const auto controller =
        control::design_general(effective, rate, options_.loss, *options_.weights * options_.q,
                                torch::full_like(*options_.weights, options_.p));
    step_ =
        effective.eigenvalues * (rate * dynamics::gradient_factor(options_.loss, spectrum_.size()));
    steering_ = V.t().mm(controller.steering).mm(V);
    cost_ = V.t().mm(controller.P).mm(V);
    radius_ = controller.closed_loop_radius;
  } else {
    control::SpectralWeights weights{options_.q, options_.p, {}, {}};
    if (options_.shape > 0 && spectrum_.rank > 0) {
      weights.shape_q = [this](const Tensor&) {
        const Tensor share = spectrum_.eigenvalues / spectrum_.largest();
        return (share / (share + options_.shape)).clamp_min(kLeastShare);
      };
    }
    const auto controller = control::design_spectral(effective, rate, options_.loss, weights);
    step_ = controller.s;
    steering_ = controller.modes.steering;
    radius_ = controller.closed_loop_radius();
  }
  rate_ = rate;
}

Tensor Feedback::project(const Tensor& error) const { return spectrum_.eigenvectors.t().mv(error); }

Tensor Feedback::expand(const Tensor& modal) const { return spectrum_.eigenvectors.mv(modal); }

Tensor Feedback::steer(const Tensor& modal) const {
  return steering_.dim() == 1 ? steering_ * modal : steering_.mv(modal);
}

Tensor Feedback::predict(const Tensor& modal, const Tensor& steered, double factor) const {
  return torch::addcmul(modal, step_, steered, -factor);
}

Tensor Feedback::reachable(const Tensor& modal) const {
  return modal.narrow(0, spectrum_.nullity(), spectrum_.rank);
}

double Feedback::merit(const Tensor& modal) const {
  if (cost_.defined()) return torch::dot(modal, cost_.mv(modal)).item<double>();
  const Tensor moved = reachable(modal);
  return torch::dot(moved, moved).item<double>();
}

Tensor Feedback::steering_matrix() const {
  const Tensor& V = spectrum_.eigenvectors;
  return steering_.dim() == 1 ? (V * steering_).mm(V.t()) : V.mm(steering_).mm(V.t());
}

}  // namespace cdt::train
