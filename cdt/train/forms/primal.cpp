/// The primal form: the Gram matrix A = JᵀSSᵀJ [P, P] of the parameters, summed over rows, and its
/// Cholesky factor. Exact for any number of rows; 2rkP² + P³/3 operations. Several ranks exchange A
/// once per linearization, P² numbers.
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/loop/base_rate.h>

namespace cdt::train {
namespace {

using torch::Tensor;

class PrimalForm : public RidgeForm {
 public:
  explicit PrimalForm(const RidgeProblem& problem)
      : RidgeForm(problem),
        dtype_(network_->dtype()),
        gradient_(network_->pull_back(residuals_.to_outputs(residuals_.e).to(dtype_))
                      .to(torch::kFloat64)),
        gram_(network_->gram(residuals_.S)) {
    count_ = count();
    outlasts_writes_ = network_->lasts();
    if (problem.displacement.defined()) displacement_ = problem.displacement.to(torch::kFloat64);
  }

  std::optional<RidgeStep> step(double tau, double mu) override {
    Tensor b = -gradient_;
    if (displacement_.defined()) b = b - tau * displacement_;
    RidgeStep step;
    step.delta = gram_.solve(b, tau + mu);
    if (!step.delta.defined()) return std::nullopt;
    step.residuals =
        residuals_.e + residuals_.to_residuals(network_->push_forward(step.delta.to(dtype_)));
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
  torch::ScalarType dtype_;
  Tensor gradient_;  ///< JᵀS e
  mutable ShiftedFactor gram_;
  double count_ = 0;  ///< number of residuals
  bool outlasts_writes_ = true;
  Tensor displacement_;  ///< d
};

}  // namespace

FormTraits primal_form() {
  return {.name = "primal",
          .summary = "Gram matrix of the parameters",
          .cost =
              [](const FormSizes& sizes) {
                const auto n = static_cast<double>(sizes.residuals());
                const auto P = static_cast<double>(sizes.parameters);
                return FormCost{2 * n * P * P + 2 * P * P * P / 3 + sizes.factor_pass(),
                                kMatricesOfASolve * P * P * 8};
              },
          .make = [](const RidgeProblem& problem,
                     const RidgeOptions&) { return std::make_unique<PrimalForm>(problem); }};
}

}  // namespace cdt::train
