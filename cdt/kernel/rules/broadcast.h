/// Parameters that an operator spreads over the dimensions of its output: biases and scales.
#pragma once

#include <cdt/kernel/rule.h>

namespace cdt::kernel::rules {

/// Why a parameter's part of J is no sum over dimensions of G: it varies along the samples. Empty
/// if it is one, for an output of `rank` dimensions.
std::string broadcast_objection(const torch::Tensor& parameter, size_t rank);

/// J [b·c, numel] of a parameter that is added to h, scaled: G [b, c, T, d…] summed over the
/// dimensions that the parameter does not have.
torch::Tensor broadcast_rows(const torch::Tensor& G, const torch::Tensor& parameter, double scale);

}  // namespace cdt::kernel::rules
