/// The dual form: the kernel K [r·k, r·k] and its Cholesky factor. Exact; (r·k)³/3 operations.
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/loop/base_rate.h>

namespace cdt::train {
namespace {

using torch::Tensor;

class DualForm : public RidgeForm {
 public:
  explicit DualForm(const RidgeProblem& problem)
      : RidgeForm(problem), kernel_(residual_kernel(*network_, residuals_)) {
    if (problem.displacement.defined()) {
      pushed_ = residuals_.to_residuals(network_->push_forward(problem.displacement));
    }
  }

  std::optional<RidgeStep> step(double tau, double mu) override {
    const double lambda = tau + mu;
    RidgeStep step;
    step.shrink = tau / lambda;
    const Tensor b = pushed_.defined() ? residuals_.e - step.shrink * pushed_ : residuals_.e;
    const Tensor u = kernel_.solve(b, lambda);
    if (!u.defined()) return std::nullopt;
    step.seed = residuals_.to_outputs(u);
    step.residuals = lambda * u;
    step.u = u;
    return step;
  }

  std::string solver() const override { return "a Cholesky factor of the kernel"; }
  Tensor matrix() const override { return kernel_.matrix(); }
  double residual(const RidgeStep& step, double tau, double mu) override {
    const Tensor u = step.residuals / (tau + mu);
    const Tensor b = pushed_.defined() ? residuals_.e - step.shrink * pushed_ : residuals_.e;
    const Tensor left = kernel_.matrix().to(torch::kFloat64).mv(u) + step.residuals - b;
    return left.norm().item<double>() / b.norm().item<double>();
  }

  double mean_eigenvalue() const override {
    return kernel_.matrix().diagonal().mean().item<double>();
  }
  double largest_eigenvalue() const override { return train::largest_eigenvalue(kernel_.matrix()); }
  double freedom(double tau) const override { return kernel_.freedom(tau); }

 private:
  mutable ShiftedFactor kernel_;
  Tensor pushed_;  ///< SᵀJd
};

}  // namespace

FormTraits dual_form() {
  return {.name = "dual",
          .summary = "kernel of all rows",
          .one_kernel = true,
          .cost =
              [](const FormSizes& sizes) {
                return dense_cost(static_cast<double>(sizes.residuals()), sizes);
              },
          .make = [](const RidgeProblem& problem,
                     const RidgeOptions&) { return std::make_unique<DualForm>(problem); }};
}

}  // namespace cdt::train
