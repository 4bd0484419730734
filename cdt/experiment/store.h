/// The folder of a running sweep: runs/KEY.json, one file per finished run, and sweep.json, the
/// settings that all runs share. Only this file writes and reads them.
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

/// Outputs and labels of one sample over the steps.
struct SampleTrace {
  int64_t sample = 0;
  double label = 0;
  std::vector<double> outputs;
  std::vector<double> augmented;  ///< labels with augments; equal to `label` for gradient descent

  void fields(Fields& f);
};

/// Error of a target on the validation rows: RMSE in units of the file, for a class the share of
/// misclassified rows.
struct TargetError {
  std::string target;
  bool is_class = false;
  double value = 0;

  void fields(Fields& f);
};

/// Result of a run. NaN means not evaluated or not finite; in files it is null.
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
  /// Number of runs trained as one with this one, itself included. The same set gives the same
  /// bits.
  int64_t together = 1;
  double seconds = 0;     ///< training time; if trained together, this run's share
  double operations = 0;  ///< operations of steps and validation, to compare with the machine's
                          ///< rate
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
  std::vector<double> row_norm;     ///< norms of their kernel rows
  std::vector<TargetError> errors;  ///< empty if not measured or diverged
  /// Only with Case::details or Case::traces.
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

/// Parses the file of a run in a sweep's folder; messages call it `source`.
/// @throws InvalidArgument if the text has another format, or lists that belong together differ in
///   length.
CaseRun parse_run(std::string_view json, const std::string& source);

/// Resources used by one call that executed runs.
struct Session {
  int64_t runs = 0;
  double wall_seconds = 0;
  double gflop = 0;  ///< operations of the runs' matrix products
  int64_t jobs = 0;
  std::string device;
  std::string libtorch;
  double gemm_gflops = 0;  ///< total rate of all jobs, measured before each run

  void fields(Fields& f);
};

/// Parses the calls recorded in sweep.json; messages call it `source`.
/// @throws InvalidArgument if the text has another format, including its settings.
std::vector<Session> parse_sweep(std::string_view json, const std::string& source);

/// Names of the files of a sweep beside runs/, except the report, which can be regenerated.
const std::vector<std::string>& sweep_files();
bool holds_sweep(const std::filesystem::path& folder);

/// Whether sweep.json or runs/KEY.json (`name` within the folder) has a checksum; runs of earlier
/// versions do not.
/// @throws InvalidArgument if it cannot be read, or does not match its checksum.
bool require_intact(const std::filesystem::path& folder, const std::string& name);

/// Thread-safe for loading and saving runs.
class Store {
 public:
  /// Creates the folder. `settings` are shared by all its runs; if the axes of the sweep grow,
  /// finished runs are kept. `checksum` is that of the table.
  /// @throws InvalidArgument if the folder cannot be created, or holds runs with other settings.
  Store(std::filesystem::path folder, const Plan& plan, const std::string& checksum);

  const std::filesystem::path& folder() const { return folder_; }
  /// Loads a finished run if its file has everything requested; otherwise it must be run again.
  std::optional<CaseRun> load(const Case& what) const;
  void save(const CaseRun& run) const;
  /// Saves a session, unless it executed no runs; returns all saved sessions.
  std::vector<Session> add(const Session& session) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace cdt::experiment
