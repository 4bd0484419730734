/// Selects learning rate, weight p and number of steps on the local model, before training.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/forecast.h>

#include <optional>
#include <string>
#include <vector>

namespace cdt::control {

struct ForecastOptions {
  /// α. Default (empty): 40 values from 10⁻³ to 10³ times 1/(c_L λ_max), the rate above which
  /// gradient descent oscillates.
  std::vector<double> learning_rates;
  /// p, the weight on label augments. Default (empty): 24 values from 10⁻⁴ to 10², which with the
  /// 40 runs of gradient descent gives a thousand curves.
  std::vector<double> weights;
  double q = 1.0;
  /// Stopping steps, ascending. Default (empty): 64 values from 1 to 1000, evenly spaced in their
  /// logarithm.
  std::vector<int64_t> steps;
  /// α_k = α/(1 + decay·k); the gain remains that for α, as in the paper's experiments (decay
  /// 0.01).
  double decay = 0;
  bool descent = true;     ///< compute curves of gradient descent
  bool controlled = true;  ///< compute curves of controlled descent
};

/// One controller of the grid.
struct Candidate {
  bool controlled = false;
  double learning_rate = 0;
  double p = 0;  ///< 0 for gradient descent, which has no p
};

/// A point on a curve: a candidate at a stopping step.
struct ForecastPoint {
  Candidate candidate;
  int64_t step = 0;
  double train_loss = 0;
  double validation_loss = 0;

  /// "gd" or "cdt".
  std::string method() const { return candidate.controlled ? "cdt" : "gd"; }
};

struct Forecast {
  std::vector<Candidate> candidates;  ///< gradient descent first; controlled ones rate by rate
  std::vector<int64_t> steps;
  dynamics::Curves curves;  ///< [candidates, steps], on the CPU
  ForecastPoint best;       ///< the lowest validation loss of all candidates and steps
  std::optional<ForecastPoint> best_descent;
  std::optional<ForecastPoint> best_controlled;
};

/// Computes the curves of all candidates and the best point on them. O(candidates·steps·rank·m),
/// one matrix product per block.
/// @throws InvalidArgument if the problem has no validation data or no reachable mode, a rate or
///   weight is not positive, or neither method is requested.
Forecast forecast(const dynamics::ModalProblem& problem, const loss::LossPtr& loss,
                  const ForecastOptions& options = {});

/// Sensitivity of the validation loss to a choice: log₁₀ of the largest over the smallest loss,
/// each at its best step.
struct Sensitivity {
  double to_learning_rate = 0;  ///< over α at the best p
  double to_weight = 0;         ///< over p at the best α
};

/// Sensitivities of the controlled candidates (paper: p is significantly less sensitive than α).
/// @throws InvalidArgument if the forecast has no controlled candidates.
Sensitivity sensitivity(const Forecast& forecast);

}  // namespace cdt::control
