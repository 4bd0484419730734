/// Products of the kernel with vectors from its factors, without forming the kernel.
#pragma once

#include <cdt/kernel/factor/factor_group.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

// For part g of a block's Jacobian, J_g [b·c, P_g], columns by the group's parameters in storage
// order. Temporaries have about `slice` entries, besides k vectors of the group's parameters.

/// J_gᵀ V, transposed: [k, P_g], for V [b·c, k], in V's dtype.
torch::Tensor pull_back(const FactorGroup& group, const torch::Tensor& V, int64_t slice);

/// J_g Uᵀ [b·c, k] for U [k, P_g], in U's dtype.
torch::Tensor push_forward(const FactorGroup& group, const torch::Tensor& U, int64_t slice);

/// J_g J_gᵀ V [b·c, k] for V [b·c, k], in V's dtype.
torch::Tensor kernel_product(const FactorGroup& group, const torch::Tensor& V, int64_t slice);

// For all of a block's J [b·c, P], θ in the order of the model.

/// U [k, P] += (Jᵀ V)ᵀ for V [b·c, k].
void add_pull_back(const Model& model, const std::vector<FactorGroup>& groups,
                   const torch::Tensor& V, int64_t slice, const torch::Tensor& U);

/// V [b·c, k] += J Uᵀ for U [k, P].
void add_push_forward(const Model& model, const std::vector<FactorGroup>& groups,
                      const torch::Tensor& U, int64_t slice, torch::Tensor V);

}  // namespace cdt::kernel
