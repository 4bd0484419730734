/// Robustness of the H₂ policy and the influence of the learning rate (the paper's remarks).
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>

#include <optional>
#include <vector>

namespace cdt::analysis {

/// The loop stays stable while every label augment is scaled by δ, y_u = −δKe.
struct GainMargin {
  double lower = 0;  ///< exact: all reachable modes are stable for δ in (lower, upper), 1 inside
  double upper = 0;
  /// The interval that the Riccati equation promises for any such controller: (1/(1 + a), 1/(1 −
  /// a)), a² = p/(p + s²P), the least return difference. It lies inside; at large steps it closes
  /// around 1.
  double guaranteed_lower = 0;
  double guaranteed_upper = 0;
};

/// Mode by mode −1 < 1 − s − δsk < 1. Without reachable modes everything is stable, (−∞, ∞).
/// @throws InvalidArgument unless all modes are known.
GainMargin gain_margin(const control::ModalController& controller);

/// What one learning rate does (remark Learning rate adaptation).
struct RateRow {
  double learning_rate = 0;
  bool stable = false;                ///< gradient descent, max |1 − s| ≤ 1
  bool strictly_contracting = false;  ///< the tables' α c_L λ_max < 1
  double radius_gd = 0;
  double radius_cdt = 0;
  double margin_gd = 0;  ///< how far the kernel may grow
  double margin_cdt = 0;
};

/// One row per rate, for a loss with gradient c_L·e; radius and margin of controlled descent are
/// those of the law, without one NaN. O(n) each: the spectrum is only scaled.
/// @throws InvalidArgument if a rate or c_L is not positive.
std::vector<RateRow> rate_table(const dynamics::Modes& modes, double gradient_factor,
                                const std::vector<double>& learning_rates,
                                const std::optional<control::Law>& law = control::lqr(1, 0.1));

}  // namespace cdt::analysis
