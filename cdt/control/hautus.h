/// Hautus' test in floating point: modes of A that do not decay and that no input moves, or that
/// cost nothing.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::control {

/// Returns if x⁺ = Ax + Bu with the cost xᵀQx + uᵀRu has a stabilizing solution, up to rounding of
/// its matrices, whatever the units of x, u and the cost. Float64: A [n, n], B [n, m], Q [n, n]
/// PSD, R [m, m] PD.
/// @throws InvalidArgument if (A, B) is not stabilizable,
/// @throws NumericalError if (A, Q) is not detectable; both messages name the eigenvalue.
void require_solvable(const torch::Tensor& A, const torch::Tensor& B, const torch::Tensor& Q,
                      const torch::Tensor& R);

}  // namespace cdt::control
