/// Hautus' test in floating point: modes of A that do not decay and that no input moves, or that
/// cost nothing.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <string>

namespace cdt::control {

/// (A, B) is not stabilizable. What may help is said apart: it depends on what was asked.
class NotStabilizable : public InvalidArgument {
 public:
  NotStabilizable(const std::string& mode, const std::string& help)
      : InvalidArgument(mode + help), mode_(mode) {}
  /// The message without help.
  const std::string& mode() const { return mode_; }

 private:
  std::string mode_;
};

/// Returns if x⁺ = Ax + Bu with the cost xᵀQx + uᵀRu has a stabilizing solution, up to rounding of
/// its matrices, whatever the units of x, u and the cost. Float64: A [n, n], B [n, m], Q [n, n]
/// PSD, R [m, m] PD.
/// @throws NotStabilizable (an InvalidArgument) if (A, B) is not,
/// @throws NumericalError if (A, Q) is not detectable; both messages name the eigenvalue.
void require_solvable(const torch::Tensor& A, const torch::Tensor& B, const torch::Tensor& Q,
                      const torch::Tensor& R);

}  // namespace cdt::control
