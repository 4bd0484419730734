#include <cdt/core/error.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/forms/shared.h>

namespace cdt::train {

using torch::Tensor;

RidgeForm::RidgeForm(const RidgeProblem& problem)
    : network_(shared(problem.network, problem.ranks)),
      residuals_(problem.residuals),
      ranks_(problem.ranks) {}

kernel::LinearizationOptions linearization_for(const Form& form, const RidgeOptions& options,
                                               torch::ScalarType dtype) {
  using Products = kernel::LinearizationOptions::Products;
  kernel::LinearizationOptions found;
  found.kernel.memory_bytes = options.memory_bytes;
  found.kernel.accumulate = options.accumulate;
  found.kernel.trusted = options.trusted;
  found.products = form->one_kernel ? Products::kAnew
                   : form->batches  ? Products::kWithKernel
                                    : Products::kByThemselves;
  found.accumulate = dtype;
  found.keeps_parameters = false;
  return found;
}

std::unique_ptr<RidgeForm> make_form(const Form& form, const RidgeProblem& problem,
                                     const RidgeOptions& options) {
  CDT_REQUIRE(form->make, "a form must have been chosen, got ", form.name());
  CDT_REQUIRE(!form->one_kernel || !problem.ranks->several(), "--form ", form.name(),
              " has one kernel of all rows, which several ranks cannot share");
  return form->make(problem, options);
}

bool reduces(const Residuals& residuals) {
  return residuals.D.defined() && residuals.D.size(0) != residuals.D.size(1);
}

namespace {

/// Linearization of Dᵀŷ, if there are fewer residuals than outputs.
kernel::LinearizationPtr reduced(const kernel::LinearizationPtr& network,
                                 const Residuals& residuals) {
  return reduces(residuals) ? network->projected(residuals.D) : network;
}

/// K from the Θ of `reduced`.
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

Tensor residual_kernel(const kernel::Linearization& network, const Residuals& residuals) {
  const Tensor theta =
      reduces(residuals) ? network.projected(residuals.D)->kernel() : network.kernel();
  return weighted_kernel(theta, residuals, torch::kFloat64);
}

ResidualJacobian::ResidualJacobian(const kernel::LinearizationPtr& network, Residuals residuals,
                                   torch::ScalarType dtype)
    : residuals_(std::move(residuals)),
      reduced_(reduces(residuals_)),
      jacobian_(reduced(network, residuals_)),
      kernel_(weighted_kernel(jacobian_->kernel(), residuals_, dtype)) {}

Tensor ResidualJacobian::push_forward(const Tensor& u) const {
  const Tensor pushed = jacobian_->push_forward(u);
  if (!reduced_) return residuals_.to_residuals(pushed);
  return residuals_.scale.reshape({-1}) * pushed.to(torch::kFloat64);
}

Tensor ResidualJacobian::pull_back(const Tensor& v, torch::ScalarType dtype) const {
  const Tensor outputs = reduced_ ? residuals_.scale.reshape({-1}) * v : residuals_.to_outputs(v);
  return jacobian_->pull_back(outputs.to(dtype));
}

}  // namespace cdt::train
