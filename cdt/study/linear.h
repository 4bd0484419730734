/// Ridge regression on the encoded features: what a network must beat, and what predicts beside it
/// where held-out rows say so.
#pragma once

#include <cdt/study/learn.h>

namespace cdt::study {

/// Of targets y [r, t] on features x [r, F], each at the best of a grid of ridges, by rows left out
/// in turn (those that are equal, where `different` numbers them, together).
struct LinearFit {
  torch::Tensor weights;  ///< [F, t], float64
  torch::Tensor bias;     ///< [t]
  torch::Tensor
      left_out;  ///< [r, t]: y less what the other rows predict; the centre is of all rows
};
LinearFit fit_linear(const torch::Tensor& x, const torch::Tensor& y,
                     const std::vector<int64_t>& different = {});

/// Predictions [r, t] of the rows that walks have held out, by the simplest models, fitted to the
/// rows that each walk has seen: a line on all features, and the mean. Other rows are zero.
struct Baselines {
  torch::Tensor line;
  torch::Tensor mean;
};
Baselines held_out_baselines(const train::TrainData& all, const Learned& learned);

/// The root of the mean square of `left_out`, for one target y [r].
double linear_error(const torch::Tensor& x, const torch::Tensor& y,
                    const std::vector<int64_t>& different = {});

/// Puts a line beside the networks of a learned problem, if rows that were held out say so: of each
/// target the share of the line (0, ¼, … 1) that errs least in units of the file, where that beats
/// the networks alone for certain (two standard errors), or one half where the line by itself errs
/// less, but not for certain. Lines are fitted to the
/// rows that each walk has seen, then to all; `held_out` and the losses of the result are those of
/// both together. Of quadratic losses alone; not of classes, pictures, weighted rows, or where it
/// would take long.
/// @return in words what was chosen; "" if networks predict alone.
std::string add_line(const Problem& problem, const loss::LossPtr& loss, Learned& learned);

}  // namespace cdt::study
