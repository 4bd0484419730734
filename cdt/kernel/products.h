/// Products of a model's derivatives with vectors, without forming a Jacobian or Hessian.
///
/// J = ∂ŷ/∂θ is [n, P]: ŷ stacked sample-major (entry i·n_L + c), θ in the order of Model. Vectors
/// are one-dimensional tensors of the model's dtype and device. Each call costs a forward pass and
/// one or two backward passes. All functions throw InvalidArgument if a layer is in training mode
/// (batch norm, dropout) or no parameter influences the outputs.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// Jᵀv [P], for v [n].
/// @throws InvalidArgument if v has another length, dtype or device, or is not finite.
torch::Tensor vector_jacobian_product(const Model& model, const torch::Tensor& x,
                                      const torch::Tensor& v);

/// J u [n], for u [P]. Differentiates Jᵀv with respect to v, so the model must be twice
/// differentiable.
/// @throws InvalidArgument if u has another length, dtype or device, or is not finite.
torch::Tensor jacobian_vector_product(const Model& model, const torch::Tensor& x,
                                      const torch::Tensor& u);

/// Checks once per model that J u, from two backward passes, is the transpose of Jᵀv, from one.
/// Called by the products here and by NtkOperator.
/// @throws NumericalError if an operator's second derivative is wrong, as may happen in
///   user-defined operators.
void require_transposes(const Model& model, const torch::Tensor& x);

/// (Σᵢ wᵢ ∂²ŷᵢ/∂θ²) u [P], for w [n] and u [P]: the Hessian of wᵀŷ times u.
/// @throws InvalidArgument if w or u has another length, dtype or device, or is not finite.
torch::Tensor hessian_vector_product(const Model& model, const torch::Tensor& x,
                                     const torch::Tensor& w, const torch::Tensor& u);

/// ∂²ŷ/∂θ²[u, v] [n], for u and v [P]: entry i is uᵀ(∂²ŷᵢ/∂θ²)v, the bilinear map whose norm enters
/// the Lagrange bound. Costs one backward pass more than a Hessian-vector product.
/// @throws InvalidArgument if u or v has another length, dtype or device, or is not finite.
torch::Tensor second_derivative(const Model& model, const torch::Tensor& x, const torch::Tensor& u,
                                const torch::Tensor& v);

}  // namespace cdt::kernel
