#include <cdt/control/forecast.h>
#include <cdt/control/law.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::control {
namespace {

using torch::Tensor;

std::vector<double> log_spaced(double first, double last, int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count - 1);
    values.push_back(first * std::pow(last / first, share));
  }
  return values;
}

/// The point with the lowest validation loss among some candidates.
ForecastPoint lowest(const Forecast& all, int64_t first, int64_t count) {
  const Tensor losses = all.curves.validation.narrow(0, first, count);
  const int64_t stops = losses.size(1);
  const int64_t at = losses.argmin().item<int64_t>();
  const int64_t row = first + at / stops;
  const int64_t stop = at % stops;
  return {all.candidates[row], all.steps[stop], all.curves.train[row][stop].item<double>(),
          all.curves.validation[row][stop].item<double>()};
}

double spread(double smallest, double largest) { return std::log10(largest / smallest); }

}  // namespace

Forecast forecast(const dynamics::ModalProblem& problem, const loss::LossPtr& loss,
                  const ForecastOptions& options) {
  CDT_REQUIRE(problem.validation_size > 0,
              "a forecast chooses by validation loss; this problem has no validation data");
  CDT_REQUIRE(problem.values.size(0) > 0, "the kernel is zero: training changes nothing");
  CDT_REQUIRE(options.descent || options.controlled, "a forecast needs at least one method");
  const double factor = loss::gradient_factor(loss, problem.size);
  const double monotone = 1 / (factor * problem.values.max().item<double>());
  const auto rates = options.learning_rates.empty()
                         ? log_spaced(1e-3 * monotone, 1e3 * monotone, 40)
                         : options.learning_rates;
  const auto weights = options.weights.empty() ? log_spaced(1e-4, 1e2, 24) : options.weights;
  for (const double rate : rates) require_positive(rate, "learning_rate");
  for (const double weight : weights) require_positive(weight, "p");
  require_positive(options.q, "q");

  Forecast result;
  result.steps = options.steps.empty() ? dynamics::log_spaced_steps(64, 1000) : options.steps;
  const Tensor alpha = torch::tensor(rates, problem.values.options());
  const Tensor s = alpha.unsqueeze(1) * (factor * problem.values);  // [rates, rank]
  std::vector<Tensor> contractions;
  if (options.descent) {
    for (const double rate : rates) result.candidates.push_back({false, rate, 0});
    contractions.push_back(s);
  }
  if (options.controlled) {
    for (const double rate : rates) {
      for (const double weight : weights) result.candidates.push_back({true, rate, weight});
    }
    std::vector<Tensor> steered;  // [rates, rank] each
    for (const double weight : weights) steered.push_back(s * lqr(options.q, weight).steering(s));
    contractions.push_back(torch::stack(steered, 1).flatten(0, 1));
  }
  result.curves = dynamics::predict_curves(problem, torch::cat(contractions), result.steps, loss,
                                           options.decay);
  result.curves.train = result.curves.train.cpu();
  result.curves.validation = result.curves.validation.cpu();

  const auto total = static_cast<int64_t>(result.candidates.size());
  const int64_t descents = options.descent ? static_cast<int64_t>(rates.size()) : 0;
  result.best = lowest(result, 0, total);
  if (options.descent) result.best_descent = lowest(result, 0, descents);
  if (options.controlled) result.best_controlled = lowest(result, descents, total - descents);
  return result;
}

Sensitivity sensitivity(const Forecast& forecast) {
  CDT_REQUIRE(forecast.best_controlled.has_value(),
              "sensitivity needs controlled candidates; this forecast has none");
  const Candidate& best = forecast.best_controlled->candidate;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double lowest_rate = kInfinity, highest_rate = 0, lowest_weight = kInfinity, highest_weight = 0;
  const Tensor at_best_step = std::get<0>(forecast.curves.validation.min(1));
  for (size_t i = 0; i < forecast.candidates.size(); ++i) {
    const Candidate& c = forecast.candidates[i];
    if (!c.controlled) continue;
    const double loss = at_best_step[static_cast<int64_t>(i)].item<double>();
    if (c.p == best.p) {
      lowest_rate = std::min(lowest_rate, loss);
      highest_rate = std::max(highest_rate, loss);
    }
    if (c.learning_rate == best.learning_rate) {
      lowest_weight = std::min(lowest_weight, loss);
      highest_weight = std::max(highest_weight, loss);
    }
  }
  return {spread(lowest_rate, highest_rate), spread(lowest_weight, highest_weight)};
}

}  // namespace cdt::control
