/// Prediction intervals, from the linearization at the decay τ at which training ended.
///
/// For a Gaussian observer of the linear model, with prior θ ~ N(θ₀, σ²/τ·I) and noise σ², a new
/// row has the variance vσ², its own noise included, v = (Θ** + τ − Θ*(Θ + τI)⁻¹Θ*ᵀ)/τ ≥ 1.
/// Held-out rows determine σ, the distribution of errors, and how far to rely on v: the sorted
/// |residual|/s, s² = 1 − a + a·v/median(v), are the quantiles (normalised conformal prediction).
/// So intervals have their coverage for any distribution of errors, if new rows are like these; the
/// share a minimises their width. For counts, whose spread depends on their mean, s is multiplied
/// by it: Loss::spread.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/predictions.h>

namespace cdt::study {

/// v [r′, n_L] of new rows x′, for the model at its current parameters, trained on x [r, …] with
/// decay τ > 0; float64 on the CPU. If the path lowers its loss without end (the model fits the
/// labels exactly), τ ends below the rounding of Θ, which then replaces it.
/// @throws InvalidArgument if τ is not positive.
/// @throws NumericalError if the kernel cannot be computed or factorised.
torch::Tensor relative_variance(const nn::Network& model, const torch::Tensor& x, double tau,
                                const torch::Tensor& x_new);

/// v [r, n_L] of each of the rows x given all others. Equal rows, as numbered by `different`, are
/// left out together.
torch::Tensor left_out_variance(const nn::Network& model, const torch::Tensor& x, double tau,
                                const std::vector<int64_t>& different = {});

/// Data for the intervals of numeric targets.
struct Intervals {
  /// [r, F] training rows as inputs of the first member; undefined if every row has s = 1, as for
  /// networks trained without decay.
  torch::Tensor x;
  double tau = 0;     ///< at the last point
  double median = 1;  ///< median of v over held-out rows
  /// Replaces the median for new rows: v given all rows is smaller than v given the rows of a fold
  /// network, whose residuals these are. On average s is not less than that of held-out rows.
  double new_median = 1;
  double share = 0;         ///< a, the weight of v
  torch::Tensor residuals;  ///< [h, t] |residual|/s of held-out rows, scaled units, ascending
  /// [g, t] targets of training rows, scaled units, ascending; undefined in older files, where the
  /// predictions' bounds replace them.
  torch::Tensor targets;
};

/// s of rows with these v.
torch::Tensor deviation(const torch::Tensor& v, double median, double share);

/// 1 / the number of occurrences of each row: equal rows together have weight 1.
torch::Tensor weights_of(const std::vector<int64_t>& different);

/// Ascending values [G, t] of rows [h, t], G of them distinct: entry k is the smallest value that
/// rows of total weight k do not exceed, each distinct row having weight 1. `different` numbers the
/// distinct rows; if empty, the values are only sorted.
torch::Tensor sorted_by_row(const torch::Tensor& values, const std::vector<int64_t>& different);

/// The ⌈(h + 1)·coverage⌉-th smallest of |residual|/s [h]: half the width, in scaled units, of the
/// interval of a row with s = 1. Infinite beyond the largest.
/// @throws InvalidArgument unless 0 < coverage < 1.
double half_width(const torch::Tensor& residuals, double coverage);

struct Bounds {
  torch::Tensor low, high;  ///< [r′, t] in units of the file
};
/// Bounds around scaled predictions [r′, t] of rows with these s.
Bounds bounds_around(const Intervals& intervals, const Predictor& predictor,
                     const data::Preprocess& preprocess, const torch::Tensor& predictions,
                     const torch::Tensor& s, double coverage);
/// Bounds around the predictions of rows x′ [r′, F]. The error of `unfamiliar` rows
/// (Preprocess::unfamiliar) is unknown, so their bounds also contain this share of the training
/// rows' targets, from the (1 − coverage)/2 quantile to the 1 − (1 − coverage)/2 quantile. They
/// have their coverage if targets of such rows are distributed like the others, for any prediction.
Bounds bounds_of(const Intervals& intervals, const Predictor& predictor,
                 const data::Preprocess& preprocess, const torch::Tensor& x_new, double coverage,
                 const std::vector<bool>& unfamiliar = {});

/// Standard deviations [r′, t] of the targets of new rows x′ [r′, F] around their predictions, in
/// units of the file: s times the root mean square of |residual|/s; for a logarithm, that of the
/// log-normal distribution whose mean is the prediction. For unfamiliar rows at least the root mean
/// square distance of training targets from the prediction.
torch::Tensor deviations_of(const Intervals& intervals, const Predictor& predictor,
                            const data::Preprocess& preprocess, const torch::Tensor& x_new,
                            const std::vector<bool>& unfamiliar = {});

}  // namespace cdt::study
