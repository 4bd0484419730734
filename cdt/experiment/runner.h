/// Runs of a sweep: as many at a time as there are jobs, each on a thread of its own, or on a GPU
/// several as one; kept in files as soon as they are done.
#pragma once

#include <cdt/core/error.h>
#include <cdt/experiment/store.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace cdt::experiment {

/// The kernel of a network at its start.
struct StartKernel {
  dynamics::Modes modes;  ///< of Θ; under the cross entropy of H^½ΘH^½ (analysis::Spectrum)
  double factor = 0;      ///< a step of rate α takes α·factor of the modes
  double lr_max = 0;      ///< plain descent is stable below it
  std::vector<double> row_norm;
  double seconds = 0;  ///< that it took
};

/// Kernels that the runs of one architecture and seed share, for any thread. Large ones are not
/// kept.
class StartKernels {
 public:
  /// Calls `make` where `key` is new.
  std::shared_ptr<const StartKernel> get(const std::string& key,
                                         const std::function<StartKernel()>& make);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const StartKernel>> kept_;
};

/// Runs one of them; empty if `stop` asked to.
std::optional<CaseRun> execute(const Plan& plan, const Case& what, const data::Table& table,
                               torch::Device device, StartKernels& kernels,
                               const std::function<bool()>& stop);

/// Runs some of them as one (groups.h says which), or none if `stop` asked to.
std::optional<std::vector<CaseRun>> execute_together(const Plan& plan,
                                                     const std::vector<Case>& cases,
                                                     const data::Table& table, torch::Device device,
                                                     StartKernels& kernels,
                                                     const std::function<bool()>& stop);

/// How a sweep runs, not what.
struct RunnerOptions {
  torch::Device device = torch::kCPU;
  int64_t jobs = 0;  ///< runs at a time; 0: all cores, 1 on a GPU
  /// Runs of one architecture that are trained as one, at most; 1: each alone; 0: 1, on a GPU as
  /// many as fill it.
  int64_t together = 0;
  std::function<bool()>
      stop;  ///< asked again and again; once true, runs that are not done are left
  /// Called once, before the first run: how many runs there are, how many of them are there
  /// already, and how many go at a time.
  std::function<void(int64_t runs, int64_t known, int64_t jobs)> on_start;
  /// Called before that, with what is odd about the table.
  std::function<void(const std::string& text)> on_warning;
  /// Called after each run, by one thread at a time: how many are done.
  std::function<void(int64_t done, int64_t total, const std::string& key)> progress;
};

/// What came of it.
struct Sweep {
  std::vector<CaseRun> runs;      ///< those that are done, in the order of cases_of
  int64_t made = 0;               ///< of them now
  bool complete = false;          ///< false: `stop` said so
  double wall_seconds = 0;        ///< of this call
  std::vector<Session> sessions;  ///< of all calls that made runs, this one the last
  std::string checksum;           ///< of the table
  int64_t table_rows = 0;
};

/// Makes the runs that `folder` does not hold yet, of a table that was read as plan.data says.
/// @throws InvalidArgument if the plan is not sound, the table cannot be read or leaves no rows to
///   validate on, the folder holds a sweep with other settings, or another process writes to it.
/// @throws IoError if the machine refuses to write, as on a full disk.
Sweep run(const Plan& plan, const data::Table& table, const std::filesystem::path& folder,
          const RunnerOptions& options);
/// The same, reading it first.
Sweep run(const Plan& plan, const std::filesystem::path& folder, const RunnerOptions& options);

}  // namespace cdt::experiment
