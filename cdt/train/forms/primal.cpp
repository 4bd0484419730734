/// The primal form: the Gram matrix A = JᵀSSᵀJ [P, P] of the parameters, summed over rows, and its
/// Cholesky factor. Exact for any number of rows; 2rkP² + P³/3 operations. Several ranks send A
/// once a linearization, P² numbers.
#include <cdt/kernel/gram.h>
#include <cdt/kernel/operator.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/loop/base_rate.h>

namespace cdt::train {
namespace {

using torch::Tensor;

class PrimalForm : public RidgeForm {
 public:
  PrimalForm(const RidgeProblem& problem, const RidgeOptions& options)
      : RidgeForm(problem),
        dtype_(problem.model.dtype()),
        jacobian_(problem.model, problem.x,
                  kernel::OperatorOptions{.memory_bytes = options.memory_bytes,
                                          .accumulate = problem.model.dtype()}),
        gram_(gram_of(problem, options)) {
    gradient_ = ranks_->sum(
        jacobian_.pull_back(residuals_.to_outputs(residuals_.e).to(dtype_)).to(torch::kFloat64));
    count_ = count();
    outlasts_writes_ = ranks_->all(jacobian_.by_factors());
    if (problem.displacement.defined()) displacement_ = problem.displacement.to(torch::kFloat64);
  }

  std::optional<RidgeStep> step(double tau, double mu) override {
    Tensor b = -gradient_;
    if (displacement_.defined()) b = b - tau * displacement_;
    RidgeStep step;
    step.delta = gram_.solve(b, tau + mu);
    if (!step.delta.defined()) return std::nullopt;
    step.residuals =
        residuals_.e + residuals_.to_residuals(jacobian_.push_forward(step.delta.to(dtype_)));
    return step;
  }

  std::string solver() const override { return "a Cholesky factor of the parameters' Gram matrix"; }
  Tensor matrix() const override { return gram_.matrix(); }
  double residual(const RidgeStep& step, double tau, double mu) override {
    Tensor b = -gradient_;
    if (displacement_.defined()) b = b - tau * displacement_;
    const Tensor left =
        gram_.matrix().to(torch::kFloat64).mv(step.delta) + (tau + mu) * step.delta - b;
    return left.norm().item<double>() / b.norm().item<double>();
  }

  double mean_eigenvalue() const override { return gram_.matrix().trace().item<double>() / count_; }
  double largest_eigenvalue() const override { return train::largest_eigenvalue(gram_.matrix()); }
  double freedom(double tau) const override { return gram_.freedom(tau); }
  bool outlasts_writes() const override { return outlasts_writes_; }

 private:
  static Tensor gram_of(const RidgeProblem& problem, const RidgeOptions& options) {
    kernel::NtkOptions ntk;
    ntk.memory_bytes = options.memory_bytes;
    ntk.accumulate = options.accumulate;
    return problem.ranks->sum(
        kernel::parameter_gram(problem.model, problem.x, problem.residuals.S, ntk));
  }

  torch::ScalarType dtype_;
  kernel::NtkOperator jacobian_;
  mutable ShiftedFactor gram_;
  double count_ = 0;  ///< of residuals
  bool outlasts_writes_ = true;
  Tensor gradient_;      ///< JᵀS e
  Tensor displacement_;  ///< d
};

}  // namespace

std::unique_ptr<RidgeForm> make_primal(const RidgeProblem& problem, const RidgeOptions& options) {
  return std::make_unique<PrimalForm>(problem, options);
}

}  // namespace cdt::train
