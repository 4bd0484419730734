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

/// Rounding of a whole forward pass, squared, in units of the last place of its outputs: a deep
/// network loses some dozens.
constexpr double kRounding = 1e4;
/// Up to so many outputs the kernel itself gives λ_max; beyond, power iteration.
constexpr int64_t kExactKernel = 4000;

double output_norm(const Tensor& outputs) {
  return outputs.detach().to(torch::kFloat64).norm().item<double>();
}

double exact_unit_rate(const kernel::Model& model, const Tensor& x, dynamics::Loss loss) {
  const Tensor theta = kernel::empirical_ntk(model, x).theta;
  return dynamics::unit_rate(
      dynamics::decompose(theta, tol::rank_of_computed(theta.size(0), model.dtype())), loss);
}

/// 1/(c_L λ_max), with λ_max by power iteration: no matrix, some thirty passes. λ_max comes out too
/// small by a few per cent at most.
double estimated_unit_rate(const kernel::Model& model, const Tensor& x, dynamics::Loss loss) {
  const kernel::NtkOperator theta(model, x);
  Tensor v = torch::ones({theta.size()}, x.options());
  double largest = 0;
  for (int i = 0; i < kPowerIterations; ++i) {
    v = theta.apply(v / v.norm());
    largest = v.norm().item<double>();
    if (!(largest > 0)) return 1;
  }
  return 1 / (dynamics::gradient_factor(loss, theta.size()) * largest);
}

}  // namespace

std::vector<Tensor> Trainer::gradient(const Pass& pass, const Tensor& seed) const {
  const Tensor shaped = seed.reshape(pass.outputs.sizes()).to(pass.outputs.scalar_type());
  return torch::autograd::grad({pass.outputs}, model_.parameters(), {shaped},
                               /*retain_graph=*/false, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

void Trainer::descend(const std::vector<Tensor>& gradients, double rate, double shrink) {
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
    const bool needs_unit = options_.method != Method::kAdam && options_.method != Method::kLbfgs;
    const double unit = !needs_unit ? 1
                        : adopted_  ? dynamics::unit_rate(*adopted_, options_.loss)
                        : pass.error.numel() <= kExactKernel
                            ? exact_unit_rate(model_, pass.x, options_.loss)
                            : estimated_unit_rate(model_, pass.x, options_.loss);
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

void Trainer::advance_gd(const Pass& pass, StepRecord& row) {
  row.learning_rate = base_rate(pass) * factor();
  const double scale = dynamics::gradient_factor(options_.loss, pass.error.numel());
  descend(gradient(pass, pass.error * scale), row.learning_rate,
          row.learning_rate * options_.weight_decay);
}

void Trainer::advance_optimizer(const Pass& pass, StepRecord& row) {
  row.learning_rate = base_rate(pass) * factor();
  const double scale = dynamics::gradient_factor(options_.loss, pass.error.numel());
  if (options_.method != Method::kLbfgs) {
    return optimizer_->step(row.learning_rate, gradient(pass, pass.error * scale));
  }
  const Tensor labels =
      (pass.outputs.detach().reshape({-1}).to(torch::kFloat64) - pass.error).to(model_.dtype());
  optimizer_->step(row.learning_rate, [&] {
    return (model_.forward(pass.x).reshape({-1}) - labels).square().sum() * (scale / 2);
  });
}

void Trainer::advance_cdt(const Pass& pass, StepRecord& row) {
  Plan& plan = plan_for(pass, row);
  row.learning_rate = plan.guard.rate * factor();
  const Tensor steered = plan.steering.mv(pass.error);
  row.augment_norm = (steered - pass.error).norm().item<double>();
  const double scale = dynamics::gradient_factor(options_.loss, pass.error.numel());
  descend(gradient(pass, steered * scale), row.learning_rate,
          row.learning_rate * options_.weight_decay);
  // The local model's bound after this step, for the policy kc.
  plan.bound *= 1 - factor() * (1 - plan.feedback.closed_loop_radius());
}

Trainer::Proposal Trainer::propose(const Plan& plan, const Pass& pass, const Tensor& modal,
                                   double rate) {
  const Feedback& feedback = plan.feedback;
  const double scale = dynamics::gradient_factor(options_.loss, pass.error.numel());
  Proposal proposal;
  if (options_.weight_decay == 0) {
    const Tensor steered = feedback.steer(modal);
    const Tensor seed = feedback.expand(steered);
    proposal.augment_norm = (seed - pass.error).norm().item<double>();
    proposal.seed = seed * (rate * scale);
    proposal.modal_prediction = feedback.predict(modal, steered, rate / feedback.rate());
    return proposal;
  }
  // With decay d the gradient is Jᵀc_L(e + (d/c_L)a) + dθ⊥, where θ = Jᵀa + θ⊥. So the same problem
  // arises with the kernel Θ + (d/c_L)I and the error e + (d/c_L)a, and θ⊥ decays by itself.
  const auto& spectrum = feedback.spectrum();
  const Tensor moved = feedback.project(
      kernel::jacobian_vector_product(model_, pass.x, kernel::flatten(model_, model_.parameters()))
          .to(torch::kFloat64));  // Vᵀ J θ
  const Tensor& lambda = spectrum.eigenvalues;
  const Tensor a = torch::where(lambda > 0, moved / lambda, torch::zeros_like(moved));
  const Tensor steered = feedback.steer(modal + a * (options_.weight_decay / scale));
  proposal.shrink = std::min(1.0, rate * options_.weight_decay);
  const Tensor seed = steered * (rate * scale) - a * proposal.shrink;
  proposal.seed = feedback.expand(seed);
  proposal.augment_norm = (steered - modal).norm().item<double>();
  proposal.modal_prediction = modal - moved * proposal.shrink - lambda * seed;
  return proposal;
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
  const double scale = dynamics::gradient_factor(options_.loss, pass.error.numel());
  // The whole objective with weight decay, otherwise the error as the controller measures it.
  const auto merit = [&](const Feedback& feedback, const Tensor& modal, double parameters) {
    return decay == 0
               ? feedback.merit(modal)
               : scale / 2 * torch::dot(modal, modal).item<double>() + decay / 2 * parameters;
  };
  for (;;) {
    Plan& plan = plan_for(pass, row);
    if (plan.feedback.rate() != plan.guard.rate) plan.feedback.design(plan.guard.rate);
    const double rate = plan.guard.rate * factor();
    const Tensor modal = plan.feedback.project(pass.error);
    const double before = merit(plan.feedback, modal, decay > 0 ? parameter_square() : 0);
    // Converged if rounding is all that is left of the error within reach.
    const double rounding = tol::epsilon(model_.dtype()) * output_norm(pass.outputs);
    const Outcome end = decay > 0 || plan.feedback.weighted() ||
                                before <= kRounding * rounding * rounding ||
                                before <= tol::kUnreachableError * pass.square
                            ? Outcome::kFloor
                            : Outcome::kStuck;
    if (before == 0) {
      outcome_ = end;
      return;
    }
    const Proposal proposal = propose(plan, pass, modal, rate);
    const auto gradients = gradient(pass, proposal.seed);
    copy_parameters(saved_);
    descend(gradients, 1, proposal.shrink);
    Pass next = forward(step_);
    const double parameters = decay > 0 ? parameter_square() : 0;
    const double promised = before - merit(plan.feedback, proposal.modal_prediction, parameters);
    const double gained =
        before - merit(plan.feedback, plan.feedback.project(next.error), parameters);
    // Errors out of reach may not rise either, unless weights allow it.
    const bool rose = decay == 0 && !plan.feedback.weighted() && next.square > pass.square;
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
      plan.bound *= 1 - factor() * (1 - plan.feedback.closed_loop_radius());
      next_ = std::move(next);
      return;
    }
    set_parameters(saved_);
    pass = forward(step_);
    if (verdict == Verdict::kFloor) {
      if (end == Outcome::kFloor || !escape(pass, row)) outcome_ = end;
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
  const double scale = dynamics::gradient_factor(options_.loss, pass.error.numel());
  const auto step = [&](Plan& plan, const Pass& from, double rate) {
    plan.feedback.design(rate);
    const Tensor steered = plan.feedback.steer(plan.feedback.project(from.error));
    descend(gradient(from, plan.feedback.expand(steered) * scale), rate, 0);
    return forward(step_);
  };
  const Plan start = plans_.at(pass.batch);
  const double unit = dynamics::unit_rate(start.feedback.spectrum(), options_.loss);
  for (const double first : kEscapeRates) {
    set_parameters(origin);
    Plan plan = start;
    const Pass across = step(plan, forward(step_), first * unit);
    if (!std::isfinite(across.square)) continue;
    std::vector<Tensor> behind;
    copy_parameters(behind);
    Plan& next = linearize(across, row);
    for (const double second : kEscapeRates) {
      set_parameters(behind);
      const double rate = std::min(next.guard.start_rate, second * unit);
      Pass landed = step(next, forward(step_), rate);
      if (!(landed.square < pass.square * (1 - kEscapeGain))) continue;
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
