/// Intervals for predictions: how far off one may be, from the linearization at the decay τ where
/// training ended.
///
/// To a Gaussian observer of the linear model, with prior θ ~ N(θ₀, σ²/τ·I) and noise σ², a new row
/// has the variance vσ², its own noise included, v = (Θ** + τ − Θ*(Θ + τI)⁻¹Θ*ᵀ)/τ ≥ 1. How large σ
/// is, how far errors are from Gaussian ones, and how much of v is to be believed, rows decide that
/// were held out: |residual|/s, s² = 1 − a + a·v/median(v), sorted, are the quantiles (conformal
/// prediction, normalised), so that intervals have their coverage whatever the errors are
/// distributed like, as far as new rows are like these; a is the share that makes them shortest. Of
/// counts, which spread by their mean, s is times that: Loss::spread.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/predictions.h>

namespace cdt::study {

/// v [r′, n_L] of new rows x′, for the model at its present parameters, trained on x [r, …] with
/// decay τ > 0; float64 on the CPU. A path that lowers its loss without end (labels that the model
/// has exactly) ends at decays below the rounding of Θ: there rounding takes their place.
/// @throws InvalidArgument if τ is not positive.
/// @throws NumericalError if the kernel cannot be computed or factorised.
torch::Tensor relative_variance(const nn::Network& model, const torch::Tensor& x, double tau,
                                const torch::Tensor& x_new);

/// v [r, n_L] of each of the rows x itself, by all the others: what is new to them.
/// Rows that are equal, which `different` numbers, are left out together.
torch::Tensor left_out_variance(const nn::Network& model, const torch::Tensor& x, double tau,
                                const std::vector<int64_t>& different = {});

/// All that intervals need, of targets that are numbers.
struct Intervals {
  /// [r, F] of training rows, as the first member takes them; undefined: every row has s = 1, as
  /// of networks that no decay has held back.
  torch::Tensor x;
  double tau = 0;     ///< of the last point
  double median = 1;  ///< of v over held-out rows
  /// What takes the place of the median for new rows: v to all rows is less than to a walk, whose
  /// residuals these are. In the mean their s is no less than that of held-out rows.
  double new_median = 1;
  double share = 0;         ///< a, of v
  torch::Tensor residuals;  ///< [h, t] |residual|/s of held-out rows, scaled units, ascending
  /// [g, t] of training rows, scaled units, ascending; undefined in files of before: the bounds
  /// that predictions are held to stand for them.
  torch::Tensor targets;
};

/// s of rows with these v.
torch::Tensor deviation(const torch::Tensor& v, double median, double share);

/// 1 over how often each row comes: rows that repeat weigh 1 together.
torch::Tensor weights_of(const std::vector<int64_t>& different);

/// Ascending values [G, t] of rows [h, t] that are G different ones: of each rank k the least value
/// that rows of weight k have in all, each different row weighing 1 whoever repeats it. `different`
/// says which each row is; empty: none repeats, and the values are sorted.
torch::Tensor sorted_by_row(const torch::Tensor& values, const std::vector<int64_t>& different);

/// Of |residual|/s [h] the ⌈(h + 1)·coverage⌉-th smallest: half the width, scaled units, of the
/// interval of a row with s = 1. Beyond the largest there is no more to know: infinite.
/// @throws InvalidArgument unless 0 < coverage < 1.
double half_width(const torch::Tensor& residuals, double coverage);

struct Bounds {
  torch::Tensor low, high;  ///< [r′, t] in units of the file
};
/// Around predictions [r′, t], scaled, of rows with these s.
Bounds bounds_around(const Intervals& intervals, const Predictor& predictor,
                     const data::Preprocess& preprocess, const torch::Tensor& predictions,
                     const torch::Tensor& s, double coverage);
/// Around the predictions of rows x′ [r′, F]. Of rows that are `unfamiliar`
/// (Preprocess::unfamiliar) nobody knows how far off a prediction is: their bounds also hold this
/// share of the training rows' targets, from the (1 − coverage)/2 quantile to that of 1 − (1 −
/// coverage)/2. So they cover what they promise wherever targets of such rows are like the others,
/// whatever is predicted.
Bounds bounds_of(const Intervals& intervals, const Predictor& predictor,
                 const data::Preprocess& preprocess, const torch::Tensor& x_new, double coverage,
                 const std::vector<bool>& unfamiliar = {});

/// Standard deviations [r′, t] of new rows x′ [r′, F] around their predictions, in units of the
/// file: s times the root mean square of |residual|/s; of a logarithm, that of the log-normal
/// distribution whose mean is the prediction. Of unfamiliar rows at least the root mean square of
/// what training rows' targets lie from the prediction.
torch::Tensor deviations_of(const Intervals& intervals, const Predictor& predictor,
                            const data::Preprocess& preprocess, const torch::Tensor& x_new,
                            const std::vector<bool>& unfamiliar = {});

}  // namespace cdt::study
