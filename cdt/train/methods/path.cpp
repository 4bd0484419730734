#include <cdt/kernel/products.h>
#include <cdt/train/methods/path.h>
#include <cdt/train/ridge.h>

#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Steps taken back at one point before the path is at its end.
constexpr int64_t kMostRejections = 12;
/// Of μ in units of τ: after the first rejection, its growth with each further one, and what an
/// accepted step leaves of it.
constexpr double kFirstDamping = 1;
constexpr double kDampingGrowth = 4;
constexpr double kDampingKept = 0.25;

class DecayPath : public StepMethod {
 public:
  explicit DecayPath(std::shared_ptr<const Setup> setup) : setup_(std::move(setup)) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override;
  double learning_rate() const override { return kUnknown; }
  int64_t linearizations() const override { return linearizations_; }
  int64_t rejected() const override { return rejected_; }
  double penalty() const override { return start_.empty() ? 0 : units() * tau_ * distance(); }

  void save(SavedState& state) const override {
    state.values["linearizations"] = linearizations_;
    state.values["rejected"] = rejected_;
    state.values["tau"] = tau_;
    state.values["damping"] = damping_;
    state.values["mean_eigenvalue"] = mean_eigenvalue_;
    state.put("start", start_);
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
    damping_ = damping;
    mean_eigenvalue_ = mean;
    start_ = std::move(start);
  }

 private:
  /// The objective is units()·F: ½c_L for quadratic losses; of the cross entropy 1/r, and its decay
  /// is ½τ‖d‖².
  double units() const {
    const auto& y = setup_->data.y;
    if (setup_->options.loss == dynamics::Loss::kCrossEntropy) {
      return 0.5 / static_cast<double>(y.size(0));
    }
    return setup_->objective.curvature(y.size(0), y.size(1)) / 2;
  }
  /// ‖θ − θ₀‖²
  double distance() const {
    const torch::NoGradGuard no_graph;
    double square = 0;
    for (size_t i = 0; i < start_.size(); ++i) {
      const Tensor d = setup_->model.parameters()[i] - start_[i];
      square += d.to(torch::kFloat64).square().sum().item<double>();
    }
    return square;
  }
  RidgeProblem linearize(int64_t step, const Pass& pass) const;
  /// SᵀJ(θ − θ₀) [m]
  Tensor pushed_displacement(const RidgeProblem& ridge, const Pass& pass) const;
  /// θ ← θ − w(θ − θ₀) − JᵀS u
  void move(Pass& pass, const Tensor& seed, double w) const;

  std::shared_ptr<const Setup> setup_;
  std::vector<Tensor> start_;  ///< θ₀; none before the first step
  double tau_ = kUnknown;
  double damping_ = 0;          ///< μ/τ
  double mean_eigenvalue_ = 0;  ///< of the last kernel
  int64_t linearizations_ = 0;
  int64_t rejected_ = 0;
  std::vector<Tensor> saved_;  ///< θ before a step that is judged
};

Tensor DecayPath::pushed_displacement(const RidgeProblem& ridge, const Pass& pass) const {
  std::vector<Tensor> moved;
  {
    const torch::NoGradGuard no_graph;
    for (size_t i = 0; i < start_.size(); ++i) {
      moved.push_back(setup_->model.parameters()[i] - start_[i]);
    }
  }
  const Tensor d = kernel::flatten(setup_->model, moved);
  return ridge.to_residuals(kernel::jacobian_vector_product(setup_->model, pass.x, d));
}

void DecayPath::move(Pass& pass, const Tensor& seed, double w) const {
  pass.descend(seed, 1, w);
  const torch::NoGradGuard no_graph;
  for (size_t i = 0; i < start_.size(); ++i) {
    Tensor(setup_->model.parameters()[i]).add_(start_[i], w);
  }
}

RidgeProblem DecayPath::linearize(int64_t step, const Pass& pass) const {
  RidgeOptions wanted;
  wanted.memory_bytes = setup_->options.memory_bytes;
  // Where the path begins there is no decay yet, and it will be a large one.
  const bool small = tau_ < kLeastDecayOfFloat32 * mean_eigenvalue_;
  wanted.accumulate = small ? torch::kFloat64 : setup_->model.dtype();
  return {setup_->model,         pass.x, setup_->objective, pass.values, pass.labels,
          setup_->weights(step), wanted};
}

Advance DecayPath::advance(int64_t step, Pass& pass, StepRecord& row) {
  const TrainOptions& options = setup_->options;
  std::optional<RidgeProblem> ridge(linearize(step, pass));
  mean_eigenvalue_ = ridge->mean_eigenvalue();
  ++linearizations_;
  ++row.refreshed;
  if (start_.empty()) {
    copy_parameters(setup_->model, start_);
    tau_ = options.path.start * ridge->mean_eigenvalue();
  }
  row.decay = tau_;
  row.freedom = ridge->freedom(tau_);
  row.objective = pass.objective + penalty();
  const double before = row.objective;
  // A kernel that is zero, or rounding where a decay was: nothing moves any more.
  if (!(tau_ > 0) || !std::isfinite(tau_)) return {.end = Outcome::kFloor, .next = {}};
  const Tensor displacement = pushed_displacement(*ridge, pass);
  copy_parameters(setup_->model, saved_);
  for (int64_t tries = 0; tries < kMostRejections; ++tries) {
    const double mu = damping_ * tau_;
    const double w = tau_ / (tau_ + mu);
    const Tensor u = ridge->solve(ridge->residual() - w * displacement, tau_ + mu);
    if (u.defined()) {
      move(pass, ridge->to_outputs(u), w);
      Pass next = setup_->forward(step);
      if (next.objective + penalty() <= before) {
        tau_ *= options.path.factor;
        damping_ = damping_ > kFirstDamping ? damping_ * kDampingKept : 0;
        return {.end = {}, .next = std::move(next)};
      }
      set_parameters(setup_->model, saved_);
      pass = setup_->forward(step);
      // Products want parameters that nobody has touched since.
      if (!ridge->has_matrix()) ridge.emplace(linearize(step, pass));
    }
    damping_ = damping_ > 0 ? damping_ * kDampingGrowth : kFirstDamping;
    ++row.rejected;
    ++rejected_;
  }
  return {.end = Outcome::kFloor, .next = {}};
}

}  // namespace

std::unique_ptr<StepMethod> make_path(std::shared_ptr<const Setup> setup) {
  return std::make_unique<DecayPath>(std::move(setup));
}

}  // namespace cdt::train
