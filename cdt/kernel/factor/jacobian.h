/// Rows of the Jacobian by autograd: exact for any model, and the fallback of the layer rules.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

struct JacobianRows {
  torch::Tensor rows;          ///< ∂ŷ/∂(parameters) [r·c, m], in the model's dtype
  double coupling = 0;         ///< how far a sample's outputs move when it is evaluated alone
  int64_t coupled_sample = 0;  ///< the sample that moves farthest
};

/// Each sample alone, one backward pass for each of `outputs` outputs from `first_output` on.
/// `together` is ŷ [r, n_L] of the whole batch: a sample that gives other outputs alone (beyond
/// rounding) is one that the others influence.
/// @throws InvalidArgument if a sample has another number of outputs alone.
JacobianRows jacobian_rows(const Model& model, const torch::Tensor& x,
                           const torch::Tensor& together,
                           const std::vector<torch::Tensor>& parameters, int64_t first_output,
                           int64_t outputs);

}  // namespace cdt::kernel
