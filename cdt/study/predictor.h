/// Predictors: averaged networks, calibrated on held-out rows.
#pragma once

#include <cdt/study/estimate.h>
#include <cdt/study/intervals.h>
#include <cdt/study/learn.h>
#include <cdt/study/linear.h>
#include <cdt/study/predictions.h>

namespace cdt::study {

/// Calibrates on held-out rows: bounds and factors of numbers, the temperature of classes.
Predictor calibrate(const Problem& problem, const Learned& learned);

/// Intervals from the residuals of held-out rows; none for classes, or if no row was held out.
std::optional<Intervals> make_intervals(const Problem& problem, const Learned& learned,
                                        const Predictor& predictor);
/// Bounds for held-out rows (numbered as in `Learned::held_out`), around their held-out
/// predictions.
Bounds held_out_bounds(const Problem& problem, const Learned& learned, const Predictor& predictor,
                       const Intervals& intervals, const torch::Tensor& rows, double coverage);

/// Error on the last rows in order, of a network that learned from those before (order.h).
struct LaterRows {
  std::string by;    ///< what gives the order: "the column \"day\"", "their order in the table"
  int64_t rows = 0;  ///< number of last rows, held out
  Estimate error;    ///< RMSE in units of the file; for classes the share of misclassified rows
  double r2 = train::kUnknown;

  void fields(Fields& f);
};

/// Expected errors of a target on new rows, in units of the file.
struct Expectation {
  std::string target;
  int64_t rows = 0;       ///< held out
  int64_t different = 0;  ///< distinct ones, counting rows equal in every feature once
  // Number.
  Estimate rmse;
  double r2 = train::kUnknown;           ///< 1 − MSE/variance
  double mean_rmse = train::kUnknown;    ///< RMSE of predicting the mean of the rows, the simplest
                                         ///< model
  double linear_rmse = train::kUnknown;  ///< RMSE of a linear model with the same features
  // Class: share of misclassified rows, and −log of the right class's probability.
  Estimate wrong;
  Estimate log_loss;
  double majority_wrong = train::kUnknown;  ///< error of always predicting the most frequent class
  /// Paired advantage of this model over the mean (the most frequent class), and over the linear
  /// model, in standard errors. NaN: unknown, as in older records.
  double simple_lead = train::kUnknown;
  double linear_lead = train::kUnknown;
  int64_t decisive = 0;  ///< number of rows that make up half of the squares, if few; else 0
  std::optional<LaterRows> later;  ///< if rows have an order

  void fields(Fields& f);
};

/// Expected errors from held-out rows: `predicted` and `wanted` in units of the file [r, t] (for
/// classes probabilities and labels [r, C]), without rows that lack a prediction. `x` [r, F] are
/// their features, for the linear model. `different` numbers the distinct rows from 0, if some
/// repeat: they count once in standard errors, and the linear model leaves them out together.
/// `known`: baselines to compare with.
struct HeldOutBaselines {
  torch::Tensor targets;  ///< [R, t] of all rows; undefined: `wanted`
  /// [r, t] predictions of a linear model and the mean, fitted to other rows; undefined: fitted to
  /// these rows, the linear model by leave-one-out
  torch::Tensor line, mean;
};
std::vector<Expectation> expect(const data::Preprocess& preprocess, const torch::Tensor& predicted,
                                const torch::Tensor& wanted, const torch::Tensor& x,
                                const std::vector<int64_t>& different = {},
                                const HeldOutBaselines& known = {});

/// For the rows that fold networks have held out; empty if there are none.
std::vector<Expectation> expect(const Problem& problem, const Learned& learned,
                                const Predictor& predictor);

/// Cautions that concern all of them: few rows; a search that ended at its limit.
std::vector<std::string> cautions(const Problem& problem, const LearnOptions& options,
                                  const Learned& learned);
inline constexpr int64_t kWarnBelow = 30;

/// The error on later rows as a sentence.
std::string to_text(const LaterRows& later, bool classes);

/// "about 5.1 ± 0.3 on new rows (R² 0.92); a linear model would reach 9.8, the mean 16.4"
std::string to_text(const Expectation& expectation);

/// Comparison with simpler models, at most one sentence. Agrees with the numbers: an advantage that
/// is not significant is called uncertain.
std::string verdict_of(const Expectation& expectation);

/// What limits the accuracy of a number: too few rows, or noise that no column explains. `fitted`:
/// root mean square on training rows. Empty if the expectation is no better than the mean, which
/// the verdict says.
std::string what_limits(const Expectation& expectation, double fitted);

}  // namespace cdt::study
