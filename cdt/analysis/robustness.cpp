#include <cdt/analysis/robustness.h>
#include <cdt/analysis/stability.h>

#include <limits>

namespace cdt::analysis {

GainMargin gain_margin(const control::ModalController& controller) {
  dynamics::require_complete(controller.plant().modes(), "the gain margin");
  const control::Certificate found = controller.certificate();
  return {found.gain_margin.lower, found.gain_margin.upper, found.guaranteed_margin.lower,
          found.guaranteed_margin.upper};
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
