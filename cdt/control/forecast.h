/// Which learning rate, which weight p and how many steps: chosen on the local model, before any
/// training.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/forecast.h>

#include <optional>
#include <string>
#include <vector>

namespace cdt::control {

struct ForecastOptions {
  /// α; empty means 40 from 10⁻³ to 10³ times 1/(c_L λ_max), where gradient descent begins to
  /// oscillate.
  std::vector<double> learning_rates;
  /// p, the weight on the label augment; empty means 24 from 10⁻⁴ to 10². With the 40 runs of
  /// gradient descent that is a thousand curves.
  std::vector<double> weights;
  double q = 1.0;
  /// Stopping steps, ascending; empty means 64 from 1 to 1000, evenly spaced in their logarithm.
  std::vector<int64_t> steps;
  /// α_k = α/(1 + decay·k); the gain stays that of α, as in the paper's experiments (decay 0.01).
  double decay = 0;
  bool descent = true;     ///< curves of gradient descent
  bool controlled = true;  ///< curves of controlled descent
};

/// One controller of the grid.
struct Candidate {
  bool controlled = false;
  double learning_rate = 0;
  double p = 0;  ///< 0 for gradient descent, which has none
};

/// A place on a curve.
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
  ForecastPoint best;       ///< the lowest validation loss of all
  std::optional<ForecastPoint> best_descent;
  std::optional<ForecastPoint> best_controlled;
};

/// The curves of every candidate and the best place on them. O(candidates·steps·rank·m), one matrix
/// product per block.
/// @throws InvalidArgument if the problem has no validation data or no reachable mode, a rate or
/// weight is not positive, or neither method is asked for.
Forecast forecast(const dynamics::ModalProblem& problem, const loss::LossPtr& loss,
                  const ForecastOptions& options = {});

/// How much a choice matters: log₁₀ of the largest over the smallest validation loss, each at its
/// best step.
struct Sensitivity {
  double to_learning_rate = 0;  ///< over α at the best p
  double to_weight = 0;         ///< over p at the best α
};

/// Spreads of the controlled candidates (the paper: p is significantly less sensitive than α).
/// @throws InvalidArgument if the forecast has none.
Sensitivity sensitivity(const Forecast& forecast);

}  // namespace cdt::control
