/// The record of a run: the contents of run.json, its writer and reader, and its tables as read
/// back.
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

/// Errors of the trained network's predictions.
struct RunErrors {
  Errors train;
  Errors validation;  ///< empty without validation rows
  Errors test;        ///< likewise

  void fields(Fields& f);
};

/// Some rows of the table, their use, and their predictions.
struct SplitPredictions {
  std::string split;  ///< "train", "validation" or "test"
  std::vector<int64_t> rows;
  RowPredictions values;
  std::optional<Bounds> bounds;  ///< with coverage kBoundsCoverage
};
/// Coverage of the bounds in predictions.csv and on the page.
inline constexpr double kBoundsCoverage = 0.9;
/// Predictions of training, validation and test rows by the network, trained with this loss.
std::vector<SplitPredictions> predict_splits(const Problem& problem, const loss::LossPtr& loss);
/// Predictions after learning: held-out rows, by the fold network that has not seen them, as
/// validation; all rows but test rows, by the predictor, as training rows.
std::vector<SplitPredictions> predict_splits(const Problem& problem, const Predictor& predictor,
                                             const Learned& learned,
                                             const std::optional<Intervals>& intervals);
RunErrors measure_errors(const Problem& problem, const std::vector<SplitPredictions>& predictions);

/// Part of the record for goal predict.
struct RunPrediction {
  int64_t members = 1;
  int64_t points = 0;               ///< point selected by held-out rows
  double decay = train::kUnknown;   ///< τ of the last point
  std::vector<PickedPoint> picked;  ///< by activation; missing in older records
  double temperature = 1;
  std::vector<TargetCalibration> targets;
  std::vector<Expectation> expected;
  std::vector<Importance> importance;  ///< if requested

  void fields(Fields& f);
};

/// Columns of equal length, the fastest mode first, for the kernel before training.
struct Spectrum {
  std::vector<double> mode;        ///< from 1
  std::vector<double> step;        ///< s = α c_L λ
  std::vector<double> gain;        ///< k(s)
  std::vector<double> factor_gd;   ///< 1 − s
  std::vector<double> factor_cdt;  ///< 1 − s(1 + k)
};

/// Use of a row of the table.
enum class RowUse { kTraining, kValidation, kTest };

/// True and predicted values of one target, row by row: numbers or classes.
struct TargetPredictions {
  std::string name;
  std::vector<double> truth;
  std::vector<double> predicted;
  std::vector<std::string> true_class;
  std::vector<std::string> predicted_class;
  std::vector<std::string> classes;                ///< with known probabilities
  std::vector<std::vector<double>> probabilities;  ///< [classes][rows]
  /// Bounds with coverage 0.9, if known; NaN where there are none.
  std::vector<double> low = {}, high = {};
};

struct PredictionTable {
  std::vector<RowUse> use;  ///< use of each row
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
    int64_t columns = 0;   ///< columns of an array of inputs; not set for tables
    int64_t skipped = 0;   ///< pictures left out because they could not be read
    int64_t repeated = 0;  ///< training and validation rows that equal another in every feature

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
    int64_t peak_bytes = 0;         ///< peak memory, once the run has finished; 0: unknown
    int64_t device_peak_bytes = 0;  ///< likewise for tensors on a GPU
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

  std::string version;   ///< version of the program that wrote the record
  std::string revision;  ///< its commit
  Settings settings;     ///< decided settings
  Settings defaults;     ///< defaults of all others
  /// Given settings, and chosen ones with who chose them and why; missing in older records.
  std::vector<Choice> choices;
  uint64_t seed = 0;
  Data data;
  Network network;
  Machine machine;
  std::optional<Tuning> tuned;
  std::string analysis;       ///< the JSON of to_json; empty: none
  std::string analysis_text;  ///< the same as text
  /// Without its history, which has its own file; empty during the run.
  std::optional<train::TrainResult> result;
  std::string in_words;                     ///< how it ended
  std::optional<RunPrediction> prediction;  ///< goal predict, once it has finished
  std::optional<RunErrors> errors;          ///< empty during the run, and if training diverged
  std::optional<Seconds> seconds;
  std::map<std::string, std::string> files;  ///< checksums of the folder's files, by name

  // Not in run.json: tables, empty if not read or missing.
  std::string name;  ///< name of the folder; unique among the runs shown together
  std::vector<train::StepRecord> history;
  PredictionTable predictions;
  Spectrum spectrum;

  /// A setting as given, or its default; empty if it does not have a single value.
  std::optional<std::string> setting(const std::string& name) const;

  void fields(Fields& f);
};

/// The text of run.json (docs/formats.md).
/// @throws InvalidArgument, with the field, if a text such as a file name is not UTF-8.
std::string to_json(const Record& record);
/// Reads the output of any version; missing fields keep their defaults.
/// @throws InvalidArgument, naming `file` and the field, if it is not JSON, has another format, or
///   is damaged.
Record parse_record(const std::string& json, const std::string& file = "run.json");

/// The field "errors" of one set of rows: by target, with the names of docs/formats.md.
std::string to_json(const Errors& errors);

}  // namespace cdt::study
