/// The folder of a run (docs/formats.md): what is in it, how it is written and read.
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

  /// Names of the files that training writes, but for the report, which anybody may make anew.
  static const std::vector<std::string>& file_names();

  bool holds_run() const;
  /// @throws InvalidArgument if `input` is one of the folder's files, by whatever name: training
  ///   would write over what it reads.
  void require_apart(const std::filesystem::path& input) const;
  /// @throws InvalidArgument unless it holds a finished run.
  void require_run() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path run() const { return path_ / "run.json"; }
  std::filesystem::path history() const { return path_ / "history.csv"; }
  /// Of the first member of an ensemble; the others are model-2.safetensors, …
  std::filesystem::path model(int64_t member = 1) const;
  std::filesystem::path preprocess() const { return path_ / "preprocess.json"; }
  std::filesystem::path predictions() const { return path_ / "predictions.csv"; }
  std::filesystem::path intervals() const { return path_ / "intervals.safetensors"; }
  std::filesystem::path spectrum() const { return path_ / "spectrum.csv"; }
  std::filesystem::path report() const { return path_ / "report.html"; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }

  void write_record(const RunRecord& record) const;
  /// @throws InvalidArgument if there is none, or it is damaged.
  RunRecord read_record() const;
  /// @throws InvalidArgument if a file is not the one that run.json describes: it was damaged or
  ///   exchanged. Runs of earlier versions have no checksums.
  void require_intact(const RunRecord& record, const std::filesystem::path& file) const;
  void write_history(const std::vector<train::StepRecord>& history) const;
  std::vector<train::StepRecord> read_history() const;
  void write_preprocess(const data::Preprocess& preprocess) const;
  data::Preprocess read_preprocess() const;
  /// predictions.csv: targets and predictions of rows, one after the other; a row that comes twice
  /// is written as it comes last. `for_spreadsheets`: as data::csv_field has it. `id` is a column
  /// of the table to repeat.
  void write_predictions(const data::Preprocess& preprocess,
                         const std::vector<SplitPredictions>& predictions,
                         bool for_spreadsheets = false, const data::Column* id = nullptr) const;
  void write_intervals(const study::Intervals& intervals) const;
  /// @throws InvalidArgument if there are none, or they are damaged, or not of `features` features
  ///   and `targets` targets.
  study::Intervals read_intervals(int64_t features, int64_t targets) const;
  /// spectrum.csv: the modes of the kernel before training, and what a step of gradient descent and
  /// of controlled descent does to them at the rate of the analysis.
  void write_spectrum(const analysis::Preflight& preflight) const;
  /// report.html, from the other files. `mode` is that of one that was not there.
  void write_report(unsigned mode = 0666) const;

 private:
  std::filesystem::path path_;
};

/// Makes the first of run1, run2, … that does not exist.
std::filesystem::path make_free_folder();

/// What predicts: the networks of a finished run and how they want their features; intervals if
/// they were asked for.
using TrainedModel = study::TrainedModel;
/// @throws InvalidArgument unless the folder holds a finished run whose files fit each other, or if
///   intervals are asked for and there are none.
TrainedModel load_trained(const RunFolder& folder, torch::Device device, bool intervals = false);

/// What a trained network says about a table.
struct Predictions {
  torch::Tensor values;                 ///< [r, t] in units of the file; of classes probabilities
  std::optional<study::Bounds> bounds;  ///< if they were asked for
  std::vector<std::string> classes;     ///< of each row, if the target is a class
  torch::Tensor targets;                ///< likewise, if the table has them all
  std::optional<study::Errors> errors;  ///< in that case
  std::string unmeasured;               ///< why there are no errors although it has them
};
/// @throws InvalidArgument if the table lacks a column or has a category that the run did not see.
/// `coverage` of bounds; 0: none.
Predictions predict(const TrainedModel& trained, const data::Table& table, double coverage = 0);
/// How predictions become lines.
struct PredictionLines {
  int64_t first_row = 1;             ///< number of the first row; only from 1 there is a header
  const data::Column* id = nullptr;  ///< a column of the table to repeat
  bool for_spreadsheets = false;     ///< as data::csv_field has it
};
/// A line per row of the table: its number, its id, a column per target; of classes a column of
/// probabilities each.
std::string to_csv(const TrainedModel& trained, const Predictions& predictions,
                   const PredictionLines& lines = {});

}  // namespace cdt::run
