/// Errors estimated from held-out rows: standard errors valid for skewed values and few rows, and
/// row-by-row comparisons.
#pragma once

#include <cdt/core/fields.h>
#include <torch/types.h>

#include <vector>

namespace cdt::study {

/// An estimate of the error on new rows, and its standard error.
struct Estimate {
  double value = 0;
  double error = 0;

  void fields(Fields& f) {
    f("value", value);
    f("error", error);
  }
};

/// Mean of non-negative values: losses, squares. The usual standard error is too small if few
/// values dominate the mean, since the largest have not occurred yet. With c the relative standard
/// error and g the skewness over √r, the error is (e^{2c(1 + g + 3g²)} − 1)/2 of the mean, so that
/// the mean ± 2 errors covers the truth in nine of ten tables, even under log-normal noise of σ = 1
/// (`Estimate.CoversUnderHeavyTails`). At most kMostRelativeError of the mean. If rows repeat,
/// `different` numbers the distinct ones: equal rows are grouped, and the error is that of their
/// sums. `least` is a lower limit on the standard deviation of a value, relative to the mean.
/// @return NaN as the error of a single value; all NaN without values.
Estimate mean_of_losses(const torch::Tensor& values, const std::vector<int64_t>& different = {},
                        double least = 0);
inline constexpr double kMostRelativeError = 10;

/// Square root of a mean square, with its error.
Estimate root_of(const Estimate& mean_square);

/// Sums [G, …] of values [r, …] over the G distinct rows; and their number G among r rows.
torch::Tensor sum_by(const torch::Tensor& values, const std::vector<int64_t>& different);
int64_t count_different(const std::vector<int64_t>& different, int64_t rows);
/// Number of rows of equal weight whose mean would vary as much: (Σm)²/Σm², for distinct rows that
/// occur m times.
int64_t effective_rows(const std::vector<int64_t>& different, int64_t rows);

/// A proportion of rows. Its error is half of the distance to the farther end of Wilson's interval
/// of two standard deviations, so that none of two rows is 0 ± 0.33, not ± 0.
Estimate share_of(double share, int64_t rows);

/// The upper end of that interval.
double share_at_most(double share, int64_t rows);

/// Half width, in standard errors, of the 95 % interval of a mean of normal values: Student's t, 2
/// for many rows.
double errors_on_a_side(int64_t rows);

/// Mean of these differences in standard errors. NaN for fewer than two rows, infinite if all are
/// equal and above zero.
double lead_of(const torch::Tensor& differences, const std::vector<int64_t>& different = {});

/// The smallest number of values that make up half of the sum; 0 if the sum is zero.
int64_t rows_of_half(const torch::Tensor& values);

}  // namespace cdt::study
