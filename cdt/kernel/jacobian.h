/// Rows of the Jacobian by autograd: exact for any model, and the fallback of the layer rules.
#pragma once

#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// J = ∂ŷ/∂(parameters) [r·n_L, m], in the model's dtype: each sample alone, one backward pass per
/// output. `together` is ŷ [r, n_L] of the whole batch: a sample that gives other outputs alone is
/// a sample that others influence.
/// @throws InvalidArgument in that case; the message names the sample.
torch::Tensor jacobian_rows(const Model& model, const torch::Tensor& x,
                            const torch::Tensor& together,
                            const std::vector<torch::Tensor>& parameters);

}  // namespace cdt::kernel
