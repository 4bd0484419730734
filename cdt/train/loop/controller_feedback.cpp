#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/loop/controller_feedback.h>

#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

constexpr const char* kMatrix = "kernel";
constexpr const char* kCurvature = "curvature";

/// Of a step: what the controller gave is what it promised to give.
Tensor require_steered(const Tensor& v, int64_t n) {
  require_shape(v, {n}, "what a controller steers to");
  require_floating(v, "what a controller steers to");
  return v.detach().to(torch::kFloat64);
}

}  // namespace

Tensor ControllerFeedback::Coordinates::state(const Tensor& outputs) const {
  if (classes) {
    if (!torch::isfinite(outputs).all().item<bool>()) {  // a step too far, not the caller's mistake
      return torch::full({classes->samples * (classes->classes - 1)}, NAN, outputs.options());
    }
    return classes->coordinates(outputs);
  }
  const Tensor e = outputs.reshape({-1}) - labels;
  return root.defined() ? root * e : e;
}

Tensor ControllerFeedback::Coordinates::seed(const Tensor& v) const {
  if (classes) return classes->seed(v).reshape({-1}) * static_cast<double>(classes->samples);
  return root.defined() ? root * v : v;
}

Tensor ControllerFeedback::Coordinates::kernel(const Tensor& theta) const {
  if (classes) return classes->kernel_of_state(theta);
  return root.defined() ? theta * root.unsqueeze(1) * root : theta;
}

ControllerFeedback::ControllerFeedback(Coordinates coordinates, Tensor matrix,
                                       double rank_tolerance, double gradient_factor,
                                       control::ControllerFactory make,
                                       const ControllerFeedback* before)
    : coordinates_(std::move(coordinates)),
      matrix_(std::move(matrix)),
      rank_tolerance_(rank_tolerance),
      gradient_factor_(gradient_factor),
      make_(std::move(make)) {
  if (before == nullptr || !before->controller_) return;
  rate_ = before->rate_;
  controller_ = before->controller_->redesigned(plant());
  taken_ = before->taken_;
}

void ControllerFeedback::design(double rate) {
  rate_ = rate;
  controller_ =
      controller_ ? controller_->redesigned(controller_->plant().at(rate)) : make_(plant());
  CDT_REQUIRE(controller_ != nullptr, "expected a controller, got a null pointer");
}

control::Plant ControllerFeedback::plant() const {
  return control::Plant::of_kernel(matrix_, rank_tolerance_,
                                   {.gradient_factor = gradient_factor_, .rate = rate_});
}

double ControllerFeedback::unit_rate() const {
  const double largest = largest_eigenvalue(matrix_);
  return largest > 0 ? 1 / (gradient_factor_ * largest) : 1;
}

control::Certificate ControllerFeedback::certificate(const Tensor& theta) const {
  if (!controller_) return {};
  return controller_->certificate(theta.defined() ? coordinates_.kernel(theta) : theta);
}

Tensor ControllerFeedback::state(const Tensor& outputs) const {
  return coordinates_.state(outputs);
}

Proposal ControllerFeedback::propose(const Tensor& x, double rate) const {
  const Tensor v = require_steered(controller_->steer(at(x)), x.numel());
  Proposal proposal;
  proposal.augment_norm = (v - x).norm().item<double>();
  proposal.seed = coordinates_.seed(v) * (rate * gradient_factor_);
  const Tensor predicted = controller_->predict(at(x));
  proposal.prediction = rate == rate_ ? predicted : x + (predicted - x) * (rate / rate_);
  return proposal;
}

Steered ControllerFeedback::steer(const Tensor& outputs) {
  const Tensor x = coordinates_.state(outputs);
  const Tensor v = require_steered(controller_->steer(at(x)), x.numel());
  return {coordinates_.seed(v) * gradient_factor_, [v, x] { return v - x; }};
}

double ControllerFeedback::merit(const Tensor& x) const {
  return torch::isfinite(x).all().item<bool>() ? controller_->merit(x) : NAN;
}

double ControllerFeedback::distance(const Tensor& x) const { return x.norm().item<double>(); }

bool ControllerFeedback::settled(const Tensor& x, double rounding) const {
  const dynamics::Modes& modes = controller_->plant().modes();
  const double left = modes.reachable_vectors().t().mv(x).norm().item<double>();
  return left <= rounding ||
         left * left <= tol::kUnreachableError * torch::dot(x, x).item<double>();
}

void ControllerFeedback::took(const Tensor& x) {
  controller_->took(at(x));
  ++taken_;
}

int64_t ControllerFeedback::bytes() const { return 3 * static_cast<int64_t>(matrix_.nbytes()); }

void ControllerFeedback::save(SavedState& state) const {
  state.tensors[kMatrix] = matrix_;
  if (coordinates_.classes) state.tensors[kCurvature] = coordinates_.classes->curvature;
  state.values["taken"] = taken_;
  controller_->fields([&state](const std::string& name, Tensor& value) {
    state.values["has_own." + name] = value.defined();
    if (value.defined()) state.tensors["own." + name] = value.clone();
  });
}

Tensor ControllerFeedback::saved_matrix(const SavedState& state, int64_t n, torch::Device device) {
  const Tensor matrix = state.tensor(kMatrix, {n, n});
  require_symmetric(matrix, "the checkpoint's kernel", tol::symmetry(torch::kFloat64));
  return matrix.to(device);
}

void ControllerFeedback::restore(const SavedState& state) {
  taken_ = state.count("taken");
  controller_->fields([&](const std::string& name, Tensor& value) {
    if (!state.flag("has_own." + name)) {
      value = Tensor();
      return;
    }
    const auto saved = state.tensors.find("own." + name);
    CDT_REQUIRE(saved != state.tensors.end(), "the checkpoint lacks the controller's ", name);
    value = saved->second.to(matrix_.device()).clone();
  });
}

}  // namespace cdt::train
