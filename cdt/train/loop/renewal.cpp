#include <cdt/core/error.h>
#include <cdt/dynamics/bounds.h>
#include <cdt/kernel/curvature.h>
#include <cdt/train/loop/renewal.h>
#include <cdt/train/method.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::train {
using torch::Tensor;

namespace {

/// Largest increase of a form's rate over that of the last accepted step.
constexpr double kMoreRate = 2;
/// For classes: the share of the default rate to start with; Gauss-Newton steps at the full rate
/// were rejected three or four times.
constexpr double kFirstShareOfClasses = 0.01;

}  // namespace

Renewal::Renewal(std::shared_ptr<const Setup> setup, std::unique_ptr<FeedbackSource> source,
                 bool renews_rate)
    : setup_(std::move(setup)),
      source_(std::move(source)),
      renews_rate_(renews_rate),
      policy_(setup_->options.relinearize.value_or(
          Relinearization{setup_->options.method->guarded ? Relinearization::Kind::kGuard
                                                          : Relinearization::Kind::kNever})) {
  if (setup_->options.loss->classes() && !source_->form().form->open) {
    share_ = kFirstShareOfClasses / kMoreRate;
  }
}

control::Certificate Renewal::certificate(int64_t batch, const Tensor& theta) const {
  const auto found = plans_.find(batch);
  return found == plans_.end() ? control::Certificate()
                               : found->second.feedback->certificate(theta);
}

/// A user's controller may not support steps as long as those of the library's.
double Renewal::usual_rate(const Feedback& feedback) const {
  const Method method = setup_->options.controller ? Method("cdt") : setup_->options.method;
  return start_rate(method, feedback.unit_rate());
}

void Renewal::accepted(const Plan& plan, bool complete) {
  if (!plan.feedback->lasts()) share_ = plan.guard.rate / plan.guard.start_rate;
  if (!complete) source_->wants_more(plan.step);
}

Plan& Renewal::renew(int64_t step, const Pass& pass, StepRecord& row) {
  const TrainOptions& options = setup_->options;
  Plan plan;
  const auto old = plans_.find(pass.batch);
  plan.feedback =
      source_->at(step, pass, old == plans_.end() ? nullptr : old->second.feedback.get());
  plan.step = step;
  plan.guard.usual_rate = usual_rate(*plan.feedback);
  double rate = options.learning_rate.value_or(learning_rate_);
  const bool renewed = renews_rate_ && !options.learning_rate;
  if (renewed || std::isnan(rate)) rate = plan.guard.usual_rate;
  plan.guard.rate = plan.guard.start_rate = rate;
  if (!plan.feedback->lasts()) plan.guard.rate *= std::min(1.0, kMoreRate * share_);
  if (old != plans_.end()) {
    plan.guard.failures = old->second.guard.failures;
    plan.guard.wary_steps = old->second.guard.wary_steps;
  }
  plan.feedback->design(plan.guard.rate);
  if (std::isnan(learning_rate_)) learning_rate_ = plan.guard.rate;
  const double distance = plan.feedback->distance(pass.values);
  plan.bound = {distance, distance};
  if (watches()) {
    std::vector<Tensor> here;
    copy_parameters(setup_->model, here);
    plan.local =
        std::make_shared<kernel::LocalModel>(setup_->model, pass.x, std::move(here), pass.values);
  }
  if (policy_.kind == Relinearization::Kind::kKc) {
    kernel::CurvatureOptions curvature;
    curvature.products = options.curvature_products;
    plan.hessian_norm = kernel::hessian_norm(setup_->model, pass.x, curvature).norm;
  }
  ++linearizations_;
  ++row.refreshed;
  forget_old_plans();
  return plans_.insert_or_assign(pass.batch, std::move(plan)).first->second;
}

/// Whether the local model is evaluated in addition to the network.
bool Renewal::watches() const {
  return setup_->options.linearization_error || policy_.kind == Relinearization::Kind::kError ||
         policy_.kind == Relinearization::Kind::kKc;
}

void Renewal::distrust() {
  if (policy_.kind != Relinearization::Kind::kGuard) return;
  for (auto& [batch, plan] : plans_) plan.stale = true;
}

Plan& Renewal::plan_for(int64_t step, const Pass& pass, StepRecord& row) {
  const auto found = plans_.find(pass.batch);
  if (found == plans_.end() || found->second.stale || outdated(found->second, step, pass, row)) {
    renew(step, pass, row);
  }
  Plan& plan = plans_.at(pass.batch);
  plan.last_used = step;
  if (std::isnan(row.linearization_error) && watches()) {
    row.linearization_error = (pass.values - local_state(plan, pass).outputs).norm().item<double>();
  }
  return plan;
}

int64_t Renewal::unwatched_steps(int64_t batch, int64_t step) const {
  using Kind = Relinearization::Kind;
  const auto found = plans_.find(batch);
  if (found == plans_.end() || found->second.stale || watches() ||
      !found->second.feedback->steers_blind()) {
    return 0;
  }
  if (policy_.kind == Kind::kEvery) {
    return std::max<int64_t>(0, found->second.step + policy_.period - step);
  }
  return policy_.kind == Kind::kNever ? std::numeric_limits<int64_t>::max() : 0;
}

bool Renewal::outdated(const Plan& plan, int64_t step, const Pass& pass, StepRecord& row) const {
  using Kind = Relinearization::Kind;
  if (plan.step == step) return false;
  if (policy_.kind == Kind::kEvery) return step - plan.step >= policy_.period;
  if (policy_.kind != Kind::kKc && policy_.kind != Kind::kError) return false;
  const LocalState local = local_state(plan, pass);
  row.linearization_error = (pass.values - local.outputs).norm().item<double>();
  if (policy_.kind == Kind::kError) {
    return row.linearization_error > policy_.tolerance * plan.bound.initial_distance;
  }
  const Feedback& feedback = *plan.feedback;
  const double lagrange =
      feedback.sensitivity() * dynamics::lagrange_bound(plan.hessian_norm, local.displacement);
  return plan.bound.violated(feedback.distance(local.outputs), lagrange);
}

Renewal::LocalState Renewal::local_state(const Plan& plan, const Pass& pass) {
  const Tensor moved = plan.local->displacement();
  return {plan.local->predict(moved).view(pass.values.sizes()), moved.norm().item<double>()};
}

void Renewal::forget_old_plans() {
  int64_t total = 0;
  for (const auto& [batch, plan] : plans_) total += plan.feedback->bytes();
  const TrainOptions& options = setup_->options;
  while (!plans_.empty() && (options.reshuffle || total > options.memory_bytes)) {
    const auto oldest = std::min_element(plans_.begin(), plans_.end(), [](auto& a, auto& b) {
      return a.second.last_used < b.second.last_used;
    });
    total -= oldest->second.feedback->bytes();
    plans_.erase(oldest);
  }
}

void Renewal::save(SavedState& state) const {
  state.values["learning_rate"] = learning_rate_;
  state.values["linearizations"] = linearizations_;
  source_->save(state);
  if (!source_->lasts()) state.values["share"] = share_;
  auto& plans = state.lists["plans"];
  for (const auto& [batch, plan] : plans_) {
    if (!plan.feedback->lasts()) continue;  // the next step makes a new one
    SavedState saved;
    plan.feedback->save(saved);
    if (watches()) {
      saved.tensors["outputs"] = plan.local->outputs().view({-1, setup_->data.y.size(1)});
      saved.put("parameters", plan.local->origin());
    }
    state.take_tensors(c10::str("plan.", batch), saved);
    saved.values["batch"] = batch;
    saved.values["step"] = plan.step;
    saved.values["rate"] = plan.guard.rate;
    saved.values["start_rate"] = plan.guard.start_rate;
    saved.values["good_steps"] = plan.guard.good_steps;
    saved.values["shrinks"] = plan.guard.shrinks;
    saved.values["failures"] = plan.guard.failures;
    saved.values["wary_steps"] = plan.guard.wary_steps;
    saved.values["start_error"] = plan.bound.initial_distance;
    saved.values["bound"] = plan.bound.distance;
    saved.values["hessian_norm"] = plan.hessian_norm;
    saved.values["stale"] = plan.stale;
    saved.values["last_used"] = plan.last_used;
    plans.push_back(std::move(saved));
  }
}

Plan Renewal::saved_plan(const SavedState& saved) const {
  Plan plan;
  plan.step = saved.count("step");
  plan.feedback = source_->saved(plan.step, saved);
  plan.guard.rate = saved.positive("rate");
  plan.guard.start_rate = saved.positive("start_rate");
  plan.guard.usual_rate = usual_rate(*plan.feedback);
  plan.guard.good_steps = saved.count("good_steps");
  plan.guard.shrinks = saved.count("shrinks");
  plan.guard.failures = saved.count("failures");
  plan.guard.wary_steps = saved.count("wary_steps");
  plan.bound.initial_distance = saved.number("start_error");
  plan.bound.distance = saved.number("bound");
  plan.hessian_norm = saved.non_negative("hessian_norm");
  plan.stale = saved.flag("stale");
  plan.last_used = saved.count("last_used");
  plan.feedback->design(plan.guard.rate);
  plan.feedback->restore(saved);
  if (watches()) {
    const Tensor labels = setup_->labels(plan.step);
    plan.local = std::make_shared<kernel::LocalModel>(
        setup_->model, setup_->inputs(plan.step),
        saved.tensors_like("parameters", setup_->model.parameters()),
        saved.tensor("outputs", labels.sizes()).to(setup_->model.device()));
  }
  return plan;
}

void Renewal::restore(const SavedState& state) {
  std::map<int64_t, Plan> plans;
  for (SavedState saved : state.list("plans")) {
    const int64_t batch = saved.count("batch");
    CDT_REQUIRE(batch == setup_->batches.id(saved.count("step")),
                "the checkpoint has a linearization of step ", saved.count("step"),
                " for another batch, ", batch);
    saved.tensors = state.tensors_of(c10::str("plan.", batch));
    plans.insert_or_assign(batch, saved_plan(saved));
  }
  const double learning_rate = saved_rate(state);
  // Older checkpoints have no such value.
  const double share = state.values.contains("share") ? state.positive("share") : 1;
  source_->restore(state);
  share_ = share;
  linearizations_ = state.count("linearizations");
  learning_rate_ = learning_rate;
  plans_ = std::move(plans);
}

}  // namespace cdt::train
