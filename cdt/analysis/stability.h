/// Stability of gradient descent on the local model (paper eq. stabilityOfMSE,
/// LinearizedExpBoundedness), at one rate and at others, and boundedness under losses that are not
/// quadratic (paper App. boundednessLosses).
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/control/law.h>
#include <cdt/control/plant.h>
#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/dynamics/modes.h>

#include <optional>
#include <vector>

namespace cdt::analysis {

/// In modes e⁺ = (1 − s)e, s = α c_L λ. The system matrix is symmetric, so ‖e(k)‖ ≤ γκᵏ‖e(0)‖ with
/// γ = 1, κ = max|1 − s|.
struct Stability {
  double gamma = 1;
  control::Known kappa;      ///< max |1 − s| over reachable modes: the rate of the worst one
  bool stable = false;       ///< max |1 − s| ≤ 1 over all modes: errors stay bounded
  bool exponential = false;  ///< 0 < s < 2 on reachable modes: errors that labels can move die out
  /// α c_L λ_max < 1, the stricter test of the paper's tables: no mode oscillates.
  bool strictly_contracting = false;
  /// 2 / max s: the loop stays stable while the kernel is scaled by any factor in (0, margin).
  /// Below 1 the loop is unstable as it is.
  control::Known margin;
};

/// Assesses step_scale = αc_L. With leading modes alone the numbers are bounds, and what is said to
/// hold does: nothing is known of the slowest mode, so κ is bounded by 1 at best.
/// @throws InvalidArgument unless αc_L ≥ 0 and finite.
Stability assess_stability(const dynamics::Modes& modes, double step_scale);

/// The same margin under any gain, v = Gx: with μ the eigenvalues of SG on the reachable subspace,
/// |1 − δμ| < 1 while δ < 2 Re μ/|μ|². O(n³).
double kernel_margin(const control::Plant& plant, const torch::Tensor& G);

/// What one learning rate does (remark Learning rate adaptation).
struct RateRow {
  double learning_rate = 0;
  bool stable = false;                ///< gradient descent, max |1 − s| ≤ 1
  bool strictly_contracting = false;  ///< the tables' α c_L λ_max < 1
  double radius_gd = 0;
  double radius_cdt = 0;
  double margin_gd = 0;  ///< how far the kernel may grow
  double margin_cdt = 0;

  void fields(Fields& f);
};

/// One row per rate, for a loss with gradient c_L·e. Radius and margin of controlled descent are
/// those of the law, and NaN without a law. O(n) each: the spectrum is only scaled.
/// @throws InvalidArgument if a rate or c_L is not positive.
std::vector<RateRow> rate_table(const dynamics::Modes& modes, double gradient_factor,
                                const std::vector<double>& learning_rates,
                                const std::optional<control::Law>& law = control::lqr(1, 0.1));

/// (α/n)‖Θ‖_∞: under the mean absolute error, ŷ⁺ = ŷ − (α/n)Θ sgn(ŷ − y), steps do not shrink near
/// the labels, and no output moves further than this in one. (The paper's radius αΘ/(rn_L) is a
/// matrix; this is its norm.)
///
/// Proved for a definite Θ: the mean of |ŷ − y| over outputs and steps falls to half of it or
/// below. With V = eᵀΘ⁻¹e, V⁺ − V = −2(α/n)‖e‖₁ + (α/n)²sgn(e)ᵀΘsgn(e), and the last product is at
/// most n‖Θ‖_∞. Observed, not proved: in the end every single output stays within it.
/// @throws InvalidArgument if Θ is not square float64 and finite, or α < 0.
double mae_radius(const torch::Tensor& theta, double learning_rate);

/// The largest α for which a step brings the outputs closer to where they belong: V = ‖ŷ − ŷ_e‖²
/// changes by −2α eᵀΘg + α²‖Θg‖², so α < 2eᵀΘg/‖Θg‖². g = ∂L/∂ŷ of any loss, e = ŷ − ŷ_e, both [n].
/// 0 if no step does, because eᵀΘg ≤ 0. (The paper takes V = ŷᵀŷ, which has nothing to do with the
/// labels, and prints the cross term of −yᵀlog ŷ with the wrong sign.)
/// @throws InvalidArgument if a shape or dtype does not fit or an entry is not finite.
double lyapunov_lr_max(const torch::Tensor& theta, const torch::Tensor& gradient,
                       const torch::Tensor& error);

}  // namespace cdt::analysis
