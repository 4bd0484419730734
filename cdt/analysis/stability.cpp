#include <cdt/analysis/stability.h>
#include <cdt/core/check.h>

#include <algorithm>
#include <cmath>

namespace cdt::analysis {

Stability assess_stability(const dynamics::Modes& modes, double step_scale) {
  require_non_negative(step_scale, "step_scale");
  const double fastest = step_scale * modes.largest();
  Stability stability;
  if (modes.rank > 0) {
    const double slowest = step_scale * modes.values[modes.nullity()].item<double>();
    // |1 − s| is convex: its maximum lies at one end of the spectrum.
    stability.kappa = std::max(std::abs(1 - slowest), std::abs(1 - fastest));
  }
  stability.stable = fastest <= 2;
  // Not κ < 1: that of a slow mode may round to 1.
  stability.exponential = modes.rank > 0 && step_scale > 0 && fastest < 2;
  stability.strictly_contracting = fastest < 1;
  stability.scale_max = 2 / modes.largest();
  stability.scale_monotone = 1 / modes.largest();
  return stability;
}

Margins kernel_margins(const control::SpectralController& controller) {
  return {2 / controller.s.max().item<double>(),
          2 / (controller.s * controller.gains.steering).max().item<double>()};
}

}  // namespace cdt::analysis
