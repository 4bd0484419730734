/// The page of one run, or of several beside each other.
#pragma once

#include <cdt/core/error.h>
#include <cdt/report/page.h>
#include <cdt/report/text.h>

namespace cdt::report {

/// Columns of one length, an entry per step; NaN is what was not evaluated.
struct RunHistory {
  std::vector<double> step;
  std::vector<double> lr;
  std::vector<double> train_loss;
  std::vector<double> val_loss;
  std::vector<double> augment_norm;         ///< ‖y_u‖
  std::vector<double> linearization_error;  ///< ‖ŷ − ŷ_ϑ‖
  std::vector<double> refreshed;            ///< kernels computed here
  std::vector<double> rejected;             ///< steps from here that were taken back
  std::vector<double> seconds;              ///< since training began
  std::vector<double> decay;    ///< τ of the point of a path that starts here; empty: no path
  std::vector<double> freedom;  ///< tr Θ(Θ + τI)⁻¹ there, the effective number of parameters
};

/// Columns of one length, the fastest mode first, as the kernel was before training.
struct RunSpectrum {
  std::vector<double> mode;        ///< from 1
  std::vector<double> step;        ///< s = α c_L λ
  std::vector<double> gain;        ///< k(s)
  std::vector<double> factor_gd;   ///< 1 − s
  std::vector<double> factor_cdt;  ///< 1 − s(1 + k)
};

/// What a row of the table was for.
enum class RowUse { kTraining, kValidation, kTest };

/// Truth and predictions of one target, row by row: numbers, or else classes.
struct TargetPredictions {
  std::string name;
  std::vector<double> truth;
  std::vector<double> predicted;
  std::vector<std::string> true_class;
  std::vector<std::string> predicted_class;
  std::vector<std::string> classes;                ///< whose probabilities are known
  std::vector<std::vector<double>> probabilities;  ///< [classes][rows]
  /// Bounds of nine of ten such rows, if they are known; NaN where there are none.
  std::vector<double> low = {}, high = {};
};

struct RunPredictions {
  std::vector<RowUse> use;  ///< of each row
  std::vector<TargetPredictions> targets;
};

/// How far the predictions of a target lie from the truth, in its units: of numbers the first
/// three, of classes the others; NaN is unknown.
struct TargetErrors {
  std::string target;
  double rmse = kNotKnown;
  double mae = kNotKnown;
  double r2 = kNotKnown;
  double accuracy = kNotKnown;
  double cross_entropy = kNotKnown;
  double balanced_accuracy = kNotKnown;  ///< the mean over classes of the share that is right
  double majority = kNotKnown;           ///< accuracy of always saying the most frequent class
};

/// What to expect of new rows, by rows that were held out, in units of the file: of numbers the
/// first group, of classes the second; NaN is unknown.
struct TargetExpectation {
  std::string target;
  int64_t rows = 0;  ///< that were held out

  double rmse = kNotKnown;
  double rmse_error = kNotKnown;  ///< one standard error of the line above
  double r2 = kNotKnown;
  double linear_rmse = kNotKnown;  ///< of a linear model
  double mean_rmse = kNotKnown;    ///< of the mean of the rows

  double wrong = kNotKnown;  ///< share of rows
  double wrong_error = kNotKnown;
  double log_loss = kNotKnown;
  double log_loss_error = kNotKnown;
  double majority_wrong = kNotKnown;  ///< of always saying the most frequent class

  /// What the comparison with simpler models says; none: by the errors above.
  std::optional<std::string> verdict;
  std::string later;  ///< of the last rows of an order, a sentence; empty: there is no order
};

/// How much the loss of rows held out rises, as a share of it, when a column tells them nothing.
struct ColumnImportance {
  std::string column;
  double increase = kNotKnown;
};

/// Where walks of one activation are best.
struct PickedPoint {
  std::string activation;
  int64_t point = 0;
  double loss = kNotKnown;  ///< there, of the rows that they have held out
};

/// What predicts: networks, and the point to which they were trained.
struct PredictorSummary {
  int64_t members = 1;
  int64_t points = 0;               ///< that held-out rows have picked; 0: the start
  double decay = kNotKnown;         ///< τ there; NaN: no path
  std::vector<PickedPoint> picked;  ///< by activation; empty: `points` for all
  double temperature = 1;           ///< of classes: divides their logits
  std::vector<TargetExpectation> expected;
  std::vector<ColumnImportance> importance;  ///< the most important one first; empty: not known
};

struct RunOutcome {
  std::string outcome;   ///< in a word
  std::string in_words;  ///< in a sentence
  std::optional<int64_t> steps;
  double lr = kNotKnown;
  double train_loss = kNotKnown;
  double val_loss = kNotKnown;
  double best_val_loss = kNotKnown;
  std::optional<int64_t> best_step;
  std::optional<int64_t> linearizations;
  std::optional<int64_t> rejected;
  double seconds = kNotKnown;
};

/// What a page shows of a run. Whatever is empty is left out: a run may last still, have been
/// interrupted, have diverged, or have gone without analysis or validation.
struct RunRecord {
  std::string name;  ///< no other run on the page has it
  std::string method;
  std::string shape;  ///< "79-500-1"
  std::optional<int64_t> parameters;
  std::string data_file;
  std::optional<int64_t> train_rows;
  std::string version;  ///< of the program, like the next one
  std::string revision;
  std::string seed;
  std::vector<NameValue> given;     ///< settings
  std::vector<NameValue> tuned;     ///< settings that a forecast has chosen
  std::vector<NameValue> defaults;  ///< of the other settings
  std::vector<NameValue> data;
  std::vector<NameValue> network;
  std::vector<NameValue> machine;
  std::vector<NameValue> seconds;     ///< by what they were spent on
  std::optional<RunOutcome> outcome;  ///< none: it has not ended
  bool predicts = false;  ///< its goal: rows that validate were held out to pick a point
  std::optional<PredictorSummary> predictor;  ///< of a run that predicts, once it has ended
  std::vector<TargetErrors> train_errors;
  std::vector<TargetErrors> validation_errors;
  std::vector<TargetErrors> test_errors;
  std::string preflight;  ///< the report in words
  RunHistory history;
  RunPredictions predictions;
  RunSpectrum spectrum;
};

/// @throws InvalidArgument if there is no run, or columns that belong together differ in length.
Page run_page(const std::vector<RunRecord>& runs);

}  // namespace cdt::report
