/// Cholesky factors of a kernel plus a multiple of the identity, for damped steps.
#pragma once

#include <torch/types.h>

#include <utility>

namespace cdt::control {

/// A symmetric matrix M and the factor of M + λI for the last λ, which is cached.
class ShiftedFactor {
 public:
  explicit ShiftedFactor(torch::Tensor matrix) : matrix_(std::move(matrix)) {}

  const torch::Tensor& matrix() const { return matrix_; }
  /// The lower factor of M + λI; undefined if that is not positive definite.
  const torch::Tensor& lower(double lambda);
  /// (M + λI)⁻¹ b [m], float64, solved in the precision of M; undefined likewise.
  torch::Tensor solve(const torch::Tensor& b, double lambda);
  /// tr M(M + λI)⁻¹: exact up to 500 rows, estimated with 32 random probes beyond, to some percent.
  /// NaN if not positive definite.
  double freedom(double lambda);

 private:
  torch::Tensor matrix_;
  double factored_ = -1;
  torch::Tensor factor_;
};

}  // namespace cdt::control
