/// The forms without a matrix of all rows: conjugate gradients on (A + λI)δ = −(JᵀS e + τd), each
/// iteration a product with J and one with Jᵀ. The iterates lower the linearized objective
/// monotonically, so a truncated solution keeps its promised descent as well as an exact one.
///
/// The sketch preconditions with c·J_sᵀS_sS_sᵀJ_s + λI of m rows drawn at random, c = r/m, inverted
/// by Woodbury's identity: with K_s = c·S_sᵀJ_sJ_sᵀS_s
///
///   M⁻¹v = (v − c·J_sᵀS_s (K_s + λI)⁻¹ S_sᵀJ_s v)/λ
///
/// in float64, also for a float32 network, because the difference cancels for small λ. The first
/// iterate is the step of the sketch, scaled to the best length for all rows; with m = r it is the
/// solution.
///
/// With several ranks, each multiplies by the J of its own rows: a product with Jᵀ ends with a sum
/// of P numbers over the ranks, one with J with a sum of its squares. The m rows are gathered; each
/// rank computes K_s of all of them, and multiplies by J_s of its share.
#include <cdt/core/error.h>
#include <cdt/core/text/numbers.h>
#include <cdt/dynamics/lanczos.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/loop/draws.h>

#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

double inner_product(const Tensor& a, const Tensor& b) { return torch::dot(a, b).item<double>(); }

/// The samples of a sketch: m rows of all ranks, independent of the number of ranks.
struct SketchRows {
  Tensor x;
  Residuals residuals;
  double weight = 1;  ///< c = r/m

  SketchRows(const RidgeProblem& problem, const RidgeOptions& options) {
    const Ranks& ranks = *problem.ranks;
    const Tensor inputs = problem.network->inputs();
    CDT_REQUIRE(inputs.defined(), "a sketch draws samples, and these outputs have none");
    const int64_t samples = inputs.size(0);
    const Tensor counts = ranks.gather(torch::full({1}, samples, torch::kInt64));
    const int64_t before = counts.narrow(0, 0, ranks.rank()).sum().item<int64_t>();
    const int64_t all = counts.sum().item<int64_t>();
    const int64_t m = std::min(options.sketch_rows, all);
    CDT_REQUIRE(m >= ranks.size(), "a sketch of ", m, " rows is too small for ", ranks.size(),
                " ranks");
    const Tensor drawn = draw_rows(all, m, options.seed) - before;
    const Tensor own =
        drawn.masked_select((drawn >= 0).logical_and(drawn < samples)).to(inputs.device());
    x = ranks.gather(inputs.index_select(0, own));
    residuals = gathered(problem.residuals.of_samples(own), ranks);
    weight = static_cast<double>(all) / static_cast<double>(m);
  }
};

class Sketch {
 public:
  Sketch(const RidgeProblem& problem, const RidgeOptions& options)
      : Sketch(problem, options, SketchRows(problem, options)) {}

  /// M⁻¹v [P]; undefined if rounding leaves no positive definite matrix.
  Tensor solve(const Tensor& v, double lambda) {
    const Tensor pushed = ranks_->gather(push_forward(v));
    const Tensor u = kernel_->solve(pushed, lambda);
    if (!u.defined()) return {};
    const Tensor own = u.narrow(0, first_, residuals_.size());
    const Tensor pulled = ranks_->sum(pull_back(own));
    return (v - pulled * weight_) / lambda;
  }
  const Tensor& kernel() const { return kernel_->matrix(); }

 private:
  Sketch(const RidgeProblem& problem, const RidgeOptions& options, const SketchRows& all)
      : Sketch(problem, options, all, share_of(*problem.ranks, all.x.size(0))) {}
  Sketch(const RidgeProblem& problem, const RidgeOptions& options, const SketchRows& all, Share own)
      : ranks_(problem.ranks),
        residuals_(of_range(all.residuals, own)),
        first_(own.first * residuals_.size() / own.count),
        weight_(all.weight) {
    const Tensor x = all.x.narrow(0, own.first, own.count);
    const auto at = [&](const Tensor& samples, Form form) {
      return problem.network->at(samples, linearization_for(form, options, torch::kFloat64));
    };
    // A single process has all rows of the kernel, so one factorization serves both.
    if (!ranks_->several() && !reduces(residuals_)) {
      jacobian_ = at(x, "batch");
      kernel_.emplace(ResidualJacobian(jacobian_, residuals_).take_kernel() * weight_);
      if (jacobian_->lasts()) return;
    } else {
      kernel_.emplace(residual_kernel(*at(all.x, "dual"), all.residuals) * weight_);
    }
    jacobian_ = at(x, "sketch");
  }

  Tensor push_forward(const Tensor& v) const {
    return residuals_.to_residuals(jacobian_->push_forward(v));
  }
  Tensor pull_back(const Tensor& u) const {
    return jacobian_->pull_back(residuals_.to_outputs(u).to(torch::kFloat64));
  }

  std::shared_ptr<const Ranks> ranks_;
  Residuals residuals_;                ///< of this rank's share of the sketch
  int64_t first_;                      ///< index of this rank's first residual in the sketch
  double weight_;                      ///< c
  kernel::LinearizationPtr jacobian_;  ///< of this rank's share
  std::optional<ShiftedFactor> kernel_;
};

class IterativeForm : public RidgeForm {
 public:
  IterativeForm(const RidgeProblem& problem, const RidgeOptions& options)
      : RidgeForm(problem), options_(options), dtype_(network_->dtype()) {
    outlasts_writes_ = network_->lasts();
    if (options.sketch_rows > 0) {
      RidgeOptions exact = options;
      exact.accumulate = torch::kFloat64;
      sketch_.emplace(problem, exact);
    }
    // The preconditioner needs float64 against cancellation; without a sketch nothing cancels.
    vectors_ = sketch_ ? torch::kFloat64 : dtype_;
    gradient_ = pull_back(residuals_.e);
    if (problem.displacement.defined()) displacement_ = problem.displacement.to(vectors_);
    count_ = count();
  }

  std::optional<RidgeStep> step(double tau, double mu) override;

  std::string solver() const override {
    return sketch_ ? "conjugate gradients, preconditioned by the kernel of some rows"
                   : "conjugate gradients";
  }

  double mean_eigenvalue() const override {
    if (sketch_) {
      return sketch_->kernel().diagonal().mean().item<double>() *
             static_cast<double>(sketch_->kernel().size(0)) / count_;
    }
    const auto own = static_cast<double>(residuals_.S.size(0) * residuals_.S.size(1));
    const double outputs = ranks_->sum(own);
    return network_->trace() / outputs * ranks_->sum(residuals_.S.square().sum().item<double>()) /
           count_;
  }
  double largest_eigenvalue() const override;
  bool outlasts_writes() const override { return outlasts_writes_; }

 private:
  /// JᵀS u [P], summed over all ranks; SᵀJ v [r·k], of this rank.
  Tensor pull_back(const Tensor& u) const {
    return network_->pull_back(residuals_.to_outputs(u).to(dtype_)).to(vectors_);
  }
  Tensor push_forward(const Tensor& v) const {
    return residuals_.to_residuals(network_->push_forward(v.to(dtype_)));
  }

  /// ‖SᵀJv‖² + λ‖v‖², summed over all ranks, with a single GPU synchronization.
  double curvature(const Tensor& pushed, const Tensor& v, double lambda) const {
    const auto read =
        to_vector(torch::stack({pushed.square().sum(), torch::dot(v, v).to(torch::kFloat64)}));
    return ranks_->sum(read[0]) + lambda * read[1];
  }

  RidgeOptions options_;
  torch::ScalarType dtype_;    ///< of the network
  torch::ScalarType vectors_;  ///< of the iteration
  std::optional<Sketch> sketch_;
  Tensor gradient_;      ///< JᵀS e
  Tensor displacement_;  ///< d
  double count_ = 0;     ///< number of residuals
  bool outlasts_writes_ = true;
};

std::optional<RidgeStep> IterativeForm::step(double tau, double mu) {
  const double lambda = tau + mu;
  Tensor r = -gradient_;
  if (displacement_.defined()) r = r - tau * displacement_;
  RidgeStep step;
  step.delta = torch::zeros_like(r);
  step.residuals = residuals_.e.clone();
  const double whole = r.norm().item<double>();
  const double least = options_.tolerance * whole;
  if (least == 0) return step;
  step.residual = 1;
  const auto precondition = [&](const Tensor& v) {
    return sketch_ ? sketch_->solve(v, lambda) : v;
  };
  Tensor z = precondition(r);
  if (!z.defined()) return std::nullopt;
  Tensor direction = z.clone();
  double product = inner_product(r, z);
  double gained = 0;  // descent of the linearized objective so far
  const int64_t most = sketch_ ? options_.sketch_products : options_.products;
  const double least_gain = sketch_ ? options_.sketch_gain : options_.least_gain;
  for (int64_t k = 0; k < most; ++k) {
    const Tensor pushed = push_forward(direction);
    const double length = product / curvature(pushed, direction, lambda);
    if (!std::isfinite(length)) return std::nullopt;
    step.delta.add_(direction, length);
    step.residuals.add_(pushed, length);
    gained += length * product;
    if (length * product < least_gain * gained) return step;
    if (k + 1 == most) break;
    r = r - length * (pull_back(pushed) + lambda * direction);
    const double left = r.norm().item<double>();
    step.residual = left / whole;
    if (left <= least) return step;
    z = precondition(r);
    const double next = inner_product(r, z);
    if (!(next > 0)) return step;  // rounding in the preconditioner: no better direction
    direction = z + (next / product) * direction;
    product = next;
  }
  step.complete = false;
  return step;
}

double IterativeForm::largest_eigenvalue() const {
  if (sketch_) return train::largest_eigenvalue(sketch_->kernel());
  // A dozen steps of the power method, started at the gradient, which has large components there.
  constexpr int kSteps = 12;
  Tensor v = gradient_;
  double largest = 0;
  for (int k = 0; k < kSteps; ++k) {
    const double norm = v.norm().item<double>();
    if (!(norm > 0)) break;
    v = v / norm;
    const Tensor pushed = push_forward(v);
    largest = square(pushed);
    v = pull_back(pushed);
  }
  return largest;
}

}  // namespace

FormTraits free_form() {
  constexpr double kProducts = 30;
  return {.name = "free",
          .summary = "conjugate gradients",
          .products = true,
          .cost =
              [](const FormSizes& sizes) {
                return FormCost{sizes.factor_pass() + kProducts * sizes.product(), 0};
              },
          .make =
              [](const RidgeProblem& problem, RidgeOptions options) {
                options.sketch_rows = 0;
                return std::make_unique<IterativeForm>(problem, options);
              }};
}

FormTraits sketch_form() {
  constexpr double kProducts = 3;
  return {.name = "sketch",
          .summary = "conjugate gradients with a kernel of some rows",
          .sketches = true,
          .cost =
              [](const FormSizes& sizes) {
                const auto rows = static_cast<double>(sizes.residuals());
                FormCost cost =
                    dense_cost(std::min(rows, static_cast<double>(kSketchResiduals)), sizes);
                cost.operations += sizes.factor_pass() + kProducts * sizes.product();
                return cost;
              },
          .make =
              [](const RidgeProblem& problem, const RidgeOptions& options) {
                return std::make_unique<IterativeForm>(problem, options);
              }};
}

}  // namespace cdt::train
