// One step of each method.
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/operator.h>
#include <cdt/kernel/products.h>
#include <cdt/train/trainer.h>

#include <array>
#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

constexpr int kPowerIterations = 30;
/// Of two steps in a row that shall lead over a kink, in units of 1/(c_L λ_max), and the share of
/// the error that they must remove together.
constexpr std::array kEscapeRates{1e2, 1e4, 1.0, 1e-2};
constexpr double kEscapeGain = 1e-6;
/// A promised descent below this share of the objective is rounding.
constexpr double kNothing = 1e-15;

/// Rounding of a whole forward pass in units of the last place of its outputs: a deep network loses
/// some dozens.
constexpr double kRounding = 1e2;
/// Up to so many outputs the kernel itself gives λ_max; beyond, power iteration.
constexpr int64_t kExactKernel = 4000;

double largest_eigenvalue(const kernel::Model& model, const Tensor& x) {
  const Tensor theta = kernel::empirical_ntk(model, x).theta;
  return dynamics::decompose(theta, tol::rank_of_computed(theta.size(0), model.dtype())).largest();
}

/// λ_max by power iteration: no matrix, some thirty passes. It comes out too small by a few per
/// cent at most.
double estimate_largest_eigenvalue(const kernel::Model& model, const Tensor& x) {
  const kernel::NtkOperator theta(model, x);
  Tensor v = torch::ones({theta.size()}, x.options());
  double largest = 0;
  for (int i = 0; i < kPowerIterations; ++i) {
    v = theta.apply(v / v.norm());
    largest = v.norm().item<double>();
    if (!(largest > 0)) return 0;
  }
  return largest;
}

}  // namespace

std::vector<Tensor> Trainer::gradient(const Pass& pass, const Tensor& seed) const {
  const Tensor shaped = seed.reshape(pass.outputs.sizes()).to(pass.outputs.scalar_type());
  return torch::autograd::grad({pass.outputs}, model_.parameters(), {shaped},
                               /*retain_graph=*/false, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

void Trainer::descend(Pass& pass, const Tensor& seed, double rate, double shrink) {
  if (pass.descent) return pass.descent->descend(seed.reshape(pass.outputs.sizes()), rate, shrink);
  const auto gradients = gradient(pass, seed);
  const torch::NoGradGuard no_graph;
  const auto& parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor parameter = parameters[i];
    if (shrink != 0) parameter.mul_(1 - shrink);
    if (gradients[i].defined()) parameter.add_(gradients[i], -rate);
  }
}

double Trainer::base_rate(const Pass& pass) {
  if (!std::isnan(learning_rate_)) return learning_rate_;
  if (options_.learning_rate) {
    learning_rate_ = *options_.learning_rate;
  } else {
    double unit = 1;  // 1/(c_L λ_max)
    if (options_.method != Method::kAdam && options_.method != Method::kLbfgs) {
      const double largest = adopted_ ? adopted_->largest()
                             : pass.labels.numel() <= kExactKernel
                                 ? largest_eigenvalue(model_, pass.x)
                                 : estimate_largest_eigenvalue(model_, pass.x);
      const double steepest =
          objective_.curvature(pass.labels.size(0), pass.labels.size(1)) * largest;
      if (steepest > 0) unit = 1 / steepest;
    }
    learning_rate_ = start_rate(options_.method, unit);
  }
  if (options_.method == Method::kGdMatched) {
    learning_rate_ *= std::sqrt(1 + options_.q / options_.p);
  }
  return learning_rate_;
}

void Trainer::advance(Pass& pass, StepRecord& row) {
  switch (options_.method) {
    case Method::kGd:
    case Method::kGdMatched:
      return advance_gd(pass, row);
    case Method::kCdt:
      return advance_cdt(pass, row);
    case Method::kGuarded:
      return advance_guarded(pass, row);
    case Method::kMomentum:
    case Method::kAdam:
    case Method::kLbfgs:
      return advance_optimizer(pass, row);
  }
}

void Trainer::advance_gd(Pass& pass, StepRecord& row) {
  row.learning_rate = base_rate(pass) * factor();
  descend(pass, objective_.gradient(pass.values, pass.labels), row.learning_rate,
          row.learning_rate * options_.weight_decay);
}

void Trainer::advance_optimizer(const Pass& pass, StepRecord& row) {
  row.learning_rate = base_rate(pass) * factor();
  if (options_.method != Method::kLbfgs) {
    return optimizer_->step(row.learning_rate,
                            gradient(pass, objective_.gradient(pass.values, pass.labels)));
  }
  optimizer_->step(row.learning_rate,
                   [&] { return objective_.graph(model_.forward(pass.x), pass.labels); });
}

void Trainer::advance_cdt(Pass& pass, StepRecord& row) {
  Plan& plan = plan_for(pass, row);
  row.learning_rate = plan.guard.rate * factor();
  const Steered steered = plan.feedback->steer(pass.values);
  row.augment_norm = steered.augment_norm;
  descend(pass, steered.seed, row.learning_rate, row.learning_rate * options_.weight_decay);
  // The local model's bound after this step, for the policy kc.
  plan.bound *= 1 - factor() * (1 - plan.feedback->closed_loop_radius());
}

Proposal Trainer::propose(const Plan& plan, const Pass& pass, const Tensor& state, double rate) {
  if (options_.weight_decay == 0) return plan.feedback->propose(state, rate);
  const Tensor moved =
      kernel::jacobian_vector_product(model_, pass.x, kernel::flatten(model_, model_.parameters()));
  return plan.feedback->propose(state, rate, options_.weight_decay, moved.to(torch::kFloat64));
}

double Trainer::parameter_square() const {
  const torch::NoGradGuard no_graph;
  double square = 0;
  for (const Tensor& parameter : model_.parameters()) {
    square += parameter.to(torch::kFloat64).square().sum().item<double>();
  }
  return square;
}

void Trainer::advance_guarded(Pass& pass, StepRecord& row) {
  using Kind = Relinearization::Kind;
  const double decay = options_.weight_decay;
  const double scale = objective_.curvature(pass.labels.size(0), pass.labels.size(1));
  // The whole objective with weight decay, otherwise the error as the controller measures it.
  const auto merit = [&](const Feedback& feedback, const Tensor& state, double parameters) {
    const double found = feedback.merit(state);
    return decay == 0 ? found : scale / 2 * found + decay / 2 * parameters;
  };
  for (;;) {
    Plan& plan = plan_for(pass, row);
    Feedback& feedback = *plan.feedback;
    if (feedback.rate() != plan.guard.rate) feedback.design(plan.guard.rate);
    const double rate = plan.guard.rate * factor();
    const Tensor state = feedback.state(pass.values);
    const double before = merit(feedback, state, decay > 0 ? parameter_square() : 0);
    if (before == 0) {
      outcome_ = Outcome::kFloor;
      return;
    }
    const Proposal proposal = propose(plan, pass, state, rate);
    copy_parameters(saved_);
    descend(pass, proposal.seed, 1, proposal.shrink);
    Pass next = forward(step_);
    const double parameters = decay > 0 ? parameter_square() : 0;
    const double promised = before - merit(feedback, proposal.prediction, parameters);
    const double gained = before - merit(feedback, feedback.state(next.values), parameters);
    // Errors out of reach may not rise either, unless weights allow it.
    const bool rose = decay == 0 && !feedback.weighted() && next.found.misfit > pass.found.misfit;
    const bool fresh = plan.step == step_ || policy_.kind == Kind::kNever;
    const double eta = gained > 0 && promised > 0 && !rose ? gained / promised : -1;
    const bool nothing = std::abs(promised) <= kNothing * before;
    const Verdict verdict = !nothing ? judge(plan.guard, eta, fresh)
                            : fresh  ? Verdict::kFloor
                                     : Verdict::kRejectAndRefresh;
    if (verdict == Verdict::kAccept || verdict == Verdict::kAcceptAndRefresh) {
      row.learning_rate = rate;
      row.augment_norm = proposal.augment_norm;
      plan.stale = verdict == Verdict::kAcceptAndRefresh && policy_.kind == Kind::kGuard;
      plan.bound *= 1 - factor() * (1 - feedback.closed_loop_radius());
      next_ = std::move(next);
      return;
    }
    set_parameters(saved_);
    pass = forward(step_);
    if (verdict == Verdict::kFloor) {
      // Converged if rounding, or nothing within reach, is all that is left.
      const double rounding =
          kRounding * tol::epsilon(model_.dtype()) * pass.values.norm().item<double>();
      const bool settled = decay > 0 || feedback.settled(state, rounding);
      if (settled || !escape(pass, row)) outcome_ = settled ? Outcome::kFloor : Outcome::kStuck;
      return;
    }
    ++row.rejected;
    ++rejected_;
    plan.stale = verdict == Verdict::kRejectAndRefresh;
  }
}

/// At a kink of the network (ReLU) no short step descends: what is behind it looks different. So
/// step across, linearize there, step again, and accept the pair if it descends from where it
/// started.
bool Trainer::escape(const Pass& pass, StepRecord& row) {
  std::vector<Tensor> origin;
  copy_parameters(origin);
  const auto step = [&](const Plan& plan, Pass from, double rate) {
    plan.feedback->design(rate);
    const Proposal proposal = plan.feedback->propose(plan.feedback->state(from.values), rate);
    descend(from, proposal.seed, 1, 0);
    return forward(step_);
  };
  const Plan start = plans_.at(pass.batch);
  const double unit = start.feedback->unit_rate();
  for (const double first : kEscapeRates) {
    set_parameters(origin);
    const Pass across = step(start, forward(step_), first * unit);
    if (!std::isfinite(across.found.misfit)) continue;
    std::vector<Tensor> behind;
    copy_parameters(behind);
    Plan& next = linearize(across, row);
    for (const double second : kEscapeRates) {
      set_parameters(behind);
      const double rate = std::min(next.guard.start_rate, second * unit);
      Pass landed = step(next, forward(step_), rate);
      if (!(landed.found.misfit < pass.found.misfit * (1 - kEscapeGain))) continue;
      row.learning_rate = rate;
      next.guard = {next.guard.start_rate, next.guard.start_rate};
      next.stale = true;
      next_ = std::move(landed);
      return true;
    }
  }
  set_parameters(origin);
  plans_.insert_or_assign(pass.batch, start);
  return false;
}

}  // namespace cdt::train
