/// The paper's augmented form of the control problem, state ỹ = [ŷ; 1], as a view of the error form
/// that we solve.
///
/// Its dynamics has an uncontrollable eigenvalue at 1, so no general solver accepts it; the
/// matrices below are the exact translation of the solution in e = ŷ − y
/// (docs/explanation/mathematics.md).
#pragma once

#include <cdt/control/riccati.h>
#include <cdt/core/error.h>

namespace cdt::control {

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

/// The paper's problem as it is printed (eq. LQC), for the augmented matrices themselves: of all
/// solutions of eq. riccati, whose mode at 1 leaves one entry of P̃ open, the one whose ½ỹᵀP̃ỹ is the
/// optimal cost. Any Ã = [A₁, a; 0, 1], B̃ = [B₁; 0] [n, m] and Q̃ [n, n] whose cost vanishes at a
/// rest x_e = A₁x_e + a; the paper's is y. Solved in x − x_e.
/// @throws InvalidArgument as solve_riccati for A₁, B₁ and Q₁; also if Ã and B̃ are not of that form
/// or the cost vanishes at no rest: then it is infinite from everywhere.
/// @throws NumericalError as solve_riccati.
RiccatiSolution solve_augmented_riccati(const torch::Tensor& A, const torch::Tensor& B,
                                        const torch::Tensor& Q, const torch::Tensor& R,
                                        const RiccatiOptions& options = {});

}  // namespace cdt::control
