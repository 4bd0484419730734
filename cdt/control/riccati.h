/// The discrete algebraic Riccati equation for arbitrary weights, by structured doubling (paper
/// App. DARE).
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::control {

struct RiccatiOptions {
  /// Doubling converges quadratically: k iterations correspond to 2^k steps of the closed loop. 15
  /// to 27 are usual; 64 is more than any radius below 1 − 10⁻¹⁶ can need.
  int64_t max_iterations = 64;
};

/// The solution of a discrete Riccati equation, with its accuracy.
struct RiccatiSolution {
  torch::Tensor P;  ///< [n, n] symmetric; the cost to go is ½ xᵀPx.
  torch::Tensor K;  ///< [m, n] gain; the optimal input is u = −K x.
  double relative_residual =
      0;  ///< ‖P − Q − AᵀP(A − BK)‖ / ‖P‖, Frobenius, recomputed after the solve.
  double closed_loop_radius = 0;  ///< max |eig(A − BK)|; augmented form: without its eigenvalue 1
  int64_t iterations = 0;
  /// Set by `solve_augmented_riccati`: x_e [n − 1], the equilibrium with zero cost.
  torch::Tensor equilibrium{};

  /// ½xᵀPx, the cost from x [n] to rest. For the augmented form it is computed from x − x_e, so
  /// that large labels cost no digits.
  /// @throws InvalidArgument if x is not [n], float64 and finite.
  double optimal_cost(const torch::Tensor& x) const;
};

/// Solves P = Q + AᵀPA − AᵀPB (R + BᵀPB)⁻¹ BᵀPA  (paper eq. riccati) for its stabilizing solution.
///
/// Float64, one device: A [n, n], B [n, m], Q [n, n], R [m, m]. O(n³) per iteration.
///
/// @throws InvalidArgument if a shape or dtype does not fit, an entry is not finite, Q is not
///   symmetric PSD, R is not symmetric PD, or (A, B) is not stabilizable up to rounding, in any
///   units. The message names the eigenvalue; project null modes out first. The paper's state [ŷ;
///   1] has such a mode, at 1: use `solve_augmented_riccati`.
/// @throws NumericalError if (A, Q) is not detectable (the message names the eigenvalue), on no
///   convergence, or if the closed loop's radius is not below 1 by 10⁻¹¹.
RiccatiSolution solve_riccati(const torch::Tensor& A, const torch::Tensor& B,
                              const torch::Tensor& Q, const torch::Tensor& R,
                              const RiccatiOptions& options = {});

/// The paper's augmented form of the control problem, with state ỹ = [ŷ; 1], derived from the error
/// form that the library solves. Its dynamics has an uncontrollable eigenvalue at 1, so general
/// solvers reject it; these matrices are the exact translation of the solution in e = ŷ − y
/// (docs/explanation/mathematics.md).
struct AugmentedView {
  torch::Tensor A;  ///< [n+1, n+1]  [I − S, S y; 0, 1]
  torch::Tensor B;  ///< [n+1, n]    [S; 0]
  torch::Tensor Q;  ///< [n+1, n+1]  [Q, −Qy; −yᵀQ, yᵀQy]
  torch::Tensor K;  ///< [n, n+1]    [K, −K y], y_u = −K̃ỹ (eq. control-feedback)
  torch::Tensor P;  ///< [n+1, n+1]  [P, −Py; −yᵀP, yᵀPy], solves eq. riccati; the cost is ½ỹᵀP̃ỹ
  torch::Tensor closed_loop;  ///< Ã − B̃K̃ (eq. cloop)
};

/// S, K, P, Q [n, n] and labels y [n], float64.
/// @throws InvalidArgument if a shape or dtype does not fit or an entry is not finite.
AugmentedView augmented_view(const torch::Tensor& S, const torch::Tensor& K, const torch::Tensor& P,
                             const torch::Tensor& Q, const torch::Tensor& y);

/// Solves the paper's problem as printed (eq. LQC), for the augmented matrices. The mode at 1
/// leaves one entry of P̃ undetermined in eq. riccati; this is the solution whose ½ỹᵀP̃ỹ is the
/// optimal cost. Accepts any Ã = [A₁, a; 0, 1], B̃ = [B₁; 0] [n, m] and Q̃ [n, n] whose cost
/// vanishes at an equilibrium x_e = A₁x_e + a; in the paper x_e = y. Solved in x − x_e.
/// @throws InvalidArgument as solve_riccati for A₁, B₁ and Q₁; also if Ã and B̃ do not have that
///   form, or the cost vanishes at no equilibrium: then it is infinite everywhere.
/// @throws NumericalError as solve_riccati.
RiccatiSolution solve_augmented_riccati(const torch::Tensor& A, const torch::Tensor& B,
                                        const torch::Tensor& Q, const torch::Tensor& R,
                                        const RiccatiOptions& options = {});

/// max |eig(M)| of a square float64 matrix by normalised repeated squaring, ‖M^(2^k)‖^(1/2^k).
/// Works for any eigenvalues: complex, repeated, or of a matrix far from normal; the only error is
/// the rounding of the products. 52 matrix products; a general eigensolver takes longer and is
/// missing on some GPUs.
double spectral_radius(const torch::Tensor& M);

/// Q: symmetric positive semidefinite, [n, n] or a diagonal [n] → [n, n].
/// @throws InvalidArgument otherwise; the message gives the smallest eigenvalue.
torch::Tensor require_state_weight(const torch::Tensor& Q, int64_t n);
/// R: symmetric positive definite, [m, m] or a diagonal [m] → [m, m]. Throws likewise.
torch::Tensor require_input_weight(const torch::Tensor& R, int64_t m);

}  // namespace cdt::control
