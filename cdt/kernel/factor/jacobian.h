/// Jacobian rows by autograd: exact for any model, the fallback of the layer rules.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

struct JacobianRows {
  torch::Tensor rows;          ///< ∂ŷ/∂(parameters) [r·c, m], in the model's dtype
  double coupling = 0;         ///< change of a sample's outputs when evaluated alone
  int64_t coupled_sample = 0;  ///< the sample with the largest change
};

/// Evaluates each sample alone, with one backward pass for each of `outputs` outputs from
/// `first_output` on. `together` is ŷ [r, n_L] of the whole batch: if a sample's outputs differ
/// beyond rounding, other samples influence it.
/// @throws InvalidArgument if a sample alone has another number of outputs.
JacobianRows jacobian_rows(const Model& model, const torch::Tensor& x,
                           const torch::Tensor& together,
                           const std::vector<torch::Tensor>& parameters, int64_t first_output,
                           int64_t outputs);

}  // namespace cdt::kernel
