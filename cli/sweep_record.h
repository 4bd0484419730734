/// One run of a sweep, what it is and what it left: the content of runs/*.json. No LibTorch here.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cdt::cli {

/// What was not evaluated or is not finite.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Gradient descent at kBestShare of its largest stable rate, whatever that is.
inline constexpr const char* kGdBest = "gd-best";

/// Which run. Runs with the same key are the same run.
struct SweepCase {
  std::string architecture;
  std::string method;  ///< as of train, or gd-best
  double lr = 0;       ///< 0 for gd-best, which finds its own
  double p = 0.1;
  uint64_t seed = 1;
  int64_t steps = 0;
  /// Not part of the key: whether the spectrum and the pre-flight report are kept, and the way of
  /// single samples.
  bool details = false;
  bool traces = false;

  /// A file name: "1-cdt-lr0.01-p0.1-seed1-steps1000".
  std::string key() const;
};

/// How outputs and labels of one sample move.
struct SampleTrace {
  int64_t sample = 0;
  double label = 0;
  std::vector<double> outputs;
  std::vector<double> augmented;  ///< labels; equal to `label` under gradient descent
};

/// NaN stands for what was not evaluated or is not finite; in files it is null.
struct SweepRun {
  SweepCase what;
  std::string shape;  ///< "79-500-500-1"
  std::string outcome;
  int64_t steps = 0;
  double lr = 0;
  double train_loss = 0;
  double val_loss = 0;
  int64_t linearizations = 0;
  int64_t rejected = 0;
  double seconds = 0;     ///< of training
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
  /// Details.
  std::string preflight;
  std::vector<double> eigenvalues;  ///< descending
  std::vector<double> gain;
  std::vector<double> factor_gd;
  std::vector<double> factor_cdt;
  std::vector<int64_t> trace_step;
  std::vector<SampleTrace> traces;

  bool converged() const { return outcome != "diverged"; }
};

nlohmann::ordered_json to_json(const SweepRun& run);
/// @throws nlohmann::json::exception if the content is something else.
SweepRun parse_sweep_run(const nlohmann::ordered_json& content);

}  // namespace cdt::cli
