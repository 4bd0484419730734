/// Products of a model's derivatives with vectors: no Jacobian or Hessian is ever formed.
///
/// J = ∂ŷ/∂θ is [n, P]: ŷ stacked sample-major (entry i·n_L + c), θ as Model orders it. Vectors are
/// one-dimensional tensors of the model's dtype and device; each call costs a forward pass and one
/// or two backward passes. All throw InvalidArgument if a layer is in training mode (batch norm,
/// dropout) or no parameter moves the outputs.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// Jᵀv [P], for v [n].
/// @throws InvalidArgument if v has another length, dtype or device, or is not finite.
torch::Tensor vector_jacobian_product(const Model& model, const torch::Tensor& x,
                                      const torch::Tensor& v);

/// J u [n], for u [P]; by differentiating Jᵀv with respect to v, so any model that differentiates
/// twice will do.
/// @throws InvalidArgument if u has another length, dtype or device, or is not finite.
torch::Tensor jacobian_vector_product(const Model& model, const torch::Tensor& x,
                                      const torch::Tensor& u);

/// Once for each model: whether its J u, by two backward passes, is the transpose of its Jᵀv, which
/// one gives. The products here and NtkOperator ask for it.
/// @throws NumericalError if an operator's second derivative is wrong, as a user's own may be.
void require_transposes(const Model& model, const torch::Tensor& x);

/// (Σᵢ wᵢ ∂²ŷᵢ/∂θ²) u [P], for w [n] and u [P]: the Hessian of wᵀŷ times u.
/// @throws InvalidArgument if w or u has another length, dtype or device, or is not finite.
torch::Tensor hessian_vector_product(const Model& model, const torch::Tensor& x,
                                     const torch::Tensor& w, const torch::Tensor& u);

/// ∂²ŷ/∂θ²[u, v] [n], for u and v [P]: entry i is uᵀ(∂²ŷᵢ/∂θ²)v, the bilinear map whose norm the
/// Lagrange bound wants. One backward pass more than a Hessian-vector product.
/// @throws InvalidArgument if u or v has another length, dtype or device, or is not finite.
torch::Tensor second_derivative(const Model& model, const torch::Tensor& x, const torch::Tensor& u,
                                const torch::Tensor& v);

}  // namespace cdt::kernel
