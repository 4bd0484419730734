/// Named checks on tensors: each throws InvalidArgument with the name, what was expected and the
/// offending value.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <string_view>

namespace cdt {

/// A defined, dense floating-point tensor.
void require_floating(const torch::Tensor& tensor, std::string_view name);
/// Every entry finite; the message gives the first offending index and value.
void require_finite(const torch::Tensor& tensor, std::string_view name);
/// Exactly this shape; −1 matches any size.
void require_shape(const torch::Tensor& tensor, c10::IntArrayRef shape, std::string_view name);
/// A non-empty square matrix of float64 with finite entries.
void require_square(const torch::Tensor& tensor, std::string_view name);
/// require_square, and no entry beyond tol::kLargestEntry, so that products of a kernel with itself
/// and with vectors do not overflow.
void require_kernel(const torch::Tensor& theta);
/// require_square, and ‖X − Xᵀ‖_max ≤ tolerance·‖X‖_max; the message gives the worst pair of
/// entries.
void require_symmetric(const torch::Tensor& tensor, std::string_view name, double tolerance);
/// A finite matrix whose rows are distributions: entries not negative, sums of 1.
void require_distributions(const torch::Tensor& tensor, std::string_view name);
/// A finite number above zero.
void require_positive(double value, std::string_view name);
/// A finite number, zero or above.
void require_non_negative(double value, std::string_view name);

}  // namespace cdt
