/// Parameters that an operator broadcasts over its output: biases and scales.
#pragma once

#include <cdt/kernel/rules/rule.h>

namespace cdt::kernel::rules {

/// Why J of an operand of this shape is not a sum of G over dimensions: it varies along the
/// samples. Empty if it is, for an output of `rank` dimensions with samples along the given one.
std::string broadcast_objection(c10::IntArrayRef shape, size_t rank, int64_t sample_dimension = 0);

/// J [b·c, numel] of an operand that is added to h, with a scale: G [b, c, T, d…] summed over the
/// dimensions that the operand lacks.
torch::Tensor broadcast_rows(const torch::Tensor& G, c10::IntArrayRef shape, double scale);

}  // namespace cdt::kernel::rules
