/// What predicts: networks whose predictions are averaged, and what rows that were held out have
/// taught about them.
#pragma once

#include <cdt/study/estimate.h>
#include <cdt/study/intervals.h>
#include <cdt/study/learn.h>
#include <cdt/study/linear.h>
#include <cdt/study/predictions.h>

namespace cdt::study {

/// What the held-out rows say: of numbers bounds and factors, of classes the temperature.
Predictor calibrate(const Problem& problem, const Learned& learned);

/// Intervals from the residuals of held-out rows; none of classes, or if no row was held out.
std::optional<Intervals> make_intervals(const Problem& problem, const Learned& learned,
                                        const Predictor& predictor);
/// Of rows that were held out (numbers as in `Learned::held_out`), around what was predicted there.
Bounds held_out_bounds(const Problem& problem, const Learned& learned, const Predictor& predictor,
                       const Intervals& intervals, const torch::Tensor& rows, double coverage);

/// The error on the last rows of an order, by a network that has learned from those before
/// (order.h).
struct LaterRows {
  std::string by;    ///< what orders them: "the column \"day\"", "their order in the table"
  int64_t rows = 0;  ///< the last, that were held out
  Estimate error;    ///< RMS in units of the file; of classes the share of wrong rows
  double r2 = train::kUnknown;

  void fields(Fields& f);
};

/// What to expect of new rows, by target; in units of the file.
struct Expectation {
  std::string target;
  int64_t rows = 0;       ///< that were held out
  int64_t different = 0;  ///< of these, counting rows that are equal in every feature once
  // Of a number.
  Estimate rmse;
  double r2 = train::kUnknown;           ///< 1 − MSE/variance
  double mean_rmse = train::kUnknown;    ///< of the mean of the rows, the simplest model
  double linear_rmse = train::kUnknown;  ///< of a linear model of the same features
  // Of a class: the share of wrong rows, and −log of the right class's probability.
  Estimate wrong;
  Estimate log_loss;
  double majority_wrong = train::kUnknown;  ///< of a model that always says the most frequent class
  /// By how many standard errors the rows, each compared with itself, prefer this model to the mean
  /// (the most frequent class), and to the linear model. NaN: not known, as of older records.
  double simple_lead = train::kUnknown;
  double linear_lead = train::kUnknown;
  int64_t decisive = 0;  ///< rows that make half of the squares, where they are few; else 0
  std::optional<LaterRows> later;  ///< where rows have an order

  void fields(Fields& f);
};

/// Of the rows that were held out: `predicted` and `wanted` in units of the file [r, t] (of
/// classes probabilities and labels [r, C]), rows without a prediction left out by the caller.
/// `x` [r, F] are their features, for the linear model. `different` says, numbered from 0, which of
/// the different rows each is, where some repeat: they count once in standard errors, and the
/// linear model leaves them out together.
/// `known`: what else there is to compare with.
struct HeldOutBaselines {
  torch::Tensor targets;  ///< [R, t] of all rows; undefined: those wanted
  /// [r, t] by a line and by the mean of other rows; undefined: of these rows themselves, the line
  /// with each left out in turn
  torch::Tensor line, mean;
};
std::vector<Expectation> expect(const data::Preprocess& preprocess, const torch::Tensor& predicted,
                                const torch::Tensor& wanted, const torch::Tensor& x,
                                const std::vector<int64_t>& different = {},
                                const HeldOutBaselines& known = {});

/// Of the rows that walks have held out; none if there are none.
std::vector<Expectation> expect(const Problem& problem, const Learned& learned,
                                const Predictor& predictor);

/// What to keep in mind about all of them: few rows; a search that ended at its limit.
std::vector<std::string> cautions(const Problem& problem, const LearnOptions& options,
                                  const Learned& learned);
inline constexpr int64_t kWarnBelow = 30;

/// A sentence that says so.
std::string to_text(const LaterRows& later, bool classes);

/// "about 5.1 ± 0.3 on new rows (R² 0.92); a linear model would reach 9.8, the mean 16.4"
std::string to_text(const Expectation& expectation);

/// What the comparison with simpler models says, a sentence or none. Never against the numbers:
/// what is better, but not for certain, is said to be uncertain.
std::string verdict_of(const Expectation& expectation);

/// What keeps a number's error from being smaller: the number of rows, or noise and what no column
/// says. `fitted`: the root of the mean square on rows that were learned. Empty where the
/// expectation is no better than the mean, which says so itself.
std::string what_limits(const Expectation& expectation, double fitted);

}  // namespace cdt::study
