/// The controller for arbitrary weights Q ⪰ 0 and R ≻ 0: some samples or outputs matter more than
/// others.
#pragma once

#include <cdt/control/riccati.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

namespace cdt::control {

/// K and what it promises. On null directions (and modes so slow that 10¹⁰ steps would not show
/// them) K is zero: no label moves them, and their cost is infinite unless their error is zero.
/// (The spectral controller keeps the limit k(0) there; neither choice has an effect.)
struct GeneralController {
  dynamics::Modes modes;
  int64_t rank = 0;  ///< modes that are controlled: those with a step s of at least 10⁻¹⁰
  torch::Tensor K;   ///< [n, n]
  torch::Tensor steering;  ///< G = I + K [n, n], from (R + BᵀPB)⁻¹(R + SP), not as a sum
  torch::Tensor P;         ///< [n, n], on the reachable subspace
  double relative_residual =
      0;  ///< of the Riccati equation in the balanced coordinates it was solved in
  double closed_loop_radius = 0;  ///< on the reachable subspace
  int64_t iterations = 0;

  /// As SpectralController's.
  torch::Tensor augment(const torch::Tensor& y_hat, const torch::Tensor& y) const;
  torch::Tensor steer(const torch::Tensor& error) const;
  double optimal_cost(const torch::Tensor& error) const;
};

/// Q and R [n, n], or their diagonals [n]. Doubling on the reachable subspace with the full R (a
/// projected one would be suboptimal).
/// @throws InvalidArgument if step_scale = αc_L is not positive, Q not PSD, R not PD, a shape or
/// dtype does not fit, or every mode is
///   slower than that.
/// @throws NumericalError if Q gives no weight to a mode that gradient descent blows up (not
/// detectable), or on no convergence.
GeneralController design_general(const dynamics::Modes& modes, double step_scale,
                                 const torch::Tensor& Q, const torch::Tensor& R,
                                 const RiccatiOptions& options = {});

}  // namespace cdt::control
