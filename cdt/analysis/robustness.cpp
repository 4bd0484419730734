#include <cdt/analysis/robustness.h>
#include <cdt/analysis/stability.h>

#include <limits>

namespace cdt::analysis {

using torch::Tensor;

GainMargin gain_margin(const control::SpectralController& controller) {
  dynamics::require_complete(controller.modes, "the gain margin");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t rank = controller.modes.rank;
  if (rank == 0) return {-kInfinity, kInfinity, -kInfinity, kInfinity};
  const int64_t first = controller.modes.nullity();
  const auto reachable = [&](const Tensor& t) { return t.narrow(0, first, rank); };
  const Tensor s = reachable(controller.s);
  const Tensor k = reachable(controller.gains.gain);
  const control::Known exact = control::augment_interval(s, k);
  const Tensor rho = reachable(controller.rho);
  const Tensor a = torch::sqrt(rho / (rho + s * reachable(controller.gains.w))).min();
  return {exact.lower, exact.upper, 1 / (1 + a.item<double>()), 1 / (1 - a.item<double>())};
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
                stability.kappa,
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

}  // namespace cdt::analysis
