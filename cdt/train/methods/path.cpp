/// The decay path: from the linear model at the start to interpolation, with one linearization per
/// point (docs/explanation/guard.md). Choosing a point by validation gives the predictor.
///
/// Point k lowers F_k = ‖e‖² + τ_k‖θ − θ₀‖² (for the cross entropy Σ loss + ½τ_k‖θ − θ₀‖²) by one
/// guarded step from the previous point, and τ falls by a factor after each. The recorded objective
/// is F_k in the units of the loss; since τ only falls, it never rises.
#include <cdt/core/text/numbers.h>
#include <cdt/train/epoch_guard.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/method.h>
#include <cdt/train/methods/batch_momentum.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Rejected steps at one point before the path ends.
constexpr int64_t kMostRejections = 12;
/// A step must achieve this share of the predicted descent of the objective; if the prediction is
/// below kLittle of the objective, any step that does not raise it is accepted.
constexpr double kLeastShare = 0.25;
constexpr double kLittle = 1e-5;
/// For μ: its value after the first rejection in units of τ, its growth with each further one, the
/// share that the next point starts with, and the value in units of the next τ below which it is
/// set to 0.
constexpr double kFirstDamping = 1;
constexpr double kDampingGrowth = 4;
constexpr double kDampingKept = 0.25;
constexpr double kLeastDamping = 0.2;
/// For a sketch and for batches, whose points take many passes over the rows: the decay falls as
/// over this many ordinary points.
constexpr double kWideStride = 2;
/// For batches, whose epoch moves as far as several points: the lowest start of their path, in mean
/// eigenvalues. On diamonds and houses the path reached the same result as from 50, in two thirds
/// of the epochs; with two batches per epoch errors were a tenth larger, so those start at 25.
constexpr double kLeastBatchStart = 1;
/// For a sketch: a step that fails is first shortened, one pass each; if that was needed, the next
/// steps are damped by this share of τ, or twice as much as this one.
constexpr int kShortenings = 2;
constexpr double kDampingOfShort = 0.3;
constexpr double kGrowthOfShort = 2;
/// For conjugate gradients without a sketch: more products hardly reduce the error on new rows, and
/// take twice the time (docs/tables.md).
constexpr double kLeastGain = 0.003;

class DecayPath : public StepMethod {
 public:
  explicit DecayPath(std::shared_ptr<const Setup> setup)
      : setup_(std::move(setup)), choice_(choose_form(setup_->options.form, form_sizes(*setup_))) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override;
  double learning_rate() const override { return kUnknown; }
  int64_t linearizations() const override { return linearizations_; }
  int64_t rejected() const override { return rejected_; }
  FormUsed form() const override { return {choice_.form, choice_.why}; }
  control::Certificate certificate(const Tensor&) const override { return certificate_; }
  double penalty() const override { return start_.empty() ? 0 : units() * tau_ * distance(); }

  void save(SavedState& state) const override {
    state.values["linearizations"] = linearizations_;
    state.values["rejected"] = rejected_;
    state.values["tau"] = tau_;
    state.values["damping"] = mu_;
    state.values["mean_eigenvalue"] = mean_eigenvalue_;
    state.put("start", start_);
    if (!choice_.form->batches) return;
    momentum_.save(state);
    share_.save(state);
  }
  void restore(const SavedState& state) override {
    const double tau = state.number("tau");
    const double damping = state.non_negative("damping");
    const double mean = state.non_negative("mean_eigenvalue");
    std::vector<Tensor> start;
    if (!std::isnan(tau)) start = state.tensors_like("start", setup_->model.parameters());
    linearizations_ = state.count("linearizations");
    rejected_ = state.count("rejected");
    tau_ = std::isnan(tau) ? tau : state.positive("tau");
    mu_ = damping;
    mean_eigenvalue_ = mean;
    start_ = std::move(start);
    if (!choice_.form->batches) return;
    momentum_.restore(state, setup_->model);
    share_.restore(state);
  }

 private:
  /// The objective is units()·F: ½c_L for quadratic losses; for the cross entropy 1/r, with the
  /// decay ½τ‖d‖².
  double units() const { return setup_->loss->scale(setup_->samples, setup_->data.y.size(1)) / 2; }
  /// ‖θ − θ₀‖²
  double distance() const {
    const torch::NoGradGuard no_graph;
    std::vector<Tensor> squares;
    for (size_t i = 0; i < start_.size(); ++i) {
      const Tensor d = setup_->model.parameters()[i] - start_[i];
      squares.push_back(d.to(torch::kFloat64).square().sum());
    }
    const std::vector<double> read = to_vector(torch::stack(squares));  // one GPU synchronization
    return std::accumulate(read.begin(), read.end(), 0.0);
  }
  /// The ridge problem of a pass, at the current parameters.
  RidgeProblem problem_of(const Pass& pass, const Form& form, const RidgeOptions& options) const;
  std::unique_ptr<RidgeForm> linearize(int64_t step, const Pass& pass) const;
  /// Sets the first decay at the start of the path, and records decay and objective of a point.
  void begin_point(double mean_eigenvalue, const Pass& pass, StepRecord& row);
  Advance advance_by_batches(int64_t step, Pass& pass, StepRecord& row);
  Batches epoch() const {
    return {setup_->samples, choice_.batch_rows, /*reshuffle=*/true, setup_->options.seed};
  }
  /// Decay of the first point, in mean eigenvalues.
  double start_decay() const {
    const double start = setup_->options.path.start;
    if (!choice_.form->batches) return start;
    return std::max(start / static_cast<double>(epoch().per_epoch()),
                    std::min(start, kLeastBatchStart));
  }
  /// Takes an epoch at the current decay and share; false if the objective of a batch is not
  /// finite.
  bool take_epoch(int64_t step, const Batches& batches);
  /// θ ← θ + δ
  void move(Pass& pass, const RidgeStep& step) const;
  /// A sketch of all rows would be exact.
  bool sketches() const { return choice_.form->sketches && choice_.sketch_rows < setup_->samples; }
  /// Whether the achieved descent of a step is sufficient.
  static bool keeps(double promised, double gained, double objective) {
    return gained >= 0 && (gained >= kLeastShare * promised || promised <= kLittle * objective);
  }
  /// Certificate of the step to the first point. λ_max would need additional products; it lies
  /// between the mean eigenvalue and the trace.
  void certify(RidgeForm& ridge, const RidgeStep& step);
  /// Lowers the decay after an accepted step.
  void next_decay() {
    tau_ *= std::pow(setup_->options.path.factor,
                     sketches() || choice_.form->batches ? kWideStride : 1);
    if (mu_ < kLeastDamping * tau_) mu_ = 0;
  }

  std::shared_ptr<const Setup> setup_;
  FormChoice choice_;
  std::vector<Tensor> start_;  ///< θ₀; empty before the first step
  double tau_ = kUnknown;
  double mu_ = 0;               ///< the guard's damping
  double mean_eigenvalue_ = 0;  ///< of the last kernel
  BatchMomentum momentum_;      ///< for form batch, with the share of its rates
  EpochShare share_;
  control::Certificate certificate_;  ///< the latest that was computed
  int64_t linearizations_ = 0;
  int64_t rejected_ = 0;
  std::vector<Tensor> saved_;  ///< θ before the step on trial
};

void DecayPath::move(Pass& pass, const RidgeStep& step) const {
  if (step.delta.defined()) return move_parameters(setup_->model, step.delta);
  pass.descend(step.seed, 1, step.shrink);
  const torch::NoGradGuard no_graph;
  for (size_t i = 0; i < start_.size(); ++i) {
    Tensor(setup_->model.parameters()[i]).add_(start_[i], step.shrink);
  }
}

std::unique_ptr<RidgeForm> DecayPath::linearize(int64_t step, const Pass& pass) const {
  RidgeOptions wanted;
  wanted.memory_bytes = setup_->options.memory_bytes;
  // At the start of the path there is no decay yet, and it will be large.
  const bool small = tau_ < kLeastDecayOfFloat32 * mean_eigenvalue_;
  wanted.accumulate = small ? torch::kFloat64 : setup_->model.dtype();
  wanted.sketch_rows = choice_.sketch_rows;
  wanted.least_gain = kLeastGain;
  wanted.seed = setup_->options.seed + static_cast<uint64_t>(step);  // other rows at each point
  return make_form(choice_.form, problem_of(pass, choice_.form, wanted), wanted);
}

RidgeProblem DecayPath::problem_of(const Pass& pass, const Form& form,
                                   const RidgeOptions& options) const {
  const torch::NoGradGuard no_graph;
  std::vector<Tensor> moved;
  for (size_t i = 0; i < start_.size(); ++i) {
    moved.push_back(setup_->model.parameters()[i] - start_[i]);
  }
  const kernel::Model& model = setup_->model;
  return {kernel::linearize(model, pass.x, linearization_for(form, options, model.dtype())),
          setup_->loss->residuals(pass.values, pass.labels, pass.weights),
          moved.empty() ? Tensor() : kernel::flatten(model, moved), setup_->data.ranks};
}

void DecayPath::begin_point(double mean_eigenvalue, const Pass& pass, StepRecord& row) {
  mean_eigenvalue_ = mean_eigenvalue;
  if (start_.empty()) {
    copy_parameters(setup_->model, start_);
    tau_ = start_decay() * mean_eigenvalue;
  }
  row.decay = tau_;
  row.objective = pass.objective + penalty();
}

bool DecayPath::take_epoch(int64_t step, const Batches& batches) {
  const BatchRates rates = BatchRates().at(share_.value());
  const auto all = static_cast<double>(setup_->samples);
  for (int64_t k = 0; k < batches.per_epoch(); ++k) {
    const Pass pass = setup_->forward(batches.rows(step * batches.per_epoch() + k));
    if (!std::isfinite(pass.objective)) return false;
    const double part = static_cast<double>(pass.x.size(0)) / all;
    const RidgeProblem batch = problem_of(pass, "batch", batch_options(*setup_, k == 0));
    momentum_.take(setup_->model, batch, tau_ * part, rates);
    ++linearizations_;
  }
  return true;
}

/// A point is an epoch, judged by the objective of all samples.
Advance DecayPath::advance_by_batches(int64_t step, Pass& pass, StepRecord& row) {
  const Batches batches = epoch();
  if (start_.empty()) {
    const Pass first = setup_->forward(batches.rows(0));
    mean_eigenvalue_ =
        make_form("dual", problem_of(first, "dual", batch_options(*setup_, true)), {})
            ->mean_eigenvalue();
  }
  begin_point(mean_eigenvalue_, pass, row);
  row.refreshed += batches.per_epoch();
  if (!(tau_ > 0) || !std::isfinite(tau_)) return {.end = Outcome::kFloor, .next = {}};
  copy_parameters(setup_->model, saved_);
  while (!share_.exhausted()) {
    if (take_epoch(step, batches)) {
      Pass next = setup_->forward(step);
      if (next.objective + penalty() <= row.objective) {
        share_.kept();
        certificate_ = of_batches();
        next_decay();
        return {.end = {}, .next = std::move(next)};
      }
    }
    set_parameters(setup_->model, saved_);
    momentum_.forget();
    share_.taken_back();
    ++row.rejected;
    ++rejected_;
  }
  return {.end = Outcome::kFloor, .next = {}};
}

void DecayPath::certify(RidgeForm& ridge, const RidgeStep& step) {
  const double damping = tau_ + mu_;
  const auto all = static_cast<double>(setup_->samples * setup_->data.y.size(1));
  control::Known largest{kUnknown, mean_eigenvalue_, mean_eigenvalue_ * all};
  certificate_ = control::damped_certificate(damping, largest, {});
  certificate_.controller =
      "damped, by " + ridge.solver() + ", pulled towards the network as it was drawn";
  certificate_.optimal = fmt::format(
      "|e|^2 + tau|theta - theta_0|^2 + mu|step|^2 after one step, tau={:.6g}, mu={:.6g}", tau_,
      mu_);
  certificate_.residual = ridge.residual(step, tau_, mu_);
  certificate_.digest =
      control::digest_of({torch::tensor({tau_, mu_, mean_eigenvalue_}, torch::kFloat64)});
}

Advance DecayPath::advance(int64_t step, Pass& pass, StepRecord& row) {
  if (choice_.form->batches) return advance_by_batches(step, pass, row);
  std::unique_ptr<RidgeForm> ridge = linearize(step, pass);
  ++linearizations_;
  ++row.refreshed;
  begin_point(ridge->mean_eigenvalue(), pass, row);
  row.freedom = ridge->freedom(tau_);
  const double before = row.objective;
  const double pass_objective = pass.objective;
  // If the kernel is zero, or the decay has vanished by rounding, nothing moves any more.
  if (!(tau_ > 0) || !std::isfinite(tau_)) return {.end = Outcome::kFloor, .next = {}};
  copy_parameters(setup_->model, saved_);
  const double square = ridge->square(ridge->residuals());
  // Judges a step to the current parameters, given its residuals in the linear model.
  const auto is_good = [&](const Tensor& residuals, const Pass& there) {
    const double decay = penalty();
    const double promised =
        units() * (square - ridge->square(residuals)) + (before - pass_objective) - decay;
    return keeps(promised, before - (there.objective + decay), before);
  };
  const auto reject = [&] {
    ++row.rejected;
    ++rejected_;
  };
  const auto take_back = [&] {
    set_parameters(setup_->model, saved_);
    reject();
  };
  for (int64_t tries = 0; tries < kMostRejections; ++tries) {
    if (const auto found = ridge->step(tau_, mu_)) {
      move(pass, *found);
      Pass next = setup_->forward(step);
      if (is_good(found->residuals, next)) {
        if (linearizations_ == 1) certify(*ridge, *found);
        mu_ *= kDampingKept;
        next_decay();
        return {.end = {}, .next = std::move(next)};
      }
      for (int k = 1; k <= kShortenings && sketches(); ++k) {
        take_back();
        const double share = std::pow(0.5, k);
        move_parameters(setup_->model, found->delta * share);
        next = setup_->forward(step);
        if (is_good(ridge->residuals().lerp(found->residuals, share), next)) {
          mu_ = std::max(kGrowthOfShort * mu_, kDampingOfShort * tau_);
          next_decay();
          return {.end = {}, .next = std::move(next)};
        }
      }
      take_back();
      pass = setup_->forward(step);
      if (!ridge->outlasts_writes()) ridge = linearize(step, pass);
    } else {
      reject();
    }
    mu_ = mu_ > 0 ? mu_ * kDampingGrowth : kFirstDamping * tau_;
  }
  return {.end = Outcome::kFloor, .next = {}};
}

}  // namespace

MethodTraits path_method() {
  return {.name = "path",
          .summary = "for --goal predict",
          .solves = true,
          .path = true,
          .weights = MethodTraits::Weights::kObjective,
          .by_curvature = false,
          .make = [](auto setup) { return std::make_unique<DecayPath>(std::move(setup)); }};
}

}  // namespace cdt::train
