/// What `reproduce` and `compare` share: the flags and the output of a sweep.
#pragma once

#include <cdt/experiment/plan.h>

#include "cli/command.h"
#include "experiments/claims.h"

namespace cdt::cli {

/// --jobs, --together, --out and the other options that affect how, not what, is computed.
struct SweepOptions {
  MachineOptions machine;
  OutputOptions output;
  int64_t jobs = 0;
  int64_t together = 0;
  bool csv_safe = false;
  std::string out;

  /// `folder` is the default of --out.
  void add_to(CLI::App& app, const std::string& folder);
};

/// --lrs, --methods, --seeds, --steps.
void add_sweep_axes(CLI::App& app, experiment::Plan& plan);

/// Trains the runs of the plan that are missing in OUT/runs, on the table as the plan reads it,
/// then writes results.json, results.csv, results.md, figures.json and report.html, and prints the
/// table. Returns the exit code.
/// @throws InvalidArgument if OUT contains a sweep with other settings.
int run_sweep(const experiment::Plan& plan, const data::Table& table,
              const paper::Published& published, const SweepOptions& options);

}  // namespace cdt::cli
