/// A sweep: architectures × learning rates × methods × seeds on one table, every run on one thread
/// of its own, as many at a time as there are jobs. What `reproduce` and `compare` share.
#pragma once

#include <cdt/study/problem.h>

#include <map>
#include <memory>
#include <mutex>

#include "cli/command.h"
#include "cli/sweep_record.h"

namespace cdt::cli {

struct Architecture {
  std::string name;
  std::vector<int64_t> hidden;
};

/// A value of the paper's tables; NaN where it prints infinity.
struct PublishedRow {
  std::string architecture;
  double lr = 0;
  std::string method;
  int64_t converged = 0;
  double val_mse_mean = 0;
  double val_mse_std = 0;
};

/// A setting as the report shows it.
struct Setting {
  std::string name;
  std::string value;
  std::string source;  ///< paper, ours or given
  std::string note;
};

struct SweepPlan {
  std::string kind;  ///< reproduce or compare
  std::string title;
  study::DataOptions data;
  study::NetworkOptions network;
  std::string loss = "mse";
  std::string schedule = "constant";  ///< of every method but guarded, which adapts its rate
  double decay = 0.01;
  double q = 1.0;
  double p = 0.1;
  int64_t steps = 1000;
  int64_t seeds = 10;
  int64_t validate_every = 10;
  int64_t memory_mb = 2048;
  std::vector<Architecture> architectures;
  std::vector<double> lrs;
  std::vector<std::string> methods;

  /// Rates beyond the table's, for the figure of steps against rates.
  std::vector<double> further_lrs;
  std::vector<std::string> further_methods;
  int64_t further_seeds = 0;
  int64_t further_steps = 0;
  /// Weights p beside the table's, for one architecture and rate.
  std::vector<double> weights;
  std::string weights_architecture;
  double weights_lr = 0;
  int64_t weights_seeds = 0;
  /// The run whose samples are drawn.
  std::string samples_architecture;
  double samples_lr = 0;
  int64_t published_closer = 0;
  int64_t published_samples = 0;

  std::vector<PublishedRow> published;
  std::string published_note;
  std::vector<Setting> settings;

  /// @throws InvalidArgument, naming those that there are.
  const Architecture& architecture(const std::string& name) const;
};

/// Every run once, the longest first, so that the jobs end together.
std::vector<SweepCase> cases_of(const SweepPlan& plan);

/// The kernel of a network at its start.
struct StartKernel {
  dynamics::Modes spectrum;
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
std::optional<SweepRun> execute(const SweepPlan& plan, const SweepCase& what,
                                const data::Table& table, torch::Device device,
                                StartKernels& kernels, const std::function<bool()>& stop);

/// --jobs, --out and what else says how, not what.
struct SweepOptions {
  MachineOptions machine;
  OutputOptions output;
  int64_t jobs = 0;
  std::string out;

  /// `folder` is the default of --out.
  void add_to(CLI::App& app, const std::string& folder);
};

/// --lrs, --methods, --seeds, --steps.
void add_sweep_axes(CLI::App& app, SweepPlan& plan);

/// Runs what is not there yet in OUT/runs, then writes results.json, results.csv, results.md,
/// figures.json and report.html, and prints the table. Returns the exit code.
/// @throws InvalidArgument if OUT holds a sweep with other settings.
int run_sweep(const SweepPlan& plan, const SweepOptions& options);

}  // namespace cdt::cli
