#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/autograd_scope.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/recorder.h>

namespace cdt::kernel {
namespace {

using torch::Tensor;

void require_vector(const Model& model, const Tensor& v, int64_t length, std::string_view name) {
  require_floating(v, name);
  require_shape(v, {length}, name);
  CDT_REQUIRE(v.scalar_type() == model.dtype(), name, " must have the model's dtype ",
              model.dtype(), ", not ", v.scalar_type());
  CDT_REQUIRE(v.device() == model.device(), name, " must be on the model's device ", model.device(),
              ", not ", v.device());
  require_finite(v, name);
}

/// ∂(seedᵀoutput)/∂θ, one tensor per parameter, undefined where a parameter has no influence.
std::vector<Tensor> gradients(const Model& model, const Tensor& output, const Tensor& seed,
                              bool differentiable) {
  return torch::autograd::grad({output}, model.parameters(), {seed},
                               /*retain_graph=*/differentiable, /*create_graph=*/differentiable,
                               /*allow_unused=*/true);
}

/// Jᵀ·seed [P]
Tensor pull_back(const Model& model, const Tensor& outputs, const Tensor& seed,
                 bool differentiable) {
  const auto found = gradients(model, outputs, seed, differentiable);
  require_influence(found);
  return flatten(model, found);
}

}  // namespace

Tensor vector_jacobian_product(const Model& model, const Tensor& x, const Tensor& v) {
  const AutogradScope scope;
  const Tensor outputs = differentiable_outputs(model, x).reshape({-1});
  require_vector(model, v, outputs.numel(), "v");
  return pull_back(model, outputs, v, false);
}

Tensor jacobian_vector_product(const Model& model, const Tensor& x, const Tensor& u) {
  const AutogradScope scope;
  require_vector(model, u, model.parameter_count(), "u");
  const Tensor outputs = differentiable_outputs(model, x).reshape({-1});
  const Tensor seed = torch::zeros_like(outputs).requires_grad_();
  const Tensor pulled_back = pull_back(model, outputs, seed, true);
  return torch::autograd::grad({pulled_back}, {seed}, {u})[0];
}

Tensor hessian_vector_product(const Model& model, const Tensor& x, const Tensor& w,
                              const Tensor& u) {
  const AutogradScope scope;
  require_vector(model, u, model.parameter_count(), "u");
  const Tensor outputs = differentiable_outputs(model, x).reshape({-1});
  require_vector(model, w, outputs.numel(), "w");
  const Tensor gradient = pull_back(model, outputs, w, true);
  if (!gradient.requires_grad()) return torch::zeros_like(u);  // linear in θ: no curvature
  return flatten(model, gradients(model, gradient, u, false));
}

Tensor second_derivative(const Model& model, const Tensor& x, const Tensor& u, const Tensor& v) {
  const AutogradScope scope;
  require_vector(model, u, model.parameter_count(), "u");
  require_vector(model, v, model.parameter_count(), "v");
  const Tensor outputs = differentiable_outputs(model, x).reshape({-1});
  // vᵀH_w u is linear in w; its gradient with respect to w is the answer, whatever w is.
  const Tensor w = torch::ones_like(outputs).requires_grad_();
  const Tensor gradient = pull_back(model, outputs, w, true);
  const Tensor product = flatten(model, gradients(model, gradient, u, true));
  if (!product.requires_grad()) return torch::zeros_like(w);
  const Tensor found = torch::autograd::grad({product}, {w}, {v}, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true)[0];
  return found.defined() ? found : torch::zeros_like(w);
}

}  // namespace cdt::kernel
