/// Ridge regression on the encoded features: the baseline of a network, and its partner in
/// predictions if held-out rows support that.
#pragma once

#include <cdt/study/learn.h>

namespace cdt::study {

/// Fits targets y [r, t] on features x [r, F], each with the best ridge of a grid by leave-one-out
/// (equal rows, as numbered by `different`, are left out together).
struct LinearFit {
  torch::Tensor weights;  ///< [F, t], float64
  torch::Tensor bias;     ///< [t]
  /// [r, t]: y minus the leave-one-out prediction, centred with the means of all rows.
  torch::Tensor left_out;
};
LinearFit fit_linear(const torch::Tensor& x, const torch::Tensor& y,
                     const std::vector<int64_t>& different = {});

/// Predictions [r, t] of held-out rows by the simplest models, fitted to the rows that each fold
/// network has seen: a linear model on all features, and the mean. Other rows are zero.
struct Baselines {
  torch::Tensor line;
  torch::Tensor mean;
};
Baselines held_out_baselines(const train::TrainData& all, const Learned& learned);

/// Root mean square of `left_out`, for one target y [r].
double linear_error(const torch::Tensor& x, const torch::Tensor& y,
                    const std::vector<int64_t>& different = {});

/// Adds a linear model to a learned problem if held-out rows support it. The share of the linear
/// model for each target is the one of 0, ¼, … 1 with the smallest error in units of the file, if
/// that is significantly better than the networks (two standard errors), or one half if the linear
/// model is better alone, but not significantly. Linear models are fitted to the rows that each
/// fold network has seen, then to all; `held_out` and the losses of the result are updated.
/// Quadratic losses only; not for classes, pictures, weighted rows, or where it would take long.
/// @return a description of the choice; "" if only networks predict.
std::string add_line(const Problem& problem, const loss::LossPtr& loss, Learned& learned);

}  // namespace cdt::study
