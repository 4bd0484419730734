#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/kernel/record/recorder.h>
#include <cdt/kernel/replay/plan_memory.h>

#include <algorithm>
#include <cmath>

namespace cdt::kernel {
namespace {

using torch::Tensor;

void require_vector(const Model& model, const Tensor& v, int64_t length, std::string_view name) {
  require_floating(v, name);
  require_shape(v, {length}, name);
  CDT_REQUIRE(v.scalar_type() == model.dtype(), name, " must have the model's dtype ",
              model.dtype(), ", got ", v.scalar_type());
  CDT_REQUIRE(v.device() == model.device(), name, " must be on the model's device ", model.device(),
              ", got ", v.device());
  require_finite(v, name);
}

/// ŷ [n], in the dtype of the parameters and vectors.
Tensor outputs_in_order(const Model& model, const Tensor& x) {
  return differentiable_outputs(model, x).reshape({-1}).to(model.dtype());
}

/// Jᵀ·seed [P]
Tensor pull_back(const Model& model, const Tensor& outputs, const Tensor& seed, Graph graph) {
  const auto found = gradients_at(model.parameters(), outputs, seed, graph);
  require_influence(found);
  return flatten(model, found);
}

}  // namespace

void require_transposes(const Model& model, const Tensor& x) {
  if (model.plans().transposes()) return;
  on_few_samples(x, [&](const Tensor& few) {
    const Tensor outputs = outputs_in_order(model, few);
    if (!outputs.requires_grad()) return;
    const Tensor v = torch::arange(1, outputs.numel() + 1, outputs.options()).cos();
    const auto found = gradients_at(model.parameters(), outputs, v, Graph::kKept);
    const Tensor u = flatten(model, found);  // Jᵀv, so that vᵀJu = ‖u‖²
    const double square = u.dot(u).item<double>();
    if (!(square > 0)) return;  // these samples give no information
    const Tensor seed = torch::zeros_like(outputs).requires_grad_();
    const Tensor pulled_back = pull_back(model, outputs, seed, Graph::kExtended);
    Tensor Ju = gradients_at({seed}, pulled_back, u, Graph::kFreed)[0];
    if (!Ju.defined()) Ju = torch::zeros_like(v);
    const double product = Ju.dot(v).item<double>();
    const double scale = std::max(square, (Ju.norm() * v.norm()).item<double>());
    const double gap = std::abs(product - square) / scale;
    if (!(gap <= tol::self_check(model.dtype()))) {
      throw NumericalError(
          c10::str("LibTorch differentiates this model wrongly the second time: a product with its "
                   "Jacobian is off by ",
                   gap, " of its size. An operator's own second derivative is at fault"));
    }
    model.plans().transposes() = true;
  });
}

Tensor vector_jacobian_product(const Model& model, const Tensor& x, const Tensor& v) {
  const KernelScope scope;
  const Tensor outputs = outputs_in_order(model, x);
  require_vector(model, v, outputs.numel(), "v");
  return pull_back(model, outputs, v, Graph::kFreed);
}

Tensor jacobian_vector_product(const Model& model, const Tensor& x, const Tensor& u) {
  const KernelScope scope;
  require_vector(model, u, model.parameter_count(), "u");
  require_transposes(model, x);
  const Tensor outputs = outputs_in_order(model, x);
  const Tensor seed = torch::zeros_like(outputs).requires_grad_();
  const Tensor pulled_back = pull_back(model, outputs, seed, Graph::kExtended);
  return gradients_at({seed}, pulled_back, u, Graph::kFreed)[0];
}

Tensor hessian_vector_product(const Model& model, const Tensor& x, const Tensor& w,
                              const Tensor& u) {
  const KernelScope scope;
  require_vector(model, u, model.parameter_count(), "u");
  require_transposes(model, x);
  const Tensor outputs = outputs_in_order(model, x);
  require_vector(model, w, outputs.numel(), "w");
  const Tensor gradient = pull_back(model, outputs, w, Graph::kExtended);
  if (!gradient.requires_grad()) return torch::zeros_like(u);  // linear in θ: no curvature
  return flatten(model, gradients_at(model.parameters(), gradient, u, Graph::kFreed));
}

Tensor second_derivative(const Model& model, const Tensor& x, const Tensor& u, const Tensor& v) {
  const KernelScope scope;
  require_vector(model, u, model.parameter_count(), "u");
  require_vector(model, v, model.parameter_count(), "v");
  require_transposes(model, x);
  const Tensor outputs = outputs_in_order(model, x);
  // vᵀH_w u is linear in w; its gradient with respect to w is the result, at any w.
  const Tensor w = torch::ones_like(outputs).requires_grad_();
  const Tensor gradient = pull_back(model, outputs, w, Graph::kExtended);
  const Tensor product =
      flatten(model, gradients_at(model.parameters(), gradient, u, Graph::kExtended));
  if (!product.requires_grad()) return torch::zeros_like(w);
  const Tensor found = gradients_at({w}, product, v, Graph::kFreed)[0];
  return found.defined() ? found : torch::zeros_like(w);
}

}  // namespace cdt::kernel
