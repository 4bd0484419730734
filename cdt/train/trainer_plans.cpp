// Linearizations: when they are made, what they hold, how long they are kept.
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/products.h>
#include <cdt/train/trainer.h>

#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

/// The bound of policy kc is met with equality by a single mode: this much is rounding.
constexpr double kBoundSlack = 1 + 1e-6;

}  // namespace

Tensor Trainer::weights_of(const Tensor& rows) const {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(model_.device());
  Tensor samples = data_.sample_weights.defined() ? data_.sample_weights
                                                  : torch::ones({data_.x.size(0)}, options);
  if (rows.defined()) samples = samples.index_select(0, rows.to(samples.device()));
  const Tensor outputs = data_.output_weights.defined() ? data_.output_weights
                                                        : torch::ones({data_.y.size(1)}, options);
  return torch::outer(samples, outputs).reshape({-1});
}

Trainer::Plan Trainer::make_plan(const dynamics::Spectrum& spectrum, int64_t step) {
  FeedbackOptions options;
  options.loss = options_.loss;
  options.q = options_.q;
  options.p = options_.p;
  options.shape = options_.shape;
  if (options_.method == Method::kGuarded) {
    options.ridge =
        options_.weight_decay / dynamics::gradient_factor(options_.loss, spectrum.size());
  }
  if (data_.sample_weights.defined() || data_.output_weights.defined()) {
    options.weights = weights_of(batches_.rows(step));
  }
  Plan plan(Feedback(spectrum, std::move(options)));
  plan.step = step;
  return plan;
}

Trainer::Plan& Trainer::linearize(const Pass& pass, StepRecord& row) {
  dynamics::Spectrum spectrum;
  if (adopted_ && step_ == 0) {
    spectrum = *adopted_;
  } else {
    kernel::NtkOptions options;
    options.memory_bytes = options_.memory_bytes;
    const Tensor theta = kernel::empirical_ntk(model_, pass.x, options).theta;
    spectrum = dynamics::decompose(theta, tol::rank_of_computed(theta.size(0), model_.dtype()));
  }
  Plan plan = make_plan(spectrum, step_);
  double rate = options_.learning_rate.value_or(learning_rate_);
  const bool renewed = options_.method == Method::kGuarded && !options_.learning_rate;
  if (renewed || std::isnan(rate)) {
    rate = start_rate(options_.method, dynamics::unit_rate(spectrum, options_.loss));
  }
  if (std::isnan(learning_rate_)) learning_rate_ = rate;
  plan.guard.rate = plan.guard.start_rate = rate;
  if (const auto old = plans_.find(pass.batch); old != plans_.end()) {
    plan.guard.eager = old->second.guard.eager;
  }
  plan.feedback.design(rate);
  if (options_.method == Method::kCdt) plan.steering = plan.feedback.steering_matrix();
  plan.start_error = std::sqrt(plan.feedback.merit(plan.feedback.project(pass.error)));
  plan.bound = plan.start_error;
  if (keeps_origin()) {
    plan.outputs = pass.outputs.detach().reshape({-1}).to(torch::kFloat64);
    copy_parameters(plan.parameters);
  }
  ++linearizations_;
  ++row.refreshed;
  forget_old_plans();
  return plans_.insert_or_assign(pass.batch, std::move(plan)).first->second;
}

bool Trainer::keeps_origin() const {
  return options_.linearization_error || policy_.kind == Relinearization::Kind::kError;
}

Trainer::Plan& Trainer::plan_for(const Pass& pass, StepRecord& row) {
  const auto found = plans_.find(pass.batch);
  if (found == plans_.end() || found->second.stale || outdated(found->second, pass, row)) {
    linearize(pass, row);
  }
  Plan& plan = plans_.at(pass.batch);
  plan.last_used = step_;
  if (std::isnan(row.linearization_error) && keeps_origin()) {
    row.linearization_error = linearization_error(plan, pass);
  }
  return plan;
}

bool Trainer::outdated(Plan& plan, const Pass& pass, StepRecord& row) {
  using Kind = Relinearization::Kind;
  if (plan.step == step_) return false;
  switch (policy_.kind) {
    case Kind::kEvery:
      return step_ - plan.step >= policy_.period;
    case Kind::kKc:
      return std::sqrt(plan.feedback.merit(plan.feedback.project(pass.error))) >
             plan.bound * kBoundSlack;
    case Kind::kError:
      row.linearization_error = linearization_error(plan, pass);
      return row.linearization_error > policy_.tolerance * plan.start_error;
    case Kind::kNever:
    case Kind::kGuard:
      return false;
  }
  return false;
}

double Trainer::linearization_error(const Plan& plan, const Pass& pass) {
  std::vector<Tensor> present;
  copy_parameters(present);
  const Tensor moved = kernel::flatten(model_, present) - kernel::flatten(model_, plan.parameters);
  // Through data(), which does not count as a change: the graph of `pass` stays valid, because its
  // parameters come back bit by bit.
  const auto set = [&](const std::vector<Tensor>& values) {
    for (size_t i = 0; i < values.size(); ++i) model_.parameters()[i].data().copy_(values[i]);
  };
  set(plan.parameters);
  const Tensor change = kernel::jacobian_vector_product(model_, pass.x, moved);
  set(present);
  const Tensor outputs = pass.outputs.detach().reshape({-1}).to(torch::kFloat64);
  return (outputs - plan.outputs - change.to(torch::kFloat64)).norm().item<double>();
}

void Trainer::forget_old_plans() {
  const auto bytes = [](const Plan& plan) {
    const int64_t n = plan.feedback.spectrum().size();
    return n * n * static_cast<int64_t>(sizeof(double)) * (plan.steering.defined() ? 2 : 1);
  };
  int64_t total = 0;
  for (const auto& [batch, plan] : plans_) total += bytes(plan);
  while (!plans_.empty() && (options_.reshuffle || total > options_.memory_bytes)) {
    const auto oldest = std::min_element(plans_.begin(), plans_.end(), [](auto& a, auto& b) {
      return a.second.last_used < b.second.last_used;
    });
    total -= bytes(oldest->second);
    plans_.erase(oldest);
  }
}

}  // namespace cdt::train
