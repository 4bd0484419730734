/// The page of one run, or of several beside each other.
#pragma once

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
};

/// Columns of one length, the fastest mode first, as the kernel was before training.
struct RunSpectrum {
  std::vector<double> mode;        ///< from 1
  std::vector<double> step;        ///< s = α c_L λ
  std::vector<double> gain;        ///< k(s)
  std::vector<double> factor_gd;   ///< 1 − s
  std::vector<double> factor_cdt;  ///< 1 − s(1 + k)
};

/// Truth and predictions of one target, row by row: numbers, or else classes.
struct TargetPredictions {
  std::string name;
  std::vector<double> truth;
  std::vector<double> predicted;
  std::vector<std::string> true_class;
  std::vector<std::string> predicted_class;
};

struct RunPredictions {
  std::vector<bool> validation;  ///< whether a row validates; the others train
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
  std::vector<NameValue> defaults;  ///< of the other settings
  std::vector<NameValue> data;
  std::vector<NameValue> network;
  std::vector<NameValue> machine;
  std::vector<NameValue> seconds;     ///< by what they were spent on
  std::optional<RunOutcome> outcome;  ///< none: it has not ended
  std::vector<TargetErrors> train_errors;
  std::vector<TargetErrors> validation_errors;
  std::string preflight;  ///< the report in words
  RunHistory history;
  RunPredictions predictions;
  RunSpectrum spectrum;
};

/// @throws InvalidArgument if there is no run, or columns that belong together differ in length.
Page run_page(const std::vector<RunRecord>& runs);

}  // namespace cdt::report
