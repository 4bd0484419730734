#include <cdt/data/rows/equal_rows.h>
#include <cdt/study/estimate.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace cdt::study {

using torch::Tensor;

namespace {

constexpr double kUnknownError = std::numeric_limits<double>::quiet_NaN();
/// Width of Wilson's interval in standard deviations.
constexpr double kDeviations = 2;

/// Deviations of the distinct rows' contributions from the mean, in units of a row.
Tensor gaps_of(const Tensor& values, double mean, const std::vector<int64_t>& different) {
  if (different.empty()) return values - mean;
  const Tensor sums = sum_by(values - mean, different);
  return sums * (static_cast<double>(sums.size(0)) / static_cast<double>(values.size(0)));
}

}  // namespace

Tensor sum_by(const Tensor& values, const std::vector<int64_t>& different) {
  const Tensor of = torch::tensor(data::numbered(different), torch::kInt64);
  std::vector<int64_t> shape = values.sizes().vec();
  shape[0] = of.max().item<int64_t>() + 1;
  return torch::zeros(shape, torch::kFloat64).index_add_(0, of, values);
}

int64_t count_different(const std::vector<int64_t>& different, int64_t rows) {
  if (different.empty()) return rows;
  const std::vector<int64_t> numbers = data::numbered(different);
  return 1 + *std::max_element(numbers.begin(), numbers.end());
}

int64_t effective_rows(const std::vector<int64_t>& different, int64_t rows) {
  if (different.empty()) return rows;
  const Tensor sizes = sum_by(torch::ones({rows}, torch::kFloat64), different);
  return std::llround(static_cast<double>(rows * rows) / sizes.square().sum().item<double>());
}

Estimate mean_of_losses(const Tensor& values, const std::vector<int64_t>& different, double least) {
  if (values.numel() == 0) return {kUnknownError, kUnknownError};
  const double mean = values.mean().item<double>();
  const Tensor gaps = gaps_of(values, mean, different);
  const int64_t r = gaps.numel();
  if (r == 1 || !(mean > 0)) return {mean, r == 1 ? kUnknownError : 0};
  const auto rows = static_cast<double>(r);
  const double variance = gaps.square().mean().item<double>();
  const double cubes = gaps.pow(3).mean().item<double>();
  const double skewness = variance > 0 ? cubes / std::pow(variance, 1.5) : 0;
  const double g = std::max(0.0, skewness / std::sqrt(rows));
  const double c = std::max(std::sqrt(variance / (rows - 1)) / mean, least / std::sqrt(rows)) *
                   errors_on_a_side(r) / kDeviations;
  const double relative = (std::exp(2 * c * (1 + g + 3 * g * g)) - 1) / 2;
  return {mean, mean * std::min(relative, kMostRelativeError)};
}

Estimate root_of(const Estimate& square) {
  const double root = std::sqrt(square.value);
  return {root, (std::sqrt(square.value + 2 * square.error) - root) / 2};
}

double share_at_most(double p, int64_t rows) {
  constexpr double z2 = kDeviations * kDeviations;
  const auto n = static_cast<double>(rows);
  const double half = kDeviations * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return std::min(1.0, (p + z2 / (2 * n) + half) / (1 + z2 / n));
}

Estimate share_of(double p, int64_t rows) {
  if (rows == 0) return {kUnknownError, kUnknownError};
  const double above = share_at_most(p, rows) - p;
  const double below = p - (1 - share_at_most(1 - p, rows));
  return {p, std::max(above, below) / kDeviations};
}

double errors_on_a_side(int64_t rows) {
  constexpr std::array kStudent{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
  const int64_t freedom = rows - 1;
  if (freedom < 1) return std::numeric_limits<double>::infinity();
  const auto few = static_cast<int64_t>(kStudent.size());
  if (freedom <= few) return kStudent[static_cast<size_t>(freedom - 1)];
  return kDeviations * (1 + 1.16 / static_cast<double>(freedom));  // within 1 %
}

double lead_of(const Tensor& differences, const std::vector<int64_t>& different) {
  if (differences.numel() == 0) return kUnknownError;
  const double mean = differences.mean().item<double>();
  const Tensor gaps = gaps_of(differences, mean, different);
  const auto r = static_cast<double>(gaps.numel());
  if (r < 2) return kUnknownError;
  const double error = std::sqrt(gaps.square().sum().item<double>() / (r * (r - 1)));
  if (error > 0) return mean / error;
  return mean == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), mean);
}

int64_t rows_of_half(const Tensor& values) {
  const Tensor sums = std::get<0>(values.sort(0, /*descending=*/true)).cumsum(0);
  const double all = values.numel() > 0 ? sums[-1].item<double>() : 0;
  if (!(all > 0)) return 0;
  return 1 + sums.lt(all / 2).sum().item<int64_t>();
}

}  // namespace cdt::study
