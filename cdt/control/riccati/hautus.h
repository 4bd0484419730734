/// Hautus' test in floating point: finds modes of A that do not decay and that either no input
/// moves or have no cost.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <string>

namespace cdt::control {

/// (A, B) is not stabilizable. The advice is separate from the message, since it depends on the
/// caller.
class NotStabilizable : public InvalidArgument {
 public:
  NotStabilizable(const std::string& mode, const std::string& help)
      : InvalidArgument(mode + help), mode_(mode) {}
  /// The message without the advice.
  const std::string& mode() const { return mode_; }

 private:
  std::string mode_;
};

/// Returns if x⁺ = Ax + Bu with the cost xᵀQx + uᵀRu has a stabilizing solution, up to rounding of
/// its matrices, in any units of x, u and the cost. Float64: A [n, n], B [n, m], Q [n, n] PSD, R
/// [m, m] PD.
/// @throws NotStabilizable (an InvalidArgument) if (A, B) is not stabilizable.
/// @throws NumericalError if (A, Q) is not detectable. Both messages name the eigenvalue.
void require_solvable(const torch::Tensor& A, const torch::Tensor& B, const torch::Tensor& Q,
                      const torch::Tensor& R);

}  // namespace cdt::control
