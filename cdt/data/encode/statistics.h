/// Moments and quantiles of weighted numbers. An integer weight equals repetition; equal weights
/// equal no weights.
#pragma once

#include <cstdint>
#include <vector>

namespace cdt::data {

struct Moments {
  double min, max, mean, deviation;
};

/// For at least one value with a positive weight.
Moments moments(const std::vector<double>& values, const std::vector<double>& weights);

/// m₃/m₂^(3/2), the third central moment in units of the standard deviation; 0 for a constant.
double skewness(const std::vector<double>& values, const std::vector<double>& weights);

/// `count` ≥ 2 quantiles at the probabilities 0, 1/(count − 1), …, 1, without repetition,
/// ascending; NaN is ignored. If the cumulative weight is exactly that share, the midpoint of two
/// values, as in the median of an even number. Empty without values.
std::vector<double> quantiles(const std::vector<double>& values, const std::vector<double>& weights,
                              int64_t count);

/// Ignores NaN; 0 without values.
double median(const std::vector<double>& values, const std::vector<double>& weights);

}  // namespace cdt::data
