#include <cdt/control/apply/steering.h>
#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/products.h>
#include <cdt/train/loop/feedback.h>
#include <cdt/train/setup.h>

#include <algorithm>
#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

constexpr const char* kKernel = "kernel";

/// Brings eigenvectors to one memory layout, whatever their origin, so that products round the same
/// way after a checkpoint.
control::Plant in_one_layout(control::Plant plant) {
  if (plant.has_matrix() || !plant.has_modes()) return plant;
  dynamics::Modes modes = plant.modes();
  dynamics::require_complete(modes, "feedback in modes");
  modes.vectors = modes.vectors.t().contiguous().t();
  return control::Plant::of_modes(std::move(modes), plant.options());
}

double norm_of(const Tensor& v) { return v.norm().item<double>(); }

dynamics::Modes saved_modes(const SavedState& state, int64_t n, torch::Device device) {
  dynamics::Modes modes;
  modes.values = state.tensor("eigenvalues", {n}).to(device);
  modes.vectors = state.tensor("eigenvectors", {n, n}).to(device);
  modes.rank = state.count("rank");
  modes.rank_tolerance = state.non_negative("rank_tolerance");
  modes.smallest = state.number("smallest");
  CDT_REQUIRE(modes.rank <= n, "the checkpoint's rank must be at most ", n, ", got ", modes.rank);
  CDT_REQUIRE(modes.values.diff().ge(0).all().item<bool>() &&
                  modes.values.narrow(0, 0, modes.nullity()).eq(0).all().item<bool>() &&
                  modes.reachable_values().gt(0).all().item<bool>(),
              "the checkpoint's eigenvalues must ascend, from as many zeros as the rank leaves");
  return modes;
}

}  // namespace

Feedback::Feedback(CoordinatesPtr coordinates, control::Plant plant, FeedbackOptions options,
                   const Feedback* before)
    : coordinates_(std::move(coordinates)),
      plant_(in_one_layout(std::move(plant))),
      options_(std::move(options)) {
  if (before == nullptr || !before->controller_) return;
  rate_ = before->rate_;
  plant_ = plant_.at(rate_);
  controller_ = before->controller_->redesigned(plant_);
  taken_ = before->taken_;
}

void Feedback::design(double rate) {
  const control::Plant plant = plant_.at(rate);
  auto made = controller_ ? controller_->redesigned(plant) : options_.make(plant);
  CDT_REQUIRE(made != nullptr, "expected a controller, got a null pointer");
  controller_ = std::move(made);
  plant_ = plant;
  rate_ = rate;
  matrix_ = Tensor();
}

double Feedback::closed_loop_radius() const {
  return options_.own ? 1 : controller_->closed_loop_radius();
}

control::Certificate Feedback::certificate(const Tensor& theta) const {
  if (!controller_) return {};
  control::Certificate found =
      controller_->certificate(theta.defined() ? coordinates_->kernel(theta) : theta);
  if (options_.decay.rate > 0) found.controller += ", weight decay within";
  return found;
}

Tensor Feedback::seen(const Tensor& x) const {
  if (plant_.has_matrix() || !plant_.has_modes()) return x;
  const Tensor& V = plant_.modes().vectors;
  return V.mv(V.t().mv(x));
}

Tensor Feedback::steered(const Tensor& x) const {
  return control::require_steered(controller_->steer(at(x)), x.numel());
}

Proposal Feedback::propose(const Tensor& outputs, double rate) const {
  const Tensor x = coordinates_->state(outputs);
  if (options_.decay.rate > 0) return propose_decayed(x, rate);
  const double share = rate / rate_;
  const control::Step step = controller_->step(at(x), share);
  Proposal proposal;
  proposal.complete = step.complete;
  proposal.augment_norm = step.augment;
  if (step.delta.defined()) {
    proposal.delta = step.delta * share;
  } else if (step.u.defined()) {
    proposal.seed = coordinates_->seed(step.u) * share;
  } else {
    proposal.seed = coordinates_->step_seed(step.v, rate);
    if (!coordinates_->quadratic()) {
      proposal.augment_norm = norm_of(coordinates_->augment(seen(x), step.v));
    }
  }
  if (!lasts()) {
    proposal.promise = controller_->merit(x) - step.merit;
  } else {
    proposal.left = watches_loss() ? loss(step.left) : step.merit;
  }
  return proposal;
}

Proposal Feedback::propose_decayed(const Tensor& x, double rate) const {
  const kernel::Model& model = *options_.decay.model;
  const Tensor change = kernel::jacobian_vector_product(model, options_.decay.inputs(),
                                                        kernel::flatten(model, model.parameters()));
  const dynamics::Modes& modes = plant_.modes();
  const Tensor& V = modes.vectors;
  const Tensor& lambda = modes.values;
  const double c = plant_.gradient_factor();
  const Tensor modal = V.t().mv(x);
  const Tensor in_modes = V.t().mv(coordinates_->moved(change.to(torch::kFloat64)));
  const Tensor a = torch::where(lambda > 0, in_modes / lambda, torch::zeros_like(in_modes));
  const Tensor steered = controller_->steer_modes(modal + a * plant_.ridge());
  Proposal proposal;
  proposal.shrink = std::min(1.0, rate * options_.decay.rate);
  const Tensor step = steered * (rate * c) - a * proposal.shrink;
  proposal.seed = coordinates_->seed(V.mv(step));
  proposal.augment_norm = norm_of(steered - modal);
  proposal.left = loss(V.mv(modal - in_modes * proposal.shrink - lambda * step));
  return proposal;
}

bool Feedback::steers_blind() {
  if (matrix_.defined()) return true;
  if (options_.own || !coordinates_->quadratic()) return false;
  const Tensor G = controller_->matrix();
  if (G.defined()) matrix_ = G * plant_.gradient_factor();
  return G.defined();
}

Steered Feedback::steer(const Tensor& outputs) {
  const Tensor x = coordinates_->state(outputs);
  if (!steers_blind()) {
    const Tensor v = steered(x);
    return {coordinates_->step_seed(v, 1), [this, x, v] {
              return coordinates_->quadratic() ? v - x : coordinates_->augment(seen(x), v);
            }};
  }
  const Tensor seed = matrix_.mv(x);
  return {coordinates_->seed(seed),
          [seed, x, c = plant_.gradient_factor()] { return seed / c - x; }};
}

double Feedback::loss(const Tensor& x) const {
  const bool moves = plant_.largest() > 0 || options_.decay.rate > 0;
  return moves ? coordinates_->loss(x) : 0;
}

double Feedback::merit(const Tensor& outputs) const {
  if (const auto watched = coordinates_->watched(outputs)) return *watched;
  const Tensor x = coordinates_->state(outputs);
  if (watches_loss()) return loss(seen(x));
  if (options_.own && !torch::isfinite(x).all().item<bool>()) return NAN;
  return controller_->merit(x);
}

double Feedback::parameter_merit() const {
  if (options_.decay.rate == 0) return 0;
  return options_.decay.rate / 2 * parameter_square(*options_.decay.model).item<double>();
}

double Feedback::distance(const Tensor& outputs) const {
  if (!lasts()) return std::sqrt(merit(outputs));
  const Tensor x = coordinates_->state(outputs);
  if (plant_.has_matrix()) return norm_of(x);
  const dynamics::Modes& modes = plant_.modes();
  return norm_of(modes.vectors.t().mv(x).narrow(0, modes.nullity(), modes.rank));
}

bool Feedback::settled(const Tensor& outputs, double rounding) const {
  if (options_.decay.rate > 0) return true;
  const Tensor x = coordinates_->state(outputs);
  if (!lasts()) {
    if (distance(outputs) <= rounding) return true;
    // The spectrum is unknown here, so test whether even the step at the default rate predicts
    // almost no descent.
    const auto usual = controller_->redesigned(plant_.at(start_rate("guarded", unit_rate())));
    const double promise = controller_->merit(x) - usual->step(at(x)).merit;
    return promise <= tol::kUnreachableError * merit(outputs);
  }
  const dynamics::Modes& modes = plant_.modes();
  const auto in_reach = [&](const Tensor& modal) {
    return norm_of(modal.narrow(0, modes.nullity(), modes.rank));
  };
  if (in_reach(modes.vectors.t().mv(x)) <= sensitivity() * rounding) return true;
  const Tensor gradient = modes.vectors.t().mv(coordinates_->gradient(seen(x)));
  const double left = in_reach(gradient);
  const double whole = norm_of(gradient);
  return left * left <= tol::kUnreachableError * whole * whole;
}

void Feedback::took(const Tensor& outputs) {
  if (options_.own) controller_->took(at(coordinates_->state(outputs)));
  ++taken_;
}

int64_t Feedback::bytes() const {
  if (!lasts()) return 0;
  const int64_t matrix = plant_.size() * plant_.size() * static_cast<int64_t>(sizeof(double));
  return matrix * (options_.steers ? 2 : 1) + controller_->bytes() + coordinates_->bytes();
}

void Feedback::save(SavedState& state) const {
  if (plant_.has_matrix()) {
    state.tensors[kKernel] = plant_.matrix();
  } else {
    const dynamics::Modes& modes = plant_.modes();
    state.tensors["eigenvalues"] = modes.values;
    state.tensors["eigenvectors"] = modes.vectors;
    state.values["rank"] = modes.rank;
    state.values["rank_tolerance"] = modes.rank_tolerance;
    state.values["smallest"] = modes.smallest;
  }
  coordinates_->save(state);
  if (!options_.own) return;
  state.values["taken"] = taken_;
  controller_->fields([&state](const std::string& name, Tensor& value) {
    state.values["has_own." + name] = value.defined();
    if (value.defined()) state.tensors["own." + name] = value.clone();
  });
}

control::Plant Feedback::saved_plant(const SavedState& state, int64_t n, double rank_tolerance,
                                     torch::Device device, const control::Plant::Options& options) {
  if (state.tensors.contains("eigenvectors")) {
    return control::Plant::of_modes(saved_modes(state, n, device), options);
  }
  const Tensor kernel = state.tensor(kKernel, {n, n});
  require_symmetric(kernel, "the checkpoint's kernel", tol::symmetry(torch::kFloat64));
  return control::Plant::of_kernel(kernel.to(device), rank_tolerance, options);
}

void Feedback::restore(const SavedState& state) {
  if (!options_.own) return;
  taken_ = state.count("taken");
  controller_->fields([&](const std::string& name, Tensor& value) {
    if (!state.flag("has_own." + name)) {
      value = Tensor();
      return;
    }
    const auto saved = state.tensors.find("own." + name);
    CDT_REQUIRE(saved != state.tensors.end(), "the checkpoint lacks the controller's ", name);
    value = saved->second.to(plant_.matrix().device()).clone();
  });
}

}  // namespace cdt::train
