#include "cdt/data/encode/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace cdt::data {
namespace {

/// Values in ascending order, each with the cumulative weight up to it.
std::vector<std::pair<double, double>> cumulative(const std::vector<double>& values,
                                                  const std::vector<double>& weights) {
  std::vector<std::pair<double, double>> sorted;
  sorted.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) sorted.emplace_back(values[i], weights[i]);
  }
  std::sort(sorted.begin(), sorted.end());
  double sum = 0;
  for (auto& [value, weight] : sorted) weight = sum += weight;
  return sorted;
}

/// The quantile at the probability part/whole.
double quantile(const std::vector<std::pair<double, double>>& sorted, double part, double whole) {
  // Products of integers are exact, so rounding does not affect whether a share is met exactly.
  const double wanted = sorted.back().second * part;
  const auto at = std::find_if(sorted.begin(), sorted.end(),
                               [&](const auto& each) { return each.second * whole >= wanted; });
  if (at == sorted.end() || at + 1 == sorted.end()) return sorted.back().first;
  const bool exactly = part > 0 && at->second * whole == wanted;
  return exactly ? std::midpoint(at->first, (at + 1)->first) : at->first;
}

}  // namespace

Moments moments(const std::vector<double>& values, const std::vector<double>& weights) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  // Relative to the smallest, so that a constant is exactly its own mean, with deviation 0.
  double sum = 0, count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += weights[i] * (values[i] - *min);
    count += weights[i];
  }
  const double mean = *min + sum / count;
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    squares += weights[i] * (values[i] - mean) * (values[i] - mean);
  }
  return {*min, *max, mean, std::sqrt(squares / count)};
}

double skewness(const std::vector<double>& values, const std::vector<double>& weights) {
  const Moments m = moments(values, weights);
  if (m.max == m.min || m.deviation == 0) return 0;
  double cubes = 0, count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    cubes += weights[i] * std::pow((values[i] - m.mean) / m.deviation, 3);
    count += weights[i];
  }
  return cubes / count;
}

std::vector<double> quantiles(const std::vector<double>& values, const std::vector<double>& weights,
                              int64_t count) {
  const auto sorted = cumulative(values, weights);
  std::vector<double> found;
  if (sorted.empty()) return found;
  for (int64_t j = 0; j < count; ++j) {
    found.push_back(quantile(sorted, static_cast<double>(j), static_cast<double>(count - 1)));
  }
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

double median(const std::vector<double>& values, const std::vector<double>& weights) {
  const auto sorted = cumulative(values, weights);
  return sorted.empty() ? 0 : quantile(sorted, 1, 2);
}

}  // namespace cdt::data
