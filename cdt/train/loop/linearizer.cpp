#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/bounds.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/products.h>
#include <cdt/train/loop/class_feedback.h>
#include <cdt/train/loop/controller_feedback.h>
#include <cdt/train/loop/decayed_feedback.h>
#include <cdt/train/loop/form_feedback.h>
#include <cdt/train/loop/linearizer.h>
#include <cdt/train/loop/quadratic_feedback.h>
#include <cdt/train/loop/ridge_feedback.h>
#include <cdt/train/method.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::train {
using torch::Tensor;

namespace {

/// Of a form's step, beside that of the last one that was accepted.
constexpr double kMoreRate = 2;
/// Of classes: the share of the default rate to begin with, where Gauss-Newton steps at all of it
/// were rejected three or four times; and of conjugate gradients, as for a path.
constexpr double kFirstShareOfClasses = 0.01;
constexpr double kLeastGainOfClasses = 0.003;
/// Of a rate at which no controller could be designed: from the default one of guarded training
/// that leads to 10⁻⁴ of the rate at which plain descent does not oscillate.
constexpr double kLowerRate = 10;
constexpr int64_t kMostRefusals = 9;

}  // namespace

Linearizer::Linearizer(std::shared_ptr<const Setup> setup, const LinearizerOptions& options)
    : setup_(std::move(setup)),
      options_(options),
      policy_(setup_->options.relinearize.value_or(Relinearization{
          traits_of(setup_->options.method).guarded ? Relinearization::Kind::kGuard
                                                    : Relinearization::Kind::kNever})) {
  const TrainOptions& wanted = setup_->options;
  const bool several = setup_->data.ranks->several();
  CDT_REQUIRE(!several || only_arrives(wanted),
              "workers share guarded steps that find their own rate, without shaping or a look at "
              "the local model");
  if (!only_arrives(wanted)) return;
  const bool classes = wanted.loss->classes();
  const bool weighted = setup_->weights(0).defined();
  quadratic_ = wanted.loss->quadratic();
  const FormSizes sizes = form_sizes(*setup_);
  const int64_t modes = sizes.samples * (classes ? sizes.outputs - 1 : sizes.outputs);
  // There is a controller of classes for few modes; not of classes with weights. (Of weighted
  // numbers there is one as well, but it lowers another cost than the loss that the guard watches.)
  const bool steers =
      classes && !weighted && wanted.form == Form::kAuto && !several && modes <= wanted.most_modes;
  if (steers) return;
  choice_ = choose_form(wanted.form, sizes);
  sketch_rows_ = choice_.sketch_rows;
  if (classes) share_ = kFirstShareOfClasses / kMoreRate;
}

control::Certificate Linearizer::certificate(int64_t batch, const Tensor& theta) const {
  const auto found = plans_.find(batch);
  return found == plans_.end() ? control::Certificate()
                               : found->second.feedback->certificate(theta);
}

/// A controller of one's own need not bear the long steps of ours.
double Linearizer::usual_rate(const Feedback& feedback) const {
  const Method method = setup_->options.controller ? Method::kCdt : setup_->options.method;
  return start_rate(method, feedback.unit_rate());
}

FormUsed Linearizer::form() const { return {choice_.form, choice_.why}; }

std::unique_ptr<ModalFeedback> Linearizer::quadratic(int64_t step, dynamics::Modes modes) const {
  FeedbackOptions options;
  options.loss = setup_->options.loss;
  options.q = setup_->options.q;
  options.p = setup_->options.p;
  options.shape = setup_->options.shape;
  options.steers = options_.steers;
  if (const Tensor weights = setup_->weights(step); weights.defined()) options.weights = weights;
  return std::make_unique<QuadraticFeedback>(std::move(modes), setup_->labels(step).reshape({-1}),
                                             std::move(options));
}

std::shared_ptr<Feedback> Linearizer::own(int64_t step, const Tensor& values, const Tensor& labels,
                                          const Tensor& theta, const SavedState* saved) const {
  const TrainOptions& options = setup_->options;
  const bool classes = options.loss->classes();
  const double smoothing = setup_->loss->traits().smoothing;
  ControllerFeedback::Coordinates coordinates;
  Tensor matrix;
  int64_t size = labels.numel();
  if (classes) {
    coordinates.classes = saved ? ClassFeedback::saved_curvature(*saved, labels, smoothing)
                                : control::cross_entropy_plant_at(values, labels, smoothing);
    size = labels.size(0) * (labels.size(1) - 1);
  } else {
    coordinates.labels = labels.reshape({-1});
    if (const Tensor weights = setup_->weights(step); weights.defined()) {
      coordinates.root = weights.sqrt();
    }
  }
  matrix = saved ? ControllerFeedback::saved_matrix(*saved, size, labels.device())
                 : coordinates.kernel(theta);
  const double factor = classes ? 1 / static_cast<double>(labels.size(0))
                                : loss::gradient_factor(options.loss, labels.numel());
  const auto old = plans_.find(setup_->batches.id(step));
  const auto* before = old == plans_.end() || saved
                           ? nullptr
                           : dynamic_cast<const ControllerFeedback*>(old->second.feedback.get());
  return std::make_shared<ControllerFeedback>(std::move(coordinates), matrix,
                                              tol::rank_of_computed(size, setup_->model.dtype()),
                                              factor, options.controller, before);
}

/// Of Θ.
std::shared_ptr<RidgeFeedback> Linearizer::ridge(int64_t step, const Tensor& theta) const {
  const Tensor weights = setup_->weights(step);
  if (!weights.defined()) return ridge_of(step, theta);
  const Tensor scale = weights.sqrt();
  return ridge_of(step, theta * scale.unsqueeze(1) * scale);
}

/// Of the kernel of residuals, W^½ΘW^½.
std::shared_ptr<RidgeFeedback> Linearizer::ridge_of(int64_t step, const Tensor& kernel) const {
  const TrainOptions& options = setup_->options;
  const double tolerance = tol::rank_of_computed(kernel.size(0), setup_->model.dtype());
  return std::make_shared<RidgeFeedback>(
      kernel, setup_->labels(step).reshape({-1}),
      RidgeFeedback::Options{options.loss, options.q, options.p, tolerance, setup_->weights(step)});
}

void Linearizer::accepted(const Plan& plan) {
  if (!plan.feedback->lasts()) share_ = plan.guard.rate / plan.guard.start_rate;
  if (plan.feedback->complete()) return;
  const FormSizes sizes = form_sizes(*setup_, plan.step);
  sketch_rows_ = more_sketch_rows(sketch_rows_, sizes.samples, sizes.outputs);
}

std::shared_ptr<Feedback> Linearizer::by_form(int64_t step, const Pass& pass,
                                              const kernel::LinearizationPtr& own) const {
  RidgeOptions wanted;
  wanted.memory_bytes = setup_->options.memory_bytes;
  wanted.sketch_rows = sketch_rows_;
  wanted.seed = setup_->options.seed + static_cast<uint64_t>(step);
  if (setup_->options.loss->classes()) wanted.least_gain = kLeastGainOfClasses;
  const auto make = [setup = setup_, form = choice_.form, wanted, own, x = pass.x,
                     residuals = setup_->loss->residuals(pass.values, pass.labels, pass.weights)] {
    const kernel::Model& model = setup->model;
    const auto how = linearization_for(form, wanted, model.dtype());
    return make_form(
        form, {own ? own : kernel::linearize(model, x, how), residuals, {}, setup->data.ranks},
        wanted);
  };
  return std::make_shared<FormFeedback>(make, setup_->loss, pass.labels, pass.weights,
                                        setup_->options.q, setup_->options.p, setup_->data.ranks);
}

std::shared_ptr<Feedback> Linearizer::with_decay(int64_t step,
                                                 std::unique_ptr<ModalFeedback> feedback) const {
  if (options_.weight_decay == 0) return feedback;
  return std::make_shared<DecayedFeedback>(std::move(feedback), options_.weight_decay,
                                           setup_->model,
                                           [setup = setup_, step] { return setup->inputs(step); });
}

std::shared_ptr<Feedback> Linearizer::feedback_here(int64_t step, const Pass& pass) {
  const TrainOptions& options = setup_->options;
  // Of the parameters that the run began with, and only of those.
  if (const auto modes = std::exchange(adopted_, std::nullopt); modes && keeps_kernel()) {
    if (options.controller) {
      return own(step, pass.values, pass.labels,
                 (modes->vectors * modes->values).mm(modes->vectors.t()), nullptr);
    }
    if (solves()) {
      auto solved = ridge(step, (modes->vectors * modes->values).mm(modes->vectors.t()));
      if (!setup_->weights(step).defined()) solved->know(modes->values);
      return solved;
    }
    return with_decay(step, quadratic(step, *modes));
  }
  // An engine with a way of its own to the kernel knows what its outputs are; forms without one do
  // not.
  const kernel::LinearizationPtr network = setup_->engine->linearization(pass.x);
  if (solves() && network && choice_.form != Form::kDual) {
    choice_.form = Form::kDual;
    choice_.why = "the engine of the steps has its own way to the kernel";
  }
  if (!keeps_kernel()) return by_form(step, pass, network);
  kernel::NtkOptions ntk;
  ntk.memory_bytes = options.memory_bytes;
  const Tensor theta =
      network ? network->kernel() : kernel::empirical_ntk(setup_->model, pass.x, ntk).theta;
  if (options.controller) return own(step, pass.values, pass.labels, theta, nullptr);
  if (options.loss->quadratic()) {
    if (solves()) return ridge(step, theta);
    const double tolerance = tol::rank_of_computed(theta.size(0), setup_->model.dtype());
    return with_decay(step, quadratic(step, dynamics::decompose(theta, tolerance)));
  }
  auto plant = control::linearize_cross_entropy(
      theta, pass.values, pass.labels, setup_->loss->traits().smoothing, setup_->model.dtype());
  return with_decay(step, std::make_unique<ClassFeedback>(std::move(plant), options.q, options.p));
}

std::shared_ptr<Feedback> Linearizer::saved_feedback(int64_t step, const SavedState& state) const {
  const TrainOptions& options = setup_->options;
  const Tensor labels = setup_->labels(step);
  if (options.controller) return own(step, {}, labels, {}, &state);
  if (options.loss->quadratic()) {
    if (solves() && !ModalFeedback::is_saved(state)) {  // as older checkpoints have it
      return ridge_of(step, RidgeFeedback::saved_kernel(state, labels.numel(), labels.device()));
    }
    auto modes = ModalFeedback::saved_modes(state, labels.numel(), labels.device());
    return with_decay(step, quadratic(step, std::move(modes)));
  }
  return with_decay(step,
                    std::make_unique<ClassFeedback>(
                        ClassFeedback::saved_plant(state, labels, setup_->loss->traits().smoothing),
                        options.q, options.p));
}

Plan& Linearizer::renew(int64_t step, const Pass& pass, StepRecord& row) {
  const TrainOptions& options = setup_->options;
  Plan plan;
  plan.feedback = feedback_here(step, pass);
  plan.step = step;
  plan.guard.usual_rate = usual_rate(*plan.feedback);
  double rate = options.learning_rate.value_or(learning_rate_);
  const bool renewed = options_.renews_rate && !options.learning_rate;
  if (renewed || std::isnan(rate)) rate = plan.guard.usual_rate;
  plan.guard.rate = plan.guard.start_rate = rate;
  if (!plan.feedback->lasts()) plan.guard.rate *= std::min(1.0, kMoreRate * share_);
  if (const auto old = plans_.find(pass.batch); old != plans_.end()) {
    plan.guard.failures = old->second.guard.failures;
    plan.guard.wary_steps = old->second.guard.wary_steps;
  }
  design(plan);
  if (std::isnan(learning_rate_)) learning_rate_ = plan.guard.rate;
  const double distance = plan.feedback->distance(plan.feedback->state(pass.values));
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

/// The equation of weighted errors loses its digits where steps lie too far apart. At the default
/// rate they do all that they can but for the slowest.
void Linearizer::design(Plan& plan, double damping) const {
  const int64_t most_refusals = traits_of(setup_->options.method).guarded ? kMostRefusals : 0;
  for (int64_t refusals = 0;; ++refusals) {
    try {
      plan.feedback->design(damping * plan.guard.rate);
      return;
    } catch (const NumericalError&) {
      if (refusals == most_refusals) throw;
      plan.guard.rate = std::min(plan.guard.rate / kLowerRate, plan.guard.usual_rate);
      plan.guard.start_rate = plan.guard.rate;
    }
  }
}

/// Whether the local model itself is of interest, beside the network.
bool Linearizer::watches() const {
  return setup_->options.linearization_error || policy_.kind == Relinearization::Kind::kError ||
         policy_.kind == Relinearization::Kind::kKc;
}

void Linearizer::distrust() {
  if (policy_.kind != Relinearization::Kind::kGuard) return;
  for (auto& [batch, plan] : plans_) plan.stale = true;
}

Plan& Linearizer::plan_for(int64_t step, const Pass& pass, StepRecord& row) {
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

int64_t Linearizer::unwatched_steps(int64_t batch, int64_t step) const {
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

bool Linearizer::outdated(const Plan& plan, int64_t step, const Pass& pass, StepRecord& row) const {
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
  return plan.bound.violated(feedback.distance(feedback.state(local.outputs)), lagrange);
}

Linearizer::LocalState Linearizer::local_state(const Plan& plan, const Pass& pass) {
  const Tensor moved = plan.local->displacement();
  return {plan.local->predict(moved).view(pass.values.sizes()), moved.norm().item<double>()};
}

void Linearizer::forget_old_plans() {
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

void Linearizer::save(SavedState& state) const {
  state.values["learning_rate"] = learning_rate_;
  state.values["linearizations"] = linearizations_;
  if (choice_.form == Form::kSketch) state.values["sketch_rows"] = sketch_rows_;
  if (!keeps_kernel()) state.values["share"] = share_;
  auto& plans = state.lists["plans"];
  for (const auto& [batch, plan] : plans_) {
    if (!plan.feedback->lasts()) continue;  // the next step makes another
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

Plan Linearizer::saved_plan(const SavedState& saved) const {
  Plan plan;
  plan.step = saved.count("step");
  plan.feedback = saved_feedback(plan.step, saved);
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

void Linearizer::restore(const SavedState& state) {
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
  // Older checkpoints have neither.
  const double share = state.values.contains("share") ? state.positive("share") : 1;
  if (state.values.contains("sketch_rows")) sketch_rows_ = state.count("sketch_rows");
  share_ = share;
  linearizations_ = state.count("linearizations");
  learning_rate_ = learning_rate;
  plans_ = std::move(plans);
  adopted_.reset();
}

}  // namespace cdt::train
