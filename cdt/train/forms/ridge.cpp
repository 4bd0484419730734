#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/forms/shared.h>

namespace cdt::train {

using torch::Tensor;

namespace {

/// Of the effective number of parameters.
constexpr int64_t kMostExact = 500;
constexpr int64_t kProbes = 32;

}  // namespace

RidgeForm::RidgeForm(const RidgeProblem& problem)
    : network_(shared(problem.network, problem.ranks)),
      residuals_(problem.residuals),
      ranks_(problem.ranks) {}

kernel::LinearizationOptions linearization_for(Form form, const RidgeOptions& options,
                                               torch::ScalarType dtype) {
  using Products = kernel::LinearizationOptions::Products;
  kernel::LinearizationOptions found;
  found.kernel.memory_bytes = options.memory_bytes;
  found.kernel.accumulate = options.accumulate;
  found.kernel.trusted = options.trusted;
  found.products = form == Form::kDual    ? Products::kAnew
                   : form == Form::kBatch ? Products::kWithKernel
                                          : Products::kByThemselves;
  found.accumulate = dtype;
  found.keeps_parameters = false;
  return found;
}

std::unique_ptr<RidgeForm> make_form(Form form, const RidgeProblem& problem,
                                     const RidgeOptions& options) {
  CDT_REQUIRE(form != Form::kAuto, "a form must have been chosen");
  CDT_REQUIRE(form != Form::kDual || !problem.ranks->several(),
              "form dual has one kernel of all rows, which several ranks do not share");
  if (form == Form::kDual) return make_dual(problem);
  if (form == Form::kPrimal) return make_primal(problem);
  RidgeOptions wanted = options;
  if (form == Form::kFree) wanted.sketch_rows = 0;
  return make_iterative(problem, wanted);
}

bool reduces(const Residuals& residuals) {
  return residuals.D.defined() && residuals.D.size(0) != residuals.D.size(1);
}

namespace {

/// Of Dᵀŷ, where residuals are fewer.
kernel::LinearizationPtr reduced(const kernel::LinearizationPtr& network,
                                 const Residuals& residuals) {
  return reduces(residuals) ? network->projected(residuals.D) : network;
}

/// K for Θ of what `reduced` gives.
Tensor weighted_kernel(const Tensor& theta, const Residuals& residuals, torch::ScalarType dtype) {
  if (!residuals.D.defined()) {
    const Tensor half = dynamics::times_blocks(theta.to(torch::kFloat64), residuals.S);
    return dynamics::times_blocks(half.t().contiguous(), residuals.S).to(dtype);
  }
  Tensor K = theta.to(dtype);
  if (residuals.all_one) return K;
  const Tensor scale = residuals.scale.reshape({-1}).to(dtype);
  K *= scale.unsqueeze(0);
  K *= scale.unsqueeze(1);
  return K;
}

}  // namespace

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

const Tensor& ShiftedFactor::lower(double lambda) {
  if (factored_ == lambda) return factor_;
  Tensor shifted = matrix_.clone();
  shifted.diagonal().add_(lambda);
  const auto [L, info] =
      decompose_aside(shifted, [shifted] { return torch::linalg_cholesky_ex(shifted); });
  factor_ = info.item<int64_t>() == 0 ? L : Tensor();
  factored_ = lambda;
  return factor_;
}

Tensor ShiftedFactor::solve(const Tensor& b, double lambda) {
  const Tensor& L = lower(lambda);
  if (!L.defined()) return {};
  const Tensor right = b.to(L.scalar_type()).unsqueeze(1);
  return torch::cholesky_solve(right, L).squeeze(1).to(torch::kFloat64);
}

double ShiftedFactor::freedom(double lambda) {
  const Tensor& L = lower(lambda);
  if (!L.defined()) return kUnknown;
  const int64_t m = matrix_.size(0);
  if (m <= kMostExact) {
    return static_cast<double>(m) -
           lambda * torch::cholesky_inverse(L).diagonal().sum().item<double>();
  }
  const auto generator = at::detail::createCPUGenerator(/*seed=*/1);
  const Tensor signs = torch::randint(0, 2, {m, kProbes}, generator, torch::kFloat64);
  const Tensor probes = (2 * signs - 1).to(L.device());
  const double square =
      torch::linalg_solve_triangular(L, probes, /*upper=*/false).square().sum().item<double>();
  return static_cast<double>(m) - lambda * square / kProbes;
}

}  // namespace cdt::train
