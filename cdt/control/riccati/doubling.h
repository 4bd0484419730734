/// The doubling iteration, and the checks and refinements of its result, shared by the solvers of
/// this folder.
#pragma once

#include <cdt/control/riccati.h>
#include <cdt/core/error.h>

namespace cdt::control {

struct Doubled {
  torch::Tensor P;
  int64_t iterations = 0;
  bool converged = false;
  torch::Tensor closed{};  ///< the closed loop under P, after refinement
};

/// From A₀ = A, G₀ = BR⁻¹Bᵀ, H₀ = Q:  W = (I + GH)⁻¹,  A⁺ = AWA,  G⁺ = G + AWGAᵀ,  H⁺ = H + AᵀHWA;
/// H tends to P.
Doubled double_riccati(const torch::Tensor& A, const torch::Tensor& G, const torch::Tensor& H,
                       const RiccatiOptions& options);

/// Improves a solution that lost digits in doubling: with weights that see several growing modes
/// only in combination, A grows without bound at first. Uses Newton's method (Kleinman's form: the
/// cost of the current gain, then the best gain for that cost), started at the result of doubling
/// or, if doubling failed, at the solution for larger weights. Does nothing if every mode already
/// solves the equation. A mode that takes 1/d steps is accurate to about ε/d, since its stored
/// number is 1 − d.
Doubled refine_riccati(const torch::Tensor& A, const torch::Tensor& G, const torch::Tensor& Q,
                       const Doubled& doubled, const RiccatiOptions& options);

/// The same for A = I − diag(s), s [n] positive and ascending, and G ≻ 0. Every mode is accurate to
/// some hundred ε, however slow or fast it is compared with the others (refinement.cpp explains
/// why). Does nothing if each is accurate to tol::kModesRefined.
Doubled refine_modes(const torch::Tensor& s, const torch::Tensor& G, const torch::Tensor& Q,
                     const Doubled& doubled, const RiccatiOptions& options);

/// M⁻¹X; NaN if M is singular, where LibTorch would throw.
torch::Tensor solve_or_nan(const torch::Tensor& M, const torch::Tensor& X);

/// ‖P − Q − AᵀP·closed‖ / ‖P‖
double relative_residual(const torch::Tensor& A, const torch::Tensor& P, const torch::Tensor& Q,
                         const torch::Tensor& closed);

/// @throws NumericalError if residual or radius show that this is no stabilizing solution.
void require_converged(const RiccatiSolution& solution);

}  // namespace cdt::control
