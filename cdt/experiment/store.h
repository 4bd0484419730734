/// The folder of a sweep while it runs: runs/KEY.json, a file per finished run, and sweep.json, the
/// settings that all of them share. Written and read here alone.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/experiment/plan.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::experiment {

/// How outputs and labels of one sample move.
struct SampleTrace {
  int64_t sample = 0;
  double label = 0;
  std::vector<double> outputs;
  std::vector<double> augmented;  ///< labels; equal to `label` under gradient descent

  void fields(Fields& f);
};

/// How far off a target is on the validation rows: the root of the mean square in units of the
/// file, or of a class the share of rows that are wrong.
struct TargetError {
  std::string target;
  bool is_class = false;
  double value = 0;

  void fields(Fields& f);
};

/// What a run left. NaN stands for what was not evaluated or is not finite; in files it is null.
struct CaseRun {
  Case what;
  std::string shape;  ///< "79-500-500-1"
  std::string outcome;
  int64_t steps = 0;
  double lr = 0;
  double train_loss = 0;
  double val_loss = 0;
  int64_t linearizations = 0;
  int64_t rejected = 0;
  /// Runs that were trained as one, this one among them: the same ones give the same bits.
  int64_t together = 1;
  double seconds = 0;     ///< of training; of runs together its share
  double operations = 0;  ///< of steps and validation, to compare with the machine's rate
  double lambda_max = 0;
  double lr_max = 0;
  bool reachable = false;
  bool strictly_contracting = false;
  /// Points of the curves; `val` only at some of them.
  std::vector<int64_t> step;
  std::vector<double> train;
  std::vector<double> val;
  std::vector<int64_t> refreshed;
  std::vector<int64_t> rejections;
  std::vector<double> final_error;  ///< ŷ − y of each training sample and output
  std::vector<double> row_norm;     ///< of their rows of the kernel
  std::vector<TargetError> errors;  ///< empty: not measured, or diverged
  /// Details.
  std::string preflight;
  std::vector<double> eigenvalues;  ///< descending
  std::vector<double> gain;
  std::vector<double> factor_gd;
  std::vector<double> factor_cdt;
  std::vector<int64_t> trace_step;
  std::vector<SampleTrace> traces;

  bool converged() const { return outcome != "diverged"; }
  void fields(Fields& f);
};

/// A run of a sweep's folder, from the text of its file, which messages call `source`.
/// @throws InvalidArgument if the text is something else, or lists that belong together differ in
///   length.
CaseRun parse_run(std::string_view json, const std::string& source);

/// What one call that made runs took.
struct Session {
  int64_t runs = 0;
  double wall_seconds = 0;
  double gflop = 0;  ///< of the runs' products
  int64_t jobs = 0;
  std::string device;
  std::string libtorch;
  double gemm_gflops = 0;  ///< rate of all jobs together, measured before each run

  void fields(Fields& f);
};

/// The calls that made runs so far, from the text of sweep.json, which messages call `source`.
/// @throws InvalidArgument if the text is something else, its settings included.
std::vector<Session> parse_sweep(std::string_view json, const std::string& source);

/// Names of the files of a sweep beside runs/, but for the report, which anybody may make anew.
const std::vector<std::string>& sweep_files();
bool holds_sweep(const std::filesystem::path& folder);

/// Whether sweep.json or runs/KEY.json (`name` within the folder) carries a checksum; runs of
/// earlier versions do not.
/// @throws InvalidArgument if it cannot be read, or is not as it was written.
bool require_intact(const std::filesystem::path& folder, const std::string& name);

/// Any thread may load and save runs.
class Store {
 public:
  /// Creates the folder. `settings` are shared by all its runs; the axes of the sweep may grow:
  /// finished runs are kept. `checksum` is that of the table.
  /// @throws InvalidArgument if the folder cannot be made, or holds runs with other settings.
  Store(std::filesystem::path folder, const Plan& plan, const std::string& checksum);

  const std::filesystem::path& folder() const { return folder_; }
  /// A finished run, if the file holds one with all that is wanted; what is missing or damaged is
  /// to be run again.
  std::optional<CaseRun> load(const Case& what) const;
  void save(const CaseRun& run) const;
  /// Keeps what a call took, unless it made no runs; returns all that were kept.
  std::vector<Session> add(const Session& session) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace cdt::experiment
