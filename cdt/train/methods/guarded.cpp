/// Guarded CDT, a trust-region method in function space: every step is checked (guard.h).
#include <cdt/core/tolerance.h>
#include <cdt/kernel/record/parameter_scope.h>
#include <cdt/train/loop/renewal.h>
#include <cdt/train/method.h>

#include <array>
#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Rates of two consecutive steps to cross a kink, in units of 1/(c_L λ_max), and the share of the
/// error that they must remove together.
constexpr std::array kEscapeRates{1e2, 1e4, 1.0, 1e-2};
constexpr double kEscapeGain = 1e-6;
/// A predicted descent below this share of the objective is rounding.
constexpr double kNothing = 1e-15;
/// Rounding error of a whole forward pass, in units of the last place of its outputs: a deep
/// network loses some dozens.
constexpr double kRounding = 1e2;

/// Stores the parameters before a trial step, and restores them on destruction unless it was kept.
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
    } catch (...) {  // tensors without a version counter
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
        renewal_(setup_,
                 make_feedback_source(setup_, {.weight_decay = setup_->options.weight_decay}),
                 /*renews_rate=*/true) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override;
  void adopt(const dynamics::Modes& modes) override { renewal_.adopt(modes); }
  double learning_rate() const override { return renewal_.learning_rate(); }
  int64_t linearizations() const override { return renewal_.linearizations(); }
  int64_t rejected() const override { return rejected_; }
  void prepare(int64_t step, const Pass& pass, StepRecord& row) override {
    last_ = pass.batch;
    Plan& plan = renewal_.plan_for(step, pass, row);
    design(plan);
  }
  control::Certificate certificate(const torch::Tensor& theta) const override {
    return renewal_.certificate(last_, theta);
  }
  void damp(double share) override { damping_ = share; }
  void distrust() override { renewal_.distrust(); }
  FormUsed form() const override { return renewal_.form(); }
  void save(SavedState& state) const override {
    renewal_.save(state);
    state.values["rejected"] = rejected_;
  }
  void restore(const SavedState& state) override {
    const int64_t rejected = state.count("rejected");
    renewal_.restore(state);
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
  Judged try_step(int64_t step, Plan& plan, Pass& pass, double before, StepRecord& row);
  std::optional<Pass> escape(int64_t step, const Pass& pass, StepRecord& row);
  double rate_of(const Plan& plan) const { return plan.guard.rate * damping_; }
  void design(const Plan& plan) const {
    if (plan.feedback->rate() != rate_of(plan)) plan.feedback->design(rate_of(plan));
  }

  std::shared_ptr<const Setup> setup_;
  Renewal renewal_;
  int64_t rejected_ = 0;
  double damping_ = 1;         ///< set by the trainer, which also saves it
  int64_t last_ = -1;          ///< batch of the last step
  std::vector<Tensor> saved_;  ///< θ before the step on trial
};

/// Takes a step and judges it by the forward pass after it; restores the parameters if rejected.
Guarded::Judged Guarded::try_step(int64_t step, Plan& plan, Pass& pass, double before,
                                  StepRecord& row) {
  using Kind = Relinearization::Kind;
  const Feedback& feedback = *plan.feedback;
  const double rate = rate_of(plan) * setup_->factor(step);
  const Tensor outputs = pass.values;
  const Proposal proposal = feedback.propose(outputs, rate);
  Trial trial(setup_->model, saved_);
  take_step(pass, proposal);
  Pass next = setup_->forward(step);
  const double rest = feedback.parameter_merit();
  const double promised =
      std::isnan(proposal.promise) ? before - (proposal.left + rest) : proposal.promise;
  const double gained = before - (feedback.merit(next.values) + rest);
  // The objective, including unreachable errors, may not rise, whatever the local model predicts.
  const bool rose = setup_->options.weight_decay > 0 ? next.objective > pass.objective
                                                     : next.found.misfit > pass.found.misfit;
  const Kind policy = renewal_.policy().kind;
  const bool fresh = plan.step == step || policy == Kind::kNever;
  const double eta = gained > 0 && promised > 0 && !rose ? gained / promised : -1;
  const bool nothing = std::abs(promised) <= kNothing * before;
  const Verdict verdict = !nothing ? judge(plan.guard, eta, fresh)
                          : fresh  ? Verdict::kFloor
                                   : Verdict::kRejectAndRefresh;
  if (verdict == Verdict::kAccept || verdict == Verdict::kAcceptAndRefresh) {
    row.learning_rate = rate;
    row.augment_norm = proposal.augment_norm;
    plan.feedback->took(outputs);
    plan.stale =
        (verdict == Verdict::kAcceptAndRefresh || !feedback.lasts()) && policy == Kind::kGuard;
    plan.tighten_bound(setup_->factor(step));
    renewal_.accepted(plan, proposal.complete);
    trial.keep();
  }
  return {verdict, std::move(next)};
}

Advance Guarded::advance(int64_t step, Pass& pass, StepRecord& row) {
  last_ = pass.batch;
  for (;;) {
    Plan& plan = renewal_.plan_for(step, pass, row);
    Feedback& feedback = *plan.feedback;
    design(plan);
    const double before = feedback.merit(pass.values) + feedback.parameter_merit();
    if (before == 0) return {.end = Outcome::kFloor, .next = {}};
    Judged judged = try_step(step, plan, pass, before, row);
    if (judged.verdict == Verdict::kAccept || judged.verdict == Verdict::kAcceptAndRefresh) {
      return {.end = {}, .next = std::move(judged.next)};
    }
    pass = setup_->forward(step);
    if (judged.verdict == Verdict::kFloor) {
      // Converged if only rounding errors or unreachable errors are left.
      const double rounding =
          kRounding * tol::epsilon(setup_->model.dtype()) *
          std::sqrt(setup_->data.ranks->sum(pass.values.square().sum().item<double>()));
      if (feedback.settled(pass.values, rounding)) return {.end = Outcome::kFloor, .next = {}};
      if (auto landed = escape(step, pass, row)) return {.end = {}, .next = std::move(landed)};
      return {.end = Outcome::kStuck, .next = {}};
    }
    ++row.rejected;
    ++rejected_;
    plan.stale = judged.verdict == Verdict::kRejectAndRefresh;
  }
}

/// At a kink of the network (ReLU) no short step descends, because the function differs on the
/// other side. So: step across, linearize there, step again, and accept the pair if it lowers the
/// initial error.
std::optional<Pass> Guarded::escape(int64_t step, const Pass& pass, StepRecord& row) {
  const kernel::Model& model = setup_->model;
  std::vector<Tensor> origin, behind;
  Trial trial(model, origin);
  const auto take = [&](const Plan& plan, double rate) {
    Pass from = setup_->forward(step);
    plan.feedback->design(rate);
    const Proposal proposal = plan.feedback->propose(from.values, rate);
    take_step(from, proposal);
    return setup_->forward(step);
  };
  const Plan start = renewal_.plan_of(pass.batch);
  const double unit = start.feedback->unit_rate();
  for (const double first : kEscapeRates) {
    set_parameters(model, origin);
    const Pass across = take(start, first * unit);
    if (!std::isfinite(across.found.misfit)) continue;
    copy_parameters(model, behind);
    Plan& next = renewal_.renew(step, across, row);
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
  renewal_.replace(pass.batch, start);
  return std::nullopt;
}

}  // namespace

/// For form batch: batchwise.cpp.
std::unique_ptr<StepMethod> make_batchwise(std::shared_ptr<const Setup> setup);

/// At 10⁴ units every mode with s ≫ 1 is removed almost at once; the guard reduces the rate if that
/// is too long a step.
MethodTraits guarded_method() {
  return {.name = "guarded",
          .summary = "controlled descent with every step checked, no rate needed",
          .controlled = true,
          .guarded = true,
          .solves = true,
          .balances = true,
          .follows_forecast = true,
          .weights = MethodTraits::Weights::kObjective,
          .start_rate = 1e4,
          .make = [](auto setup) -> std::unique_ptr<StepMethod> {
            if (setup->options.form->batches) return make_batchwise(std::move(setup));
            return std::make_unique<Guarded>(std::move(setup));
          }};
}

}  // namespace cdt::train
