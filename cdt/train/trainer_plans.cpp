// Linearizations: when they are made, what they hold, how long they are kept.
#include <cdt/analysis/validity.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/bounds.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/products.h>
#include <cdt/train/class_feedback.h>
#include <cdt/train/quadratic_feedback.h>
#include <cdt/train/trainer.h>

#include <cmath>

namespace cdt::train {

using torch::Tensor;

Tensor Trainer::weights_of(const Tensor& rows) const {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(model_.device());
  Tensor samples = data_.sample_weights.defined() ? data_.sample_weights
                                                  : torch::ones({data_.x.size(0)}, options);
  if (rows.defined()) samples = samples.index_select(0, rows.to(samples.device()));
  const Tensor outputs = data_.output_weights.defined() ? data_.output_weights
                                                        : torch::ones({data_.y.size(1)}, options);
  return torch::outer(samples, outputs).reshape({-1});
}

Tensor Trainer::labels_at(int64_t step) const {
  return batches_.all() ? data_.y
                        : data_.y.index_select(0, batches_.rows(step).to(data_.y.device()));
}

std::shared_ptr<Feedback> Trainer::make_feedback(const dynamics::Modes& modes,
                                                 const Tensor& curvature, int64_t step) {
  if (dynamics::is_quadratic(options_.loss)) {
    FeedbackOptions options;
    options.loss = options_.loss;
    options.q = options_.q;
    options.p = options_.p;
    options.shape = options_.shape;
    if (options_.method == Method::kGuarded) {
      options.ridge =
          options_.weight_decay / dynamics::gradient_factor(options_.loss, modes.size());
    }
    if (data_.sample_weights.defined() || data_.output_weights.defined()) {
      options.weights = weights_of(batches_.rows(step));
    }
    return std::make_shared<QuadraticFeedback>(modes, labels_at(step).reshape({-1}),
                                               std::move(options));
  }
  auto plant = control::cross_entropy_plant(labels_at(step), objective_.smoothing(), curvature);
  plant.modes = modes;
  return std::make_shared<ClassFeedback>(std::move(plant), options_.q, options_.p);
}

std::shared_ptr<Feedback> Trainer::make_feedback(const Pass& pass) {
  if (adopted_ && step_ == 0) return make_feedback(*adopted_, {}, step_);
  kernel::NtkOptions options;
  options.memory_bytes = options_.memory_bytes;
  const Tensor theta = kernel::empirical_ntk(model_, pass.x, options).theta;
  if (dynamics::is_quadratic(options_.loss)) {
    const double tolerance = tol::rank_of_computed(theta.size(0), model_.dtype());
    return make_feedback(dynamics::decompose(theta, tolerance), {}, step_);
  }
  const auto plant =
      control::linearize_cross_entropy(theta, pass.values, pass.labels, objective_.smoothing());
  return make_feedback(plant.modes, plant.curvature, step_);
}

Trainer::Plan& Trainer::linearize(const Pass& pass, StepRecord& row) {
  Plan plan;
  plan.feedback = make_feedback(pass);
  plan.step = step_;
  double rate = options_.learning_rate.value_or(learning_rate_);
  const bool renewed = options_.method == Method::kGuarded && !options_.learning_rate;
  if (renewed || std::isnan(rate)) {
    rate = start_rate(options_.method, plan.feedback->unit_rate());
  }
  if (std::isnan(learning_rate_)) learning_rate_ = rate;
  plan.guard.rate = plan.guard.start_rate = rate;
  if (const auto old = plans_.find(pass.batch); old != plans_.end()) {
    plan.guard.failures = old->second.guard.failures;
    plan.guard.wary_steps = old->second.guard.wary_steps;
  }
  plan.feedback->design(rate);
  plan.start_error = plan.feedback->distance(plan.feedback->state(pass.values));
  plan.bound = plan.start_error;
  if (keeps_origin()) {
    plan.outputs = pass.values;
    copy_parameters(plan.parameters);
  }
  if (policy_.kind == Relinearization::Kind::kKc) {
    plan.hessian_norm = kernel::hessian_norm(model_, pass.x).norm;
  }
  ++linearizations_;
  ++row.refreshed;
  forget_old_plans();
  return plans_.insert_or_assign(pass.batch, std::move(plan)).first->second;
}

bool Trainer::keeps_origin() const {
  return options_.linearization_error || policy_.kind == Relinearization::Kind::kError ||
         policy_.kind == Relinearization::Kind::kKc;
}

Trainer::Plan& Trainer::plan_for(const Pass& pass, StepRecord& row) {
  const auto found = plans_.find(pass.batch);
  if (found == plans_.end() || found->second.stale || outdated(found->second, pass, row)) {
    linearize(pass, row);
  }
  Plan& plan = plans_.at(pass.batch);
  plan.last_used = step_;
  if (std::isnan(row.linearization_error) && keeps_origin()) {
    row.linearization_error = (pass.values - local_state(plan, pass).outputs).norm().item<double>();
  }
  return plan;
}

bool Trainer::outdated(Plan& plan, const Pass& pass, StepRecord& row) {
  using Kind = Relinearization::Kind;
  if (plan.step == step_) return false;
  if (policy_.kind == Kind::kEvery) return step_ - plan.step >= policy_.period;
  if (policy_.kind != Kind::kKc && policy_.kind != Kind::kError) return false;
  const LocalState local = local_state(plan, pass);
  row.linearization_error = (pass.values - local.outputs).norm().item<double>();
  if (policy_.kind == Kind::kError) {
    return row.linearization_error > policy_.tolerance * plan.start_error;
  }
  const Feedback& feedback = *plan.feedback;
  const double lagrange =
      feedback.sensitivity() * dynamics::lagrange_bound(plan.hessian_norm, local.displacement);
  return analysis::violates_bound(plan.bound, plan.start_error,
                                  feedback.distance(feedback.state(local.outputs)), lagrange);
}

Trainer::LocalState Trainer::local_state(const Plan& plan, const Pass& pass) {
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
  return {plan.outputs + change.to(torch::kFloat64).view(plan.outputs.sizes()),
          moved.norm().item<double>()};
}

void Trainer::forget_old_plans() {
  const auto bytes = [&](const Plan& plan) {
    const int64_t n = plan.feedback->modes().size();
    return n * n * static_cast<int64_t>(sizeof(double)) * (options_.method == Method::kCdt ? 2 : 1);
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
