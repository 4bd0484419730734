/// Cholesky factors of a kernel with a multiple of the identity: what a damped step solves with.
#pragma once

#include <torch/types.h>

#include <utility>

namespace cdt::control {

/// A symmetric matrix with a multiple of the identity, factorized; of the last multiple kept.
class ShiftedFactor {
 public:
  explicit ShiftedFactor(torch::Tensor matrix) : matrix_(std::move(matrix)) {}

  const torch::Tensor& matrix() const { return matrix_; }
  /// The lower factor of M + λI; undefined where that is not positive definite.
  const torch::Tensor& lower(double lambda);
  /// (M + λI)⁻¹ b [m], float64, solved in the precision of M; undefined likewise.
  torch::Tensor solve(const torch::Tensor& b, double lambda);
  /// tr M(M + λI)⁻¹: exact up to 500 rows, beyond that by 32 random probes, some percent off. NaN
  /// likewise.
  double freedom(double lambda);

 private:
  torch::Tensor matrix_;
  double factored_ = -1;
  torch::Tensor factor_;
};

}  // namespace cdt::control
