/// The discrete algebraic Riccati equation for arbitrary weights, by structured doubling (paper
/// App. DARE).
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::control {

struct RiccatiOptions {
  /// Doubling converges quadratically: 2^k steps of the closed loop after k iterations. 15 to 27
  /// are usual; 64 is more than any radius below 1 − 10⁻¹⁶ can need.
  int64_t max_iterations = 64;
};

/// How a discrete Riccati equation was solved, and how well.
struct RiccatiSolution {
  torch::Tensor P;  ///< [n, n] symmetric; the cost to go is ½ xᵀPx.
  torch::Tensor K;  ///< [m, n] gain; the optimal input is u = −K x.
  double relative_residual =
      0;  ///< ‖P − Q − AᵀP(A − BK)‖ / ‖P‖, Frobenius, recomputed after the solve.
  double closed_loop_radius = 0;  ///< max |eig(A − BK)|; of the augmented form without its 1
  int64_t iterations = 0;
  /// Of `solve_augmented_riccati`: x_e [n − 1], where x rests and costs nothing.
  torch::Tensor equilibrium{};

  /// ½xᵀPx, what it costs to come to rest from x [n]. In the augmented form from the error x − x_e,
  /// so that large labels cost no digits.
  /// @throws InvalidArgument if x is not [n], float64 and finite.
  double optimal_cost(const torch::Tensor& x) const;
};

/// Solves P = Q + AᵀPA − AᵀPB (R + BᵀPB)⁻¹ BᵀPA  (paper eq. riccati) for its stabilizing solution.
///
/// Float64, one device: A [n, n], B [n, m], Q [n, n], R [m, m]. O(n³) per iteration.
///
/// @throws InvalidArgument if a shape or dtype does not fit, an entry is not finite, Q is not
/// symmetric PSD, R not symmetric PD, or (A, B) is not stabilizable: to rounding, whatever the
/// units. The message names the eigenvalue; project null modes out first. The paper's state [ŷ; 1]
/// has such a mode, at 1: `solve_augmented_riccati` solves that (augmented_view.h).
/// @throws NumericalError if (A, Q) is not detectable (the message names the eigenvalue), on no
/// convergence, or if the closed loop's radius is not below 1 by 10⁻¹¹.
RiccatiSolution solve_riccati(const torch::Tensor& A, const torch::Tensor& B,
                              const torch::Tensor& Q, const torch::Tensor& R,
                              const RiccatiOptions& options = {});

/// max |eig(M)| of a square float64 matrix by normalised repeated squaring, ‖M^(2^k)‖^(1/2^k): any
/// eigenvalues, complex, repeated or far from normal; what is wrong is the rounding of the
/// products. 52 matrix products; a general eigensolver takes longer and is missing on some GPUs.
double spectral_radius(const torch::Tensor& M);

/// Q: symmetric positive semidefinite, [n, n] or a diagonal [n] → [n, n].
/// @throws InvalidArgument otherwise; the message gives the smallest eigenvalue.
torch::Tensor require_state_weight(const torch::Tensor& Q, int64_t n);
/// R: symmetric positive definite, likewise.
torch::Tensor require_input_weight(const torch::Tensor& R, int64_t m);

}  // namespace cdt::control
