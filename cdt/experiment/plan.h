/// What a sweep is to do: architectures × learning rates × methods × seeds on one table.
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

/// Gradient descent at 0.9 of its largest stable rate, whatever that is: a method of sweeps beside
/// those of train::Method.
inline constexpr const char* kGdBest = "gd-best";

/// Networks that predict as `cdt train --goal predict` does, by a path and by Adam: methods of
/// sweeps, likewise. They learn from the training rows alone.
inline constexpr const char* kPredict = "predict";
inline constexpr const char* kPredictAdam = "predict-adam";
bool predicts(const std::string& method);
/// What a method of sweeps trains by.
/// @throws InvalidArgument if there is none of this name.
train::Method training_method(const std::string& name);

struct Architecture {
  std::string name;
  std::vector<int64_t> hidden;
  std::string network = "mlp";  ///< of the table of architectures (cdt/nn/architectures.h)
};

/// Which run. Runs with the same key are the same run.
struct Case {
  std::string architecture;
  std::string method;  ///< as of train::Method, gd-best, predict or predict-adam
  double lr = 0;       ///< 0: one of the method's own
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

/// Rates beyond the table's, for the figure of steps against rates.
struct FurtherRates {
  std::vector<double> lrs;
  std::vector<std::string> methods;
  int64_t seeds = 0;
  int64_t steps = 0;
};

/// Weights p beside the table's, for one architecture and rate.
struct OtherWeights {
  std::vector<double> p;
  std::string architecture;
  double lr = 0;
  int64_t seeds = 0;
};

/// The runs, one under each method, whose samples are drawn.
struct TracedRun {
  std::string architecture;
  double lr = 0;
};

struct Plan {
  std::string kind;  ///< reproduce or compare
  std::string title;
  study::DataOptions data;
  study::NetworkOptions network;  ///< but for its architecture and hidden layers
  loss::LossPtr loss = loss::mse();
  train::Schedule schedule;  ///< of every method but guarded, which adapts its rate
  double q = 1.0;
  double p = 0.1;
  int64_t steps = 1000;
  int64_t seeds = 10;
  int64_t validate_every = 10;
  int64_t memory_bytes = int64_t{2} << 30;  ///< for each kernel's computation
  std::vector<Architecture> architectures;
  std::vector<double> lrs;
  std::vector<std::string> methods;  ///< at every rate; gd-best at its own alone
  std::vector<std::string>
      own_rate;  ///< methods that run once, at the rate that they take unasked; also predict
  FurtherRates further;
  OtherWeights weights;
  TracedRun samples;
  bool errors = false;                    ///< whether runs also measure errors in units of the file
  double loss_unit = 1e-3;                ///< of losses in tables, as the paper's have it
  std::vector<report::Setting> settings;  ///< as the report shows them

  /// @throws InvalidArgument, naming those that there are.
  const Architecture& architecture(const std::string& name) const;
};

/// A plan from the text of an experiment, JSON with the keys of experiments/ames.toml; but for the
/// table that it is run on. `source` is its name in messages.
/// @throws InvalidArgument, with the key, if a value is missing or is not what it should be.
Plan parse_plan(std::string_view json, const std::string& source);

/// The network of one of its architectures.
/// @throws InvalidArgument if there is none of that name.
study::NetworkOptions network_of(const Plan& plan, const std::string& architecture);

/// The plan's data, from which every run has its training and validation rows: a class is what the
/// cross entropy learns, and rows without a target are left out if some runs predict, as those do.
study::DataOptions data_of(const Plan& plan);

/// @throws InvalidArgument if a rate, method or architecture comes twice (it would give two rows of
/// the same runs), a method is not known, the name of an architecture cannot be that of a file,
/// there is nothing to run, or more than a million runs.
void require_sound(const Plan& plan);

/// What `cdt train` would be told for a case: what all of the plan share, and the place of this one
/// on the axes. The rate of gd-best is not known before there is a kernel.
study::RunOptions options_of(const Plan& plan, const Case& what);

/// Every run once, the longest first, so that the jobs end together.
std::vector<Case> cases_of(const Plan& plan);

}  // namespace cdt::experiment
