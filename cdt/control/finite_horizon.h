/// The control problem over finitely many steps, for receding-horizon control with mini-batches
/// (paper App. DARE, remark Batch). For single modes it is the law `receding` (law.h).
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <vector>

namespace cdt::control {

/// The optimal input of step k is u = −gains[k] x; the cost to go from the start is ½xᵀPx.
struct FiniteHorizon {
  std::vector<torch::Tensor> gains;  ///< N matrices [m, n]; the first belongs to the first step
  torch::Tensor P;                   ///< [n, n], at the start
};

/// P_N = terminal, P_k = Q + AᵀP_{k+1}(A − BK_k), K_k = (R + BᵀP_{k+1}B)⁻¹BᵀP_{k+1}A. As N grows,
/// the first gain tends to that of solve_riccati; a receding horizon applies it and solves again.
/// @throws InvalidArgument if a shape or dtype does not fit, Q or the terminal weight is not PSD, R
///   is not PD, or N < 1.
/// @throws NumericalError on a non-finite iterate.
FiniteHorizon solve_finite_horizon(const torch::Tensor& A, const torch::Tensor& B,
                                   const torch::Tensor& Q, const torch::Tensor& R,
                                   const torch::Tensor& terminal, int64_t horizon);

}  // namespace cdt::control
