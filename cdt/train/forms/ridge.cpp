#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/forms/ridge.h>

namespace cdt::train {

using torch::Tensor;

std::unique_ptr<RidgeForm> make_form(Form form, const RidgeProblem& problem,
                                     const RidgeOptions& options) {
  CDT_REQUIRE(form != Form::kAuto, "a form must have been chosen");
  CDT_REQUIRE(form != Form::kDual || !problem.ranks->several(),
              "form dual has one kernel of all rows, which several ranks do not share");
  if (form == Form::kDual) return make_dual(problem, options);
  if (form == Form::kPrimal) return make_primal(problem, options);
  RidgeOptions wanted = options;
  if (form == Form::kFree) wanted.sketch_rows = 0;
  return make_iterative(problem, wanted);
}

bool reduces(const Residuals& residuals) {
  return residuals.D.defined() && residuals.D.size(0) != residuals.D.size(1);
}

namespace {

kernel::NtkOptions ntk_options(const RidgeOptions& options) {
  kernel::NtkOptions ntk;
  ntk.memory_bytes = options.memory_bytes;
  ntk.accumulate = options.accumulate;
  ntk.trusted = options.trusted;
  return ntk;
}

/// Dᵀŷ for ŷ, where residuals are fewer.
kernel::Model reduced(const kernel::Model& model, const Residuals& residuals) {
  if (!reduces(residuals)) return model;
  return {[&model, D = residuals.D.to(model.dtype())](const Tensor& samples) {
            const Tensor y = model.forward(samples);
            return y.reshape({samples.size(0), -1}).matmul(D);
          },
          model.parameters()};
}

/// K for Θ of what `reduced` gives.
Tensor weighted_kernel(const Tensor& theta, const Residuals& residuals, torch::ScalarType dtype) {
  if (!residuals.D.defined()) {
    return residual_kernel(theta.to(torch::kFloat64), residuals).to(dtype);
  }
  Tensor K = theta.to(dtype);
  if (residuals.all_one) return K;
  const Tensor scale = residuals.scale.reshape({-1}).to(dtype);
  K *= scale.unsqueeze(0);
  K *= scale.unsqueeze(1);
  return K;
}

}  // namespace

Tensor residual_kernel(const Tensor& theta, const Residuals& residuals) {
  const Tensor half = dynamics::times_blocks(theta, residuals.S);
  return dynamics::times_blocks(half.t().contiguous(), residuals.S);
}

Tensor residual_kernel(const kernel::Model& model, const Tensor& x, const Residuals& residuals,
                       const RidgeOptions& options) {
  const auto ntk = kernel::empirical_ntk(reduced(model, residuals), x, ntk_options(options));
  return weighted_kernel(ntk.theta, residuals, torch::kFloat64);
}

ResidualJacobian::ResidualJacobian(const kernel::Model& model, const Tensor& x, Residuals residuals,
                                   const RidgeOptions& options, torch::ScalarType dtype)
    : residuals_(std::move(residuals)),
      reduced_(reduces(residuals_)),
      jacobian_(reduced(model, residuals_), x, ntk_options(options)),
      kernel_(weighted_kernel(jacobian_.take_theta(), residuals_, dtype)) {}

Tensor ResidualJacobian::push_forward(const Tensor& u) const {
  const Tensor pushed = jacobian_.push_forward(u);
  if (!reduced_) return residuals_.to_residuals(pushed);
  return residuals_.scale.reshape({-1}) * pushed.to(torch::kFloat64);
}

Tensor ResidualJacobian::pull_back(const Tensor& v, torch::ScalarType dtype) const {
  const Tensor outputs = reduced_ ? residuals_.scale.reshape({-1}) * v : residuals_.to_outputs(v);
  return jacobian_.pull_back(outputs.to(dtype));
}

}  // namespace cdt::train
