/// Stability of gradient descent on the local model (paper eq. stabilityOfMSE,
/// LinearizedExpBoundedness) and kernel margins.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

namespace cdt::analysis {

/// In modes e⁺ = (1 − s)e, s = α c_L λ. The system matrix is symmetric, so ‖e(k)‖ ≤ γκᵏ‖e(0)‖ with
/// γ = 1, κ = max|1 − s|.
struct Stability {
  double gamma = 1;
  double kappa = 1;          ///< max |1 − s| over reachable modes: the rate of the worst one.
  bool stable = false;       ///< max |1 − s| ≤ 1 over all modes: errors stay bounded.
  bool exponential = false;  ///< 0 < s < 2 on reachable modes: errors that labels can move die out.
  bool strictly_contracting =
      false;  ///< α c_L λ_max < 1, the stricter test of the paper's tables: no mode oscillates.
  /// 2/λ_max, the largest αc_L: beyond it gradient descent diverges. Infinite for a zero kernel.
  /// Over c_L it is a learning rate, so is the next.
  double scale_max = 0;
  double scale_monotone = 0;  ///< 1/λ_max: beyond it the fastest mode oscillates.
};

/// For step_scale = αc_L. With leading modes alone all are bounds that hold: λ_max is that of
/// Modes::upper_bound, and κ is 1 at least, since nothing is known of the slowest mode.
/// @throws InvalidArgument unless αc_L ≥ 0 and finite.
Stability assess_stability(const dynamics::Modes& modes, double step_scale);

/// The loop stays stable while the kernel is scaled by any factor in (0, margin).
struct Margins {
  double gd = 0;   ///< 2 / max s; below 1 the loop is unstable as it is
  double cdt = 0;  ///< 2 / max s(1 + k)
};

/// As the controller's certificate has it; of a gain matrix however large, by the eigenvalues μ of
/// SG on the reachable subspace: |1 − δμ| < 1 while δ < 2 Re μ/|μ|², O(n³).
Margins kernel_margins(const control::Controller& controller);

}  // namespace cdt::analysis
