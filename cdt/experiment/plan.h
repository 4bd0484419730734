/// The plan of a sweep: architectures × learning rates × methods × seeds on one table.
#pragma once

#include <cdt/core/error.h>
#include <cdt/report/sweep_page.h>
#include <cdt/study/problem.h>
#include <cdt/study/run_options.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::experiment {

/// Sweep method: gradient descent at 0.9 of its largest stable rate. Not a train::Method.
inline constexpr const char* kGdBest = "gd-best";

/// Sweep methods: networks that predict as with `cdt train --goal predict`, trained along the path
/// and by Adam. They use the training rows only.
inline constexpr const char* kPredict = "predict";
inline constexpr const char* kPredictAdam = "predict-adam";
bool predicts(const std::string& method);
/// What a method of sweeps trains by.
/// @throws InvalidArgument if there is none of this name.
train::Method training_method(const std::string& name);

struct Architecture {
  std::string name;
  std::vector<int64_t> hidden;
  std::string network = "mlp";  ///< in the table of architectures (cdt/nn/architectures.h)
};

/// Identifies a run. Runs with the same key are the same run.
struct Case {
  std::string architecture;
  std::string method;  ///< name of a train::Method, gd-best, predict or predict-adam
  double lr = 0;       ///< 0: chosen by the method
  double p = 0.1;
  uint64_t seed = 1;
  int64_t steps = 0;
  /// Not part of the key: whether to keep the spectrum and the pre-flight report, and the
  /// trajectories of single samples.
  bool details = false;
  bool traces = false;

  /// A file name: "1-cdt-lr0.01-p0.1-seed1-steps1000".
  std::string key() const;
};

/// Additional rates for the figure of steps against rates.
struct FurtherRates {
  std::vector<double> lrs;
  std::vector<std::string> methods;
  int64_t seeds = 0;
  int64_t steps = 0;
};

/// Additional weights p for one architecture and rate.
struct OtherWeights {
  std::vector<double> p;
  std::string architecture;
  double lr = 0;
  int64_t seeds = 0;
};

/// The runs, one per method, whose samples are plotted.
struct TracedRun {
  std::string architecture;
  double lr = 0;
};

struct Plan {
  std::string kind;  ///< reproduce or compare
  std::string title;
  study::DataOptions data;
  study::NetworkOptions network;  ///< except its architecture and hidden layers
  loss::LossPtr loss = loss::mse();
  train::Schedule schedule;  ///< schedule of all methods except guarded, which adapts its rate
  double q = 1.0;
  double p = 0.1;
  int64_t steps = 1000;
  int64_t seeds = 10;
  int64_t validate_every = 10;
  int64_t memory_bytes = int64_t{2} << 30;  ///< for each kernel's computation
  std::vector<Architecture> architectures;
  std::vector<double> lrs;
  std::vector<std::string> methods;  ///< at every rate; gd-best only at its own
  /// Methods that run once, at the rate that they choose by default; also predict.
  std::vector<std::string> own_rate;
  FurtherRates further;
  OtherWeights weights;
  TracedRun samples;
  bool errors = false;                    ///< whether runs also measure errors in units of the file
  double loss_unit = 1e-3;                ///< unit of losses in tables, as in the paper
  std::vector<report::Setting> settings;  ///< as shown in the report

  /// @throws InvalidArgument if the name is unknown; the message lists the known names.
  const Architecture& architecture(const std::string& name) const;
};

/// Parses a plan from the text of an experiment, JSON with the keys of experiments/ames.toml,
/// without the table that it is run on. Messages call it `source`.
/// @throws InvalidArgument, with the key, if a value is missing or invalid.
Plan parse_plan(std::string_view json, const std::string& source);

/// The network options of one of its architectures.
/// @throws InvalidArgument if the architecture is unknown.
study::NetworkOptions network_of(const Plan& plan, const std::string& architecture);

/// The plan's data, from which every run takes its training and validation rows. The target is a
/// class if the loss is the cross entropy; rows without a target are left out if some runs predict.
study::DataOptions data_of(const Plan& plan);

/// @throws InvalidArgument if a rate, method or architecture is repeated (two rows would have the
///   same runs), a method is unknown, an architecture's name cannot be a file name, there is
///   nothing to run, or there are more than a million runs.
void require_sound(const Plan& plan);

/// Options of `cdt train` for a case: those that all runs of the plan share, and the case's own.
/// The rate of gd-best is known only once the kernel is computed.
study::RunOptions options_of(const Plan& plan, const Case& what);

/// All runs without repetition, the longest first, so that the jobs end together.
std::vector<Case> cases_of(const Plan& plan);

}  // namespace cdt::experiment
