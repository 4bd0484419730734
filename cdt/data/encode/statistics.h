/// Moments and quantiles of weighted numbers. Whole weights are the same as values that come again,
/// and equal ones the same as none.
#pragma once

#include <cstdint>
#include <vector>

namespace cdt::data {

struct Moments {
  double min, max, mean, deviation;
};

/// Of one value or more with weights above zero.
Moments moments(const std::vector<double>& values, const std::vector<double>& weights);

/// m₃/m₂^(3/2), the third moment about the mean in units of the deviation; 0 for a constant.
double skewness(const std::vector<double>& values, const std::vector<double>& weights);

/// `count` ≥ 2 quantiles at the probabilities 0, 1/(count − 1), …, 1, each once and ascending; NaN
/// is no value. Where the weight below is exactly that share, the middle between two values, as
/// the median of an even number has it. None without values.
std::vector<double> quantiles(const std::vector<double>& values, const std::vector<double>& weights,
                              int64_t count);

/// 0 without values; NaN is none.
double median(const std::vector<double>& values, const std::vector<double>& weights);

}  // namespace cdt::data
