/// Products of the kernel with vectors by its factors: no matrix of the kernel is formed.
#pragma once

#include <cdt/kernel/factor_group.h>

namespace cdt::kernel {

/// J_g J_gᵀ V [b·c, k] for the part g of a block's Jacobian and V [b·c, k], in V's dtype.
/// Temporaries have about `slice` entries, beside k vectors of the group's parameters.
torch::Tensor kernel_product(const FactorGroup& group, const torch::Tensor& V, int64_t slice);

}  // namespace cdt::kernel
