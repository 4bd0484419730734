/// The doubling iteration and the checks after it, shared by the solvers of this folder.
#pragma once

#include <cdt/control/riccati.h>
#include <cdt/core/error.h>

namespace cdt::control {

struct Doubled {
  torch::Tensor P;
  int64_t iterations = 0;
  bool converged = false;
  torch::Tensor closed{};  ///< the closed loop under P, once refined
};

/// From A₀ = A, G₀ = BR⁻¹Bᵀ, H₀ = Q:  W = (I + GH)⁻¹,  A⁺ = AWA,  G⁺ = G + AWGAᵀ,  H⁺ = H + AᵀHWA;
/// H tends to P.
Doubled double_riccati(const torch::Tensor& A, const torch::Tensor& G, const torch::Tensor& H,
                       const RiccatiOptions& options);

/// The same with more digits, where doubling has lost some: weights that see several growing modes
/// only together let A grow beyond all bounds at first. By Newton's method (Kleinman's form: the
/// cost of the present gain, then the best gain for that cost), from where doubling came to, or
/// from the answer for larger weights if it came to nothing. Nothing is done if every mode solves
/// the equation already. A mode that takes 1/d steps is known to some ε/d of itself, since 1 − d
/// is what is stored of it.
Doubled refine_riccati(const torch::Tensor& A, const torch::Tensor& G, const torch::Tensor& Q,
                       const Doubled& doubled, const RiccatiOptions& options);

/// The same for A = I − diag(s), s [n] positive and ascending, and G ≻ 0, with some hundred ε in
/// every mode, however slow or fast it is beside the others (refinement.cpp says why). Nothing is
/// done if each is known to tol::kModesRefined.
Doubled refine_modes(const torch::Tensor& s, const torch::Tensor& G, const torch::Tensor& Q,
                     const Doubled& doubled, const RiccatiOptions& options);

/// M⁻¹X; NaN if M is singular, which LibTorch would make an exception.
torch::Tensor solve_or_nan(const torch::Tensor& M, const torch::Tensor& X);

/// ‖P − Q − AᵀP·closed‖ / ‖P‖
double relative_residual(const torch::Tensor& A, const torch::Tensor& P, const torch::Tensor& Q,
                         const torch::Tensor& closed);

/// @throws NumericalError if the residual or the radius says that this is no stabilizing solution.
void require_converged(const RiccatiSolution& solution);

}  // namespace cdt::control
