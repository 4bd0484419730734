/// Training flags, and the analysis of a table and a network that goes before training.
#pragma once

#include <cdt/control/cross_entropy.h>

#include "cli/problem.h"

namespace cdt::cli {

/// --method, --lr, --loss, --p, --q, … as flags and as the trainer wants them.
struct TrainingOptions {
  std::string method = "guarded";
  std::string loss = "mse";
  double smoothing = 0;
  double learning_rate = 0;
  std::string schedule = "constant";
  double decay = 0;
  int64_t decay_period = 100;
  double p = 0.1;
  double q = 1.0;
  double shape = 0;
  std::string relinearize;
  double weight_decay = 0;
  std::vector<double> output_weights;
  int64_t batch = 0;
  bool reshuffle = false;
  int64_t steps = 1000;
  double stop_loss = 1e-6;
  int64_t patience = 0;
  int64_t plateau = 0;
  double max_seconds = 0;
  int64_t validate_every = 1;
  bool linearization_error = false;
  int64_t memory_mb = 2048;
  double checkpoint_seconds = 30;
  uint64_t seed = 1;

  void add_to(CLI::App& app);
  /// Puts --output-weights into the problem, chooses batches where none were asked for and the
  /// kernel would be too large.
  train::TrainOptions parse(Problem& problem, const CLI::App& app) const;
};

/// What an analysis of a table and a network needs to know.
struct AnalysisOptions {
  std::string loss = "mse";
  std::optional<double> learning_rate;  ///< default: what `method` would take
  std::string method = "gd";
  double p = 0.1;
  double q = 1.0;
  double smoothing = control::kUsualSmoothing;  ///< of class labels
  int64_t reach_steps = 10;
  int64_t memory_mb = 2048;
  int64_t trial_steps = 0;  ///< of a trial on a copy, under GD and under CDT; 0: none
  bool forecast = false;    ///< needs validation samples
};

struct Findings {
  dynamics::Modes spectrum;
  analysis::Preflight preflight;
  std::string text;
  double kernel_seconds = 0;  ///< for the kernel and its eigendecomposition
};

/// The kernel of the problem's network on its training samples, and what it says.
Findings analyze_problem(const Problem& problem, const AnalysisOptions& options, bool quiet);

/// Short trials under gradient descent and under CDT, on a copy of the parameters: how long the
/// local model may be believed. Labels y [n], float64.
std::vector<analysis::TrialFindings> run_trials(const kernel::Model& model, const torch::Tensor& x,
                                                const torch::Tensor& y,
                                                const dynamics::Modes& spectrum,
                                                const analysis::Preflight& preflight,
                                                int64_t steps);

/// Outputs (samples × targets) beyond which a kernel is not computed unasked.
inline constexpr int64_t kLargestKernel = 4000;

}  // namespace cdt::cli
