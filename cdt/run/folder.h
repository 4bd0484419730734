/// The folder of a run (docs/formats.md): its files, and how they are written and read.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/folder.h>
#include <cdt/run/record.h>
#include <cdt/study/trained_model.h>

#include <filesystem>

namespace cdt::run {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Names of the files that training writes, except the report, which can be regenerated.
  static const std::vector<std::string>& file_names();

  bool holds_run() const;
  /// @throws InvalidArgument if `input` is one of the folder's files, under any name, since
  ///   training would overwrite it.
  void require_apart(const std::filesystem::path& input) const;
  /// @throws InvalidArgument unless it holds a finished run.
  void require_run() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path run() const { return path_ / "run.json"; }
  std::filesystem::path history() const { return path_ / "history.csv"; }
  /// Model of the first member of an ensemble; the others are model-2.safetensors, …
  std::filesystem::path model(int64_t member = 1) const;
  std::filesystem::path preprocess() const { return path_ / "preprocess.json"; }
  std::filesystem::path predictions() const { return path_ / "predictions.csv"; }
  std::filesystem::path intervals() const { return path_ / "intervals.safetensors"; }
  std::filesystem::path spectrum() const { return path_ / "spectrum.csv"; }
  std::filesystem::path report() const { return path_ / "report.html"; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }

  void write_record(const RunRecord& record) const;
  /// @throws InvalidArgument if it is missing or damaged.
  RunRecord read_record() const;
  /// @throws InvalidArgument if a file is not the one that run.json describes, but damaged or
  ///   replaced. Runs of earlier versions have no checksums.
  void require_intact(const RunRecord& record, const std::filesystem::path& file) const;
  void write_history(const std::vector<train::StepRecord>& history) const;
  std::vector<train::StepRecord> read_history() const;
  void write_preprocess(const data::Preprocess& preprocess) const;
  data::Preprocess read_preprocess() const;
  /// predictions.csv: targets and predictions, split after split; a row that occurs twice has its
  /// last prediction. `for_spreadsheets` as in data::csv_field. `id` is a column of the table to
  /// copy.
  void write_predictions(const data::Preprocess& preprocess,
                         const std::vector<SplitPredictions>& predictions,
                         bool for_spreadsheets = false, const data::Column* id = nullptr) const;
  void write_intervals(const study::Intervals& intervals) const;
  /// @throws InvalidArgument if they are missing or damaged, or do not have `features` features and
  ///   `targets` targets.
  study::Intervals read_intervals(int64_t features, int64_t targets) const;
  /// spectrum.csv: the modes of the kernel before training, and the effect on them of a step of
  /// gradient descent and of controlled descent at the rate of the analysis.
  void write_spectrum(const analysis::Preflight& preflight) const;
  /// report.html, from the other files. `mode` is the file mode if it does not exist yet.
  void write_report(unsigned mode = 0666) const;

 private:
  std::filesystem::path path_;
};

/// Creates the first of run1, run2, … that does not exist.
std::filesystem::path make_free_folder();

/// The networks of a finished run with their preprocessing, and intervals if requested.
using TrainedModel = study::TrainedModel;
/// @throws InvalidArgument unless the folder holds a finished run with consistent files, or if
///   intervals are requested and missing.
TrainedModel load_trained(const RunFolder& folder, torch::Device device, bool intervals = false);

/// Predictions of a trained network for a table.
struct Predictions {
  torch::Tensor values;                 ///< [r, t] in units of the file; probabilities for classes
  std::optional<study::Bounds> bounds;  ///< if requested
  std::vector<std::string> classes;     ///< predicted class of each row, if the target is a class
  torch::Tensor targets;                ///< likewise, if the table has all targets
  std::optional<study::Errors> errors;  ///< in that case
  std::string unmeasured;               ///< why there are no errors although the table has targets
};
/// @throws InvalidArgument if the table lacks a column or has an unknown category. `coverage` is
///   that of the bounds; 0: no bounds.
Predictions predict(const TrainedModel& trained, const data::Table& table, double coverage = 0);
/// Options of to_csv.
struct PredictionLines {
  int64_t first_row = 1;             ///< number of the first row; a header is written only if it is
                                     ///< 1
  const data::Column* id = nullptr;  ///< a column of the table to copy
  bool for_spreadsheets = false;     ///< as in data::csv_field
};
/// One line per row of the table: its number, its id, a column per target, or a column per class
/// with its probability.
std::string to_csv(const TrainedModel& trained, const Predictions& predictions,
                   const PredictionLines& lines = {});

}  // namespace cdt::run
