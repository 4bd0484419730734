/// What the paper's appendices say about one network and its data: the second half of the
/// pre-flight report.
#pragma once

#include <cdt/analysis/boundedness.h>
#include <cdt/analysis/equilibrium.h>
#include <cdt/analysis/leave_one_out.h>
#include <cdt/analysis/robustness.h>
#include <cdt/analysis/validity.h>
#include <cdt/control/forecast.h>

#include <optional>
#include <vector>

namespace cdt::analysis {

/// The best of a forecast, and the best that gradient descent alone would do.
struct ForecastFindings {
  control::ForecastPoint best;
  std::optional<control::ForecastPoint> best_descent;
  control::Sensitivity sensitivity;  ///< zeros without controlled candidates
};

ForecastFindings summarize(const control::Forecast& forecast);

/// Filled by analyze() where kernel, labels and outputs suffice; `trials` and `forecast` by a
/// caller that has the network and validation data.
struct Findings {
  std::optional<Equilibrium> equilibrium;  ///< needs labels and outputs
  std::optional<double> lyapunov_lr_max;   ///< likewise
  std::optional<LeaveOneOut> left_out;     ///< likewise, and one output a sample
  double mae_radius = 0;
  GainMargin gain_margin;
  std::vector<RateRow> rates;         ///< from a tenth of the given rate to a hundred times it
  std::vector<TrialFindings> trials;  ///< gradient descent and CDT
  std::optional<ForecastFindings> forecast;

  /// The trial to report first: that of CDT, else any; nullptr without trials.
  const TrialFindings* leading_trial() const;
};

}  // namespace cdt::analysis
