#include <cdt/analysis/stability.h>
#include <cdt/core/check.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::analysis {

using torch::Tensor;

Stability assess_stability(const dynamics::Modes& modes, double step_scale) {
  require_non_negative(step_scale, "step_scale");
  const double largest = modes.upper_bound();
  const double fastest = step_scale * largest;
  Stability stability;
  if (modes.rank > 0) {
    const double slowest =  // of a tail nothing is known from below
        modes.complete() ? step_scale * modes.values[modes.nullity()].item<double>() : 0;
    // |1 − s| is convex: its maximum lies at one end of the spectrum.
    stability.kappa = std::max(std::abs(1 - slowest), std::abs(1 - fastest));
  }
  stability.stable = fastest <= 2;
  // Not κ < 1: that of a slow mode may round to 1.
  stability.exponential = modes.rank > 0 && step_scale > 0 && fastest < 2;
  stability.strictly_contracting = fastest < 1;
  stability.scale_max = 2 / largest;
  stability.scale_monotone = 1 / largest;
  return stability;
}

Margins kernel_margins(const control::SpectralController& controller) {
  const double tail = controller.tail_step;
  const Tensor steered = controller.s * controller.gains.steering;
  return {2 / std::max(controller.s.max().item<double>(), tail),
          2 / std::max(steered.max().item<double>(), tail * controller.tail_steering)};
}

Margins kernel_margins(const control::GeneralController& controller, double step_scale) {
  require_positive(step_scale, "step_scale");
  const dynamics::Modes& modes = controller.modes;
  Margins margins{2 / (step_scale * modes.largest()), std::numeric_limits<double>::infinity()};
  if (modes.rank == 0) return margins;
  // Λ^½VᵀGVΛ^½ has the eigenvalues of SG that are not zero.
  const torch::Tensor scaled =
      modes.reachable_vectors() * (step_scale * modes.reachable_values()).sqrt();
  const torch::Tensor mu =
      torch::linalg_eigvals(scaled.t().mm(controller.steering).mm(scaled).cpu());
  margins.cdt = (2 * torch::real(mu) / torch::abs(mu).square()).min().item<double>();
  return margins;
}

}  // namespace cdt::analysis
