#include <cdt/analysis/stability.h>
#include <cdt/control/controller.h>
#include <cdt/core/check.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::analysis {

using control::Known;
using torch::Tensor;

Stability assess_stability(const dynamics::Modes& modes, double step_scale) {
  require_non_negative(step_scale, "step_scale");
  const double found = step_scale * modes.largest();
  const double fastest = step_scale * modes.upper_bound();
  const bool exact = modes.complete();
  Stability stability;
  stability.kappa = Known::exactly(1);
  if (modes.rank > 0) {
    const double slowest = std::abs(1 - step_scale * modes.values[modes.nullity()].item<double>());
    // |1 − s| is convex: its maximum lies at one end of the spectrum. The slowest mode of a tail
    // may hardly move.
    stability.kappa = Known::within(std::max(slowest, std::abs(1 - found)),
                                    std::max(exact ? slowest : 1, std::abs(1 - fastest)));
    if (exact) stability.kappa.value = stability.kappa.upper;
  }
  stability.stable = fastest <= 2;
  // Not κ < 1: that of a slow mode may round to 1.
  stability.exponential = modes.rank > 0 && step_scale > 0 && fastest < 2;
  stability.strictly_contracting = fastest < 1;
  stability.margin = {2 / std::max(found, step_scale * modes.tail_bound), 2 / fastest, 2 / found};
  return stability;
}

double kernel_margin(const control::Plant& plant, const Tensor& G) {
  const dynamics::Modes& modes = plant.modes();
  if (modes.rank == 0) return std::numeric_limits<double>::infinity();
  // Λ^½VᵀGVΛ^½ has the eigenvalues of SG that are not zero.
  const Tensor scaled =
      modes.reachable_vectors() * (plant.step_scale() * modes.reachable_values()).sqrt();
  const Tensor mu = torch::linalg_eigvals(scaled.t().mm(G).mm(scaled).cpu());
  return (2 * torch::real(mu) / torch::abs(mu).square()).min().item<double>();
}

std::vector<RateRow> rate_table(const dynamics::Modes& modes, double gradient_factor,
                                const std::vector<double>& learning_rates,
                                const std::optional<control::Law>& law) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<RateRow> rows;
  for (const double rate : learning_rates) {
    const auto stability = assess_stability(modes, rate * gradient_factor);
    RateRow row{rate,
                stability.stable,
                stability.strictly_contracting,
                stability.kappa.upper,
                kUnknown,
                2 / (rate * gradient_factor * modes.upper_bound()),
                kUnknown};
    if (law) {
      const auto plant =
          control::Plant::of_modes(modes, {.gradient_factor = gradient_factor, .rate = rate});
      const auto found = control::ModalController(plant, *law).certificate();
      row.radius_cdt = found.radius.upper;
      row.margin_cdt = found.kernel_margin.lower;
    }
    rows.push_back(row);
  }
  return rows;
}

void RateRow::fields(Fields& f) {
  f("lr", learning_rate);
  f("stable", stable);
  f("strictly_contracting", strictly_contracting);
  f("radius_gd", radius_gd);
  f("radius_cdt", radius_cdt);
  f("margin_gd", margin_gd);
  f("margin_cdt", margin_cdt);
}

double mae_radius(const Tensor& theta, double learning_rate) {
  require_kernel(theta);
  require_non_negative(learning_rate, "learning_rate");
  return learning_rate / static_cast<double>(theta.size(0)) *
         theta.abs().sum(1).max().item<double>();
}

double lyapunov_lr_max(const Tensor& theta, const Tensor& gradient, const Tensor& error) {
  require_kernel(theta);
  for (const auto& [values, name] : {std::pair{gradient, "gradient"}, {error, "error"}}) {
    require_shape(values, {theta.size(0)}, name);
    CDT_REQUIRE(values.scalar_type() == torch::kFloat64, name, " must be float64, got ",
                values.scalar_type());
    require_finite(values, name);
  }
  const Tensor move = theta.mv(gradient);
  const double size = move.square().sum().item<double>();
  if (size == 0) return 0;
  return std::max(0.0, 2 * torch::dot(error, move).item<double>() / size);
}

}  // namespace cdt::analysis
