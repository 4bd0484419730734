#include <cdt/core/tolerance.h>
#include <cdt/kernel/record/parameter_scope.h>
#include <cdt/train/loop/linearizer.h>
#include <cdt/train/methods/batchwise.h>
#include <cdt/train/methods/guarded.h>

#include <array>
#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Of two steps in a row that shall lead over a kink, in units of 1/(c_L λ_max), and the share of
/// the error that they must remove together.
constexpr std::array kEscapeRates{1e2, 1e4, 1.0, 1e-2};
constexpr double kEscapeGain = 1e-6;
/// Rates of a plain step, each a quarter of the one before.
constexpr int kPlainTries = 10;
constexpr double kPlainShrink = 4;
/// A promised descent below this share of the objective is rounding.
constexpr double kNothing = 1e-15;
/// Rounding of a whole forward pass in units of the last place of its outputs: a deep network loses
/// some dozens.
constexpr double kRounding = 1e2;

/// The parameters before a trial, and back at them unless it was kept: whatever happens.
class Trial {
 public:
  Trial(const kernel::Model& model, std::vector<Tensor>& buffer) : model_(model), before_(buffer) {
    copy_parameters(model_, before_);
  }
  ~Trial() {
    if (kept_) return;
    kernel::ParameterCopyScope::put_back(model_.parameters(), before_);
    try {
      note_moved(model_);
    } catch (...) {  // of tensors without a counter
    }
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  void keep() { kept_ = true; }

 private:
  const kernel::Model& model_;
  std::vector<Tensor>& before_;
  bool kept_ = false;
};

class Guarded : public StepMethod {
 public:
  explicit Guarded(std::shared_ptr<const Setup> setup)
      : setup_(std::move(setup)),
        linearizer_(setup_, {.renews_rate = true, .weight_decay = setup_->options.weight_decay}) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override;
  void adopt(const dynamics::Modes& modes) override { linearizer_.adopt(modes); }
  double learning_rate() const override { return linearizer_.learning_rate(); }
  int64_t linearizations() const override { return linearizer_.linearizations(); }
  int64_t rejected() const override { return rejected_; }
  void prepare(int64_t step, const Pass& pass, StepRecord& row) override {
    last_ = pass.batch;
    Plan& plan = linearizer_.plan_for(step, pass, row);
    if (plan.feedback->rate() != rate_of(plan)) linearizer_.design(plan, damping_);
  }
  control::Certificate certificate(const torch::Tensor& theta) const override {
    return linearizer_.certificate(last_, theta);
  }
  void damp(double share) override { damping_ = share; }
  void distrust() override { linearizer_.distrust(); }
  FormUsed form() const override { return linearizer_.form(); }
  void save(SavedState& state) const override {
    linearizer_.save(state);
    state.values["rejected"] = rejected_;
  }
  void restore(const SavedState& state) override {
    const int64_t rejected = state.count("rejected");
    linearizer_.restore(state);
    rejected_ = rejected;
  }

 private:
  void take_step(Pass& pass, const Proposal& proposal) const {
    if (!proposal.delta.defined()) return pass.descend(proposal.seed, 1, proposal.shrink);
    move_parameters(setup_->model, proposal.delta);
  }

  struct Judged {
    Verdict verdict;
    Pass next;
  };
  Judged try_step(int64_t step, Plan& plan, Pass& pass, const Tensor& state, double before,
                  StepRecord& row);
  std::optional<Pass> escape(int64_t step, const Pass& pass, StepRecord& row);
  std::optional<Pass> descend_plainly(int64_t step, const Pass& pass, const Plan& plan,
                                      StepRecord& row);
  double rate_of(const Plan& plan) const { return plan.guard.rate * damping_; }

  std::shared_ptr<const Setup> setup_;
  Linearizer linearizer_;
  int64_t rejected_ = 0;
  double damping_ = 1;         ///< the trainer's, which keeps it
  int64_t last_ = -1;          ///< the batch of the last step
  std::vector<Tensor> saved_;  ///< θ before a step that is judged
};

/// Takes a step and judges it by the pass behind it; back where it came from unless it was good.
Guarded::Judged Guarded::try_step(int64_t step, Plan& plan, Pass& pass, const Tensor& state,
                                  double before, StepRecord& row) {
  using Kind = Relinearization::Kind;
  const Feedback& feedback = *plan.feedback;
  const double rate = rate_of(plan) * setup_->factor(step);
  const Proposal proposal = feedback.propose(state, rate);
  Trial trial(setup_->model, saved_);
  take_step(pass, proposal);
  Pass next = setup_->forward(step);
  const double rest = feedback.parameter_merit();
  const double promised = proposal.prediction.defined()
                              ? before - (feedback.merit(proposal.prediction) + rest)
                              : proposal.promise;
  const double gained = before - (feedback.merit(feedback.state(next.values)) + rest);
  // The objective may not rise, errors out of reach included, whatever the local model thinks.
  const bool rose = setup_->options.weight_decay > 0 ? next.objective > pass.objective
                                                     : next.found.misfit > pass.found.misfit;
  const Kind policy = linearizer_.policy().kind;
  const bool fresh = plan.step == step || policy == Kind::kNever;
  const double eta = gained > 0 && promised > 0 && !rose ? gained / promised : -1;
  const bool nothing = std::abs(promised) <= kNothing * before;
  const Verdict verdict = !nothing ? judge(plan.guard, eta, fresh)
                          : fresh  ? Verdict::kFloor
                                   : Verdict::kRejectAndRefresh;
  if (verdict == Verdict::kAccept || verdict == Verdict::kAcceptAndRefresh) {
    row.learning_rate = rate;
    row.augment_norm = proposal.augment_norm;
    plan.feedback->took(state);
    plan.stale =
        (verdict == Verdict::kAcceptAndRefresh || !feedback.lasts()) && policy == Kind::kGuard;
    plan.tighten_bound(setup_->factor(step));
    linearizer_.accepted(plan);
    trial.keep();
  }
  return {verdict, std::move(next)};
}

Advance Guarded::advance(int64_t step, Pass& pass, StepRecord& row) {
  last_ = pass.batch;
  for (;;) {
    Plan& plan = linearizer_.plan_for(step, pass, row);
    Feedback& feedback = *plan.feedback;
    if (feedback.rate() != rate_of(plan)) linearizer_.design(plan, damping_);
    const Tensor state = feedback.state(pass.values);
    const double before = feedback.merit(state) + feedback.parameter_merit();
    if (before == 0) return {.end = Outcome::kFloor, .next = {}};
    Judged judged = try_step(step, plan, pass, state, before, row);
    if (judged.verdict == Verdict::kAccept || judged.verdict == Verdict::kAcceptAndRefresh) {
      return {.end = {}, .next = std::move(judged.next)};
    }
    pass = setup_->forward(step);
    if (auto next = descend_plainly(step, pass, plan, row)) {
      return {.end = {}, .next = std::move(next)};
    }
    if (judged.verdict == Verdict::kFloor) {
      // Converged if rounding, or nothing within reach, is all that is left.
      const double rounding =
          kRounding * tol::epsilon(setup_->model.dtype()) *
          std::sqrt(setup_->data.ranks->sum(pass.values.square().sum().item<double>()));
      if (feedback.settled(state, rounding)) return {.end = Outcome::kFloor, .next = {}};
      if (auto landed = escape(step, pass, row)) return {.end = {}, .next = std::move(landed)};
      return {.end = Outcome::kStuck, .next = {}};
    }
    ++row.rejected;
    ++rejected_;
    plan.stale = judged.verdict == Verdict::kRejectAndRefresh;
  }
}

/// The controller of weighted errors may let their sum rise for a while, and the guard does not:
/// where a fresh kernel finds no step even at a low rate, the gradient of that sum does.
std::optional<Pass> Guarded::descend_plainly(int64_t step, const Pass& pass, const Plan& plan,
                                             StepRecord& row) {
  const Tensor weights = setup_->weights(step);
  const double unit = plan.feedback->unit_rate();
  const bool steered = linearizer_.form().form == Form::kAuto;  // forms lower that sum themselves
  if (!weights.defined() || !steered || plan.step != step || rate_of(plan) >= unit) {
    return std::nullopt;
  }
  const Tensor seed = setup_->loss->gradient(pass.values, pass.labels).reshape({-1}) * weights;
  double rate = unit / weights.max().item<double>();
  for (int i = 0; i < kPlainTries; ++i, rate /= kPlainShrink) {
    Trial trial(setup_->model, saved_);
    setup_->forward(step).descend(seed, rate, rate * setup_->options.weight_decay);
    Pass next = setup_->forward(step);
    if (!(next.objective < pass.objective * (1 - kEscapeGain))) continue;
    row.learning_rate = rate;
    row.augment_norm = 0;
    ++row.rejected;
    ++rejected_;
    trial.keep();
    return next;
  }
  return std::nullopt;
}

/// At a kink of the network (ReLU) no short step descends: what is behind it looks different. So
/// step across, linearize there, step again, and accept the pair if it descends from where it
/// started.
std::optional<Pass> Guarded::escape(int64_t step, const Pass& pass, StepRecord& row) {
  const kernel::Model& model = setup_->model;
  std::vector<Tensor> origin, behind;
  Trial trial(model, origin);
  const auto take = [&](const Plan& plan, double rate) {
    Pass from = setup_->forward(step);
    plan.feedback->design(rate);
    const Proposal proposal = plan.feedback->propose(plan.feedback->state(from.values), rate);
    take_step(from, proposal);
    return setup_->forward(step);
  };
  const Plan start = linearizer_.plan_of(pass.batch);
  const double unit = start.feedback->unit_rate();
  for (const double first : kEscapeRates) {
    set_parameters(model, origin);
    const Pass across = take(start, first * unit);
    if (!std::isfinite(across.found.misfit)) continue;
    copy_parameters(model, behind);
    Plan& next = linearizer_.renew(step, across, row);
    for (const double second : kEscapeRates) {
      set_parameters(model, behind);
      const double rate = std::min(next.guard.start_rate, second * unit);
      Pass landed = take(next, rate);
      if (!(landed.found.misfit < pass.found.misfit * (1 - kEscapeGain))) continue;
      row.learning_rate = rate;
      next.guard = {next.guard.start_rate, next.guard.start_rate, next.guard.usual_rate};
      next.stale = true;
      trial.keep();
      return landed;
    }
  }
  linearizer_.replace(pass.batch, start);
  return std::nullopt;
}

}  // namespace

std::unique_ptr<StepMethod> make_guarded(std::shared_ptr<const Setup> setup) {
  if (setup->options.form == Form::kBatch) return make_batchwise(std::move(setup));
  return std::make_unique<Guarded>(std::move(setup));
}

}  // namespace cdt::train
