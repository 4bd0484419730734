/// Executes the runs of a sweep: as many in parallel as there are jobs, each on its own thread, or
/// on a GPU several as one. Finished runs are saved immediately.
#pragma once

#include <cdt/core/error.h>
#include <cdt/experiment/store.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace cdt::experiment {

/// The kernel of an untrained network.
struct StartKernel {
  dynamics::Modes modes;  ///< modes of Θ; for the cross entropy of H^½ΘH^½ (analysis::Spectrum)
  double factor = 0;      ///< the step scale at rate α is α·factor
  double lr_max = 0;      ///< gradient descent is stable below it
  std::vector<double> row_norm;
  double seconds = 0;  ///< time to compute it
};

/// Kernels shared by the runs of one architecture and seed. Thread-safe. Large ones are not kept.
class StartKernels {
 public:
  /// Returns the kernel of `key`; calls `make` if it is new.
  std::shared_ptr<const StartKernel> get(const std::string& key,
                                         const std::function<StartKernel()>& make);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const StartKernel>> kept_;
};

/// Executes one run; empty if `stop` returned true.
std::optional<CaseRun> execute(const Plan& plan, const Case& what, const data::Table& table,
                               torch::Device device, StartKernels& kernels,
                               const std::function<bool()>& stop);

/// Executes several runs as one (see groups.h); empty if `stop` returned true.
std::optional<std::vector<CaseRun>> execute_together(const Plan& plan,
                                                     const std::vector<Case>& cases,
                                                     const data::Table& table, torch::Device device,
                                                     StartKernels& kernels,
                                                     const std::function<bool()>& stop);

/// How a sweep is executed.
struct RunnerOptions {
  torch::Device device = torch::kCPU;
  int64_t jobs = 0;  ///< parallel runs; 0: number of cores, 1 on a GPU
  /// Maximum number of runs of one architecture trained as one; 1: each alone; 0: 1, on a GPU as
  /// many as fill it.
  int64_t together = 0;
  /// Called repeatedly; once it returns true, unfinished runs are abandoned.
  std::function<bool()> stop;
  /// Called once, before the first run, with the number of runs, of those already finished, and of
  /// parallel jobs.
  std::function<void(int64_t runs, int64_t known, int64_t jobs)> on_start;
  /// Called before on_start, with warnings about the table.
  std::function<void(const std::string& text)> on_warning;
  /// Called after each run, by one thread at a time, with the number of finished runs.
  std::function<void(int64_t done, int64_t total, const std::string& key)> progress;
};

/// Result of a sweep.
struct Sweep {
  std::vector<CaseRun> runs;      ///< finished runs, in the order of cases_of
  int64_t made = 0;               ///< number of runs executed now
  bool complete = false;          ///< false: stopped early
  double wall_seconds = 0;        ///< duration of this call
  std::vector<Session> sessions;  ///< all calls that executed runs; the last is this one
  std::string checksum;           ///< checksum of the table
  int64_t table_rows = 0;
};

/// Executes the runs that `folder` does not hold yet, on a table read with plan.data.
/// @throws InvalidArgument if the plan is not sound, the table cannot be read or leaves no rows for
///   validation, the folder holds a sweep with other settings, or another process writes to it.
/// @throws IoError if writing fails, as on a full disk.
Sweep run(const Plan& plan, const data::Table& table, const std::filesystem::path& folder,
          const RunnerOptions& options);
/// The same, reading the table first.
Sweep run(const Plan& plan, const std::filesystem::path& folder, const RunnerOptions& options);

}  // namespace cdt::experiment
