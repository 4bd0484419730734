#include <cdt/analysis/stability.h>
#include <cdt/core/check.h>

#include <algorithm>
#include <cmath>

namespace cdt::analysis {

Stability assess_stability(const dynamics::Spectrum& spectrum, double learning_rate,
                           dynamics::Loss loss) {
  require_non_negative(learning_rate, "learning_rate");
  const double factor = dynamics::gradient_factor(loss, spectrum.size());
  const double fastest = learning_rate * factor * spectrum.largest();
  Stability stability;
  if (spectrum.rank > 0) {
    const double slowest =
        learning_rate * factor * spectrum.eigenvalues[spectrum.nullity()].item<double>();
    // |1 − s| is convex: its maximum lies at one end of the spectrum.
    stability.kappa = std::max(std::abs(1 - slowest), std::abs(1 - fastest));
  }
  stability.stable = fastest <= 2;
  // Not κ < 1: that of a slow mode may round to 1.
  stability.exponential = spectrum.rank > 0 && learning_rate > 0 && fastest < 2;
  stability.strictly_contracting = fastest < 1;
  stability.lr_max = 2 / (factor * spectrum.largest());
  stability.lr_monotone = stability.lr_max / 2;
  return stability;
}

Margins kernel_margins(const control::SpectralController& controller) {
  return {2 / controller.s.max().item<double>(),
          2 / (controller.s * controller.modes.steering).max().item<double>()};
}

}  // namespace cdt::analysis
