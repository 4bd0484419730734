#include <cdt/analysis/findings.h>

namespace cdt::analysis {

ForecastFindings summarize(const control::Forecast& forecast) {
  ForecastFindings found{forecast.best, forecast.best_descent, {}};
  if (forecast.best_controlled) found.sensitivity = control::sensitivity(forecast);
  return found;
}

const TrialFindings* Findings::leading_trial() const {
  for (const TrialFindings& trial : trials) {
    if (trial.controlled) return &trial;
  }
  return trials.empty() ? nullptr : &trials.front();
}

}  // namespace cdt::analysis
