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

Margins kernel_margins(const control::Controller& controller) {
  const control::Plant& plant = controller.plant();
  const dynamics::Modes& modes = plant.modes();
  Margins margins{2 / (plant.step_scale() * std::max(modes.largest(), modes.tail_bound)),
                  std::numeric_limits<double>::infinity()};
  if (dynamic_cast<const control::GainController*>(&controller) == nullptr) {
    margins.cdt = controller.certificate().kernel_margin.lower;
  } else if (modes.rank > 0) {
    // Λ^½VᵀGVΛ^½ has the eigenvalues of SG that are not zero.
    const Tensor scaled =
        modes.reachable_vectors() * (plant.step_scale() * modes.reachable_values()).sqrt();
    const Tensor mu = torch::linalg_eigvals(scaled.t().mm(controller.matrix()).mm(scaled).cpu());
    margins.cdt = (2 * torch::real(mu) / torch::abs(mu).square()).min().item<double>();
  }
  return margins;
}

}  // namespace cdt::analysis
