/// Products and residuals of a gain that acts mode by mode.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

namespace cdt::control {

/// V diag(d) Vᵀ + tail·(I − VVᵀ)
inline torch::Tensor matrix_of_modes(const torch::Tensor& V, const torch::Tensor& d, double tail) {
  if (V.size(1) == V.size(0)) return (V * d).mm(V.t());
  return (V * (d - tail)).mm(V.t()).add_(torch::eye(V.size(0), V.options()), tail);
}

/// The same, applied to e. With a tail, the rest of e is projected off V twice: a share of fast
/// modes that rounding left in it would be steered as if it were slow.
inline torch::Tensor apply_modes(const torch::Tensor& V, const torch::Tensor& d, double tail,
                                 const torch::Tensor& e) {
  const torch::Tensor modal = V.t().mv(e);
  if (V.size(1) == V.size(0)) return V.mv(modal * d);
  const torch::Tensor rest = e - V.mv(modal);
  const torch::Tensor left = V.t().mv(rest);
  return torch::addmv(tail * (rest - V.mv(left)), V, (modal + left) * d);
}

/// ‖P − Q − AᵀP(I − SG)‖ / (‖P‖(1 + ‖A‖)(1 + ‖S‖‖G‖)), Frobenius (for A, S and G: spectral), on the
/// reachable subspace. P, G and Q have the eigenvalues w/s, `steering` and `weights` [m] for the
/// steps s [m]. A and S are computed from `theta` itself rather than from its modes, S =
/// step_scale·Θ + decay_step·I, so that the residual includes the error of the modes. It is
/// relative to the size of its terms: at a step of 10⁸, rounding of Θ alone moves them by 10⁸
/// units. Three matrix products; one n×n and some n×512 temporaries.
double riccati_residual(const dynamics::Modes& modes, const torch::Tensor& s,
                        const torch::Tensor& w, const torch::Tensor& steering,
                        const torch::Tensor& weights, double step_scale, double decay_step,
                        const torch::Tensor& theta);

}  // namespace cdt::control
