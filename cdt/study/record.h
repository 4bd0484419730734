/// What a run leaves: everything in run.json, its writer and its reader; and its tables, as they
/// are read back.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/study/decision.h>
#include <cdt/study/examine.h>
#include <cdt/study/importance.h>
#include <cdt/study/predictor.h>
#include <cdt/study/settings.h>

#include <map>

namespace cdt::study {

/// How far the trained network's predictions lie from the targets.
struct RunErrors {
  Errors train;
  Errors validation;  ///< empty if no row validated
  Errors test;        ///< likewise

  void fields(Fields& f);
};

/// Some rows of the table, what they are for, and what was predicted for them.
struct SplitPredictions {
  std::string split;  ///< "train", "validation" or "test"
  std::vector<int64_t> rows;
  RowPredictions values;
  std::optional<Bounds> bounds;  ///< that hold kBoundsCoverage of such rows
};
/// Of the bounds in predictions.csv and on the page.
inline constexpr double kBoundsCoverage = 0.9;
/// Of the rows that trained, validated and test, by the network, which has learned by this loss.
std::vector<SplitPredictions> predict_splits(const Problem& problem, const loss::LossPtr& loss);
/// Of what was learned to predict: rows that were held out, by the walk that had not seen them, as
/// validation; all but test rows as training rows, by the predictor.
std::vector<SplitPredictions> predict_splits(const Problem& problem, const Predictor& predictor,
                                             const Learned& learned,
                                             const std::optional<Intervals>& intervals);
RunErrors measure_errors(const Problem& problem, const std::vector<SplitPredictions>& predictions);

/// What a run that learned to predict knows about that.
struct RunPrediction {
  int64_t members = 1;
  int64_t points = 0;               ///< that held-out rows have picked
  double decay = train::kUnknown;   ///< τ of the last of them
  std::vector<PickedPoint> picked;  ///< by activation; older records have none
  double temperature = 1;
  std::vector<TargetCalibration> targets;
  std::vector<Expectation> expected;
  std::vector<Importance> importance;  ///< if it was asked for

  void fields(Fields& f);
};

/// Columns of one length, the fastest mode first, as the kernel was before training.
struct Spectrum {
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

struct PredictionTable {
  std::vector<RowUse> use;  ///< of each row
  std::vector<TargetPredictions> targets;
};

struct Record {
  struct Data {
    std::string file;
    std::string checksum;
    int64_t rows = 0;
    int64_t features = 0;
    int64_t train = 0;
    int64_t validation = 0;
    int64_t columns = 0;   ///< of an array of inputs; of a table not counted
    int64_t skipped = 0;   ///< pictures left out because they could not be read
    int64_t repeated = 0;  ///< training and validation rows that repeat another in every feature

    void fields(Fields& f);
  };
  struct Network {
    std::string shape;
    int64_t parameters = 0;

    void fields(Fields& f) {
      f("shape", shape);
      f("parameters", parameters);
    }
  };
  struct Machine {
    std::string device;
    int threads = 0;
    std::string libtorch;
    int64_t peak_bytes = 0;         ///< of memory, once the run has ended; 0: not known
    int64_t device_peak_bytes = 0;  ///< likewise of tensors on a GPU
    int64_t workers = 1;            ///< processes that shared the rows

    void fields(Fields& f);
  };
  struct Seconds {
    double load = 0;
    double analysis = 0;
    double training = 0;
    double total = 0;

    void fields(Fields& f) {
      f("load", load);
      f("analysis", analysis);
      f("training", training);
      f("total", total);
    }
  };

  std::string version;   ///< of the program that wrote it
  std::string revision;  ///< its commit
  Settings settings;     ///< what was decided
  Settings defaults;     ///< what stood in for the rest
  /// Settings that were given, and those that were chosen, by whom and why; older records have
  /// none.
  std::vector<Choice> choices;
  uint64_t seed = 0;
  Data data;
  Network network;
  Machine machine;
  std::optional<Tuning> tuned;
  std::string analysis;       ///< the JSON of to_json; empty: none
  std::string analysis_text;  ///< the same for people
  /// Without its history, which has a file of its own; none while the run lasts.
  std::optional<train::TrainResult> result;
  std::string in_words;                     ///< how it ended
  std::optional<RunPrediction> prediction;  ///< under the goal predict, once it has ended
  std::optional<RunErrors> errors;          ///< none while the run lasts, and if training diverged
  std::optional<Seconds> seconds;
  std::map<std::string, std::string> files;  ///< checksums of the folder's files, by name

  // What is not in run.json: tables, empty where they are not read or not there.
  std::string name;  ///< of the folder; no other run beside it has this one
  std::vector<train::StepRecord> history;
  PredictionTable predictions;
  Spectrum spectrum;

  /// Of a setting, as it was given or else by default; none: it has not this one alone.
  std::optional<std::string> setting(const std::string& name) const;

  void fields(Fields& f);
};

/// The text of run.json (docs/formats.md).
/// @throws InvalidArgument, with the field, if a text in it is not UTF-8: the name of a file, say.
std::string to_json(const Record& record);
/// Reads what any version has written; fields that it lacks keep their defaults.
/// @throws InvalidArgument, naming `file`, if it is not JSON, of another format, or damaged: the
/// message has the field.
Record parse_record(const std::string& json, const std::string& file = "run.json");

/// The part "errors" of one set of rows: by target, with the names of docs/formats.md.
std::string to_json(const Errors& errors);

}  // namespace cdt::study
