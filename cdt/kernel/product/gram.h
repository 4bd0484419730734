/// The Gram matrix of the parameters, JᵀSSᵀJ [P, P]: what the kernel is to the outputs, summed over
/// samples in blocks, so that their number is not limited.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>

namespace cdt::kernel {

/// JᵀSSᵀJ [P, P] in float64, θ as Model orders it, with S block-diagonal: a block [n_L, k] for each
/// sample, S [r, n_L, k], float64. Products accumulate in `options.accumulate` within a block of
/// samples, and their sum in float64. With the same checks as empirical_ntk; 2rkP² operations.
/// @throws InvalidArgument and NumericalError likewise, or if S does not fit the outputs.
torch::Tensor parameter_gram(const Model& model, const torch::Tensor& x, const torch::Tensor& S,
                             const NtkOptions& options = {});

}  // namespace cdt::kernel
