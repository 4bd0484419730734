/// How well rows that were held out know a mean: standard errors that hold for skewed values and
/// for few rows, and comparisons row by row.
#pragma once

#include <cdt/core/fields.h>
#include <torch/types.h>

#include <vector>

namespace cdt::study {

/// An error on new rows: its estimate, and one standard error of that.
struct Estimate {
  double value = 0;
  double error = 0;

  void fields(Fields& f) {
    f("value", value);
    f("error", error);
  }
};

/// The mean of values that are not negative: losses, squares. Their usual standard error is too
/// small where few of them are most of the mean: the largest have not been seen yet. With c the
/// relative standard error and g the skewness over √r, (e^{2c(1 + g + 3g²)} − 1)/2 of the mean is
/// taken, so that the mean ± 2 errors holds the truth in nine of ten tables under log-normal noise
/// of σ = 1, too (`Estimate.CoversUnderHeavyTails`). At most kMostRelativeError of the mean.
/// Where rows repeat, `different` says which of the different rows each is: they go together, and
/// the error is that of their sums. `least` is the least standard deviation of a value that is
/// believed, relative to the mean.
/// @return of one value, or none, an error that is not known: NaN.
Estimate mean_of_losses(const torch::Tensor& values, const std::vector<int64_t>& different = {},
                        double least = 0);
inline constexpr double kMostRelativeError = 10;

/// Its root: with the error on the scale of the root.
Estimate root_of(const Estimate& mean_square);

/// Sums [G, …] of values [r, …] over the G different rows; and how many there are, of r rows.
torch::Tensor sum_by(const torch::Tensor& values, const std::vector<int64_t>& different);
int64_t count_different(const std::vector<int64_t>& different, int64_t rows);
/// Of how many rows of one weight the mean would vary as much: (Σm)²/Σm², m rows of each kind.
int64_t effective_rows(const std::vector<int64_t>& different, int64_t rows);

/// A share of rows, of which each is or is not: half of the distance to the farther end of Wilson's
/// interval of two standard deviations, so that none of two rows is 0 ± 0.33, not ± 0.
Estimate share_of(double share, int64_t rows);

/// The upper end of that interval.
double share_at_most(double share, int64_t rows);

/// Standard errors on either side of a mean of this many rows that hold it in 19 of 20 cases if
/// they are normal: Student's t, 2 for many.
double errors_on_a_side(int64_t rows);

/// By how many standard errors the mean of these differences lies above zero. NaN of fewer than two
/// rows, and infinite where all are equal and above zero.
double lead_of(const torch::Tensor& differences, const std::vector<int64_t>& different = {});

/// The least number of values that make half of their sum; 0 where the sum is zero.
int64_t rows_of_half(const torch::Tensor& values);

}  // namespace cdt::study
