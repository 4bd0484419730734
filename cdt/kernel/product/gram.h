/// The Gram matrix of the parameters, JᵀSSᵀJ [P, P], summed over blocks of samples, for any number
/// of samples.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>

namespace cdt::kernel {

/// JᵀSSᵀJ [P, P] in float64, θ in the order of Model, with S block-diagonal: a block [n_L, k] per
/// sample, S [r, n_L, k], float64. Products accumulate in `options.accumulate` within a block of
/// samples, their sum in float64. Same checks as empirical_ntk; 2rkP² operations.
/// @throws InvalidArgument and NumericalError likewise, or if S does not fit the outputs.
torch::Tensor parameter_gram(const Model& model, const torch::Tensor& x, const torch::Tensor& S,
                             const NtkOptions& options = {});

}  // namespace cdt::kernel
