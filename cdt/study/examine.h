/// The pre-flight of a network and its data (analysis/preflight.h).
#pragma once

#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/kernel/ntk.h>
#include <cdt/study/problem.h>
#include <cdt/train/trainer.h>

#include <functional>

namespace cdt::study {

/// What an analysis needs to know beside network and data.
struct AnalysisOptions {
  loss::LossPtr loss = loss::mse();
  std::optional<double> learning_rate;  ///< default: what `method` would take
  train::Method method = train::Method::kGd;
  double p = 0.1;
  double q = 1.0;
  double smoothing = control::kUsualSmoothing;  ///< of class labels
  int64_t reach_steps = 10;
  int64_t memory_bytes = int64_t{2} << 30;
  int64_t trial_steps = 0;  ///< of a trial on a copy, under GD and under CDT; 0: none
  /// For a trial: products with second derivatives for the norm of ∂²ŷ/∂θ², at most; 0: the usual
  /// number (kernel/curvature.h).
  int64_t curvature_products = 0;
  /// The residual of the paper's controller; false where another one will promise instead.
  bool residual = true;
  bool forecast = false;                                      ///< needs validation samples
  std::function<void(int64_t done, int64_t total)> progress;  ///< of the kernel, in blocks

  /// The rate that is looked at, where `unit` is the one at which the fastest mode is gone in a
  /// step. Points of a path have none: then it is that of guarded steps, which solve the same.
  double examined_rate(double unit) const;
};

/// What the training would be analysed with.
AnalysisOptions analysis_of(const train::TrainOptions& training);

/// The kernel of a model on its training samples, and what it says. O(n³) in the n outputs of all
/// samples together. Labels are [r, n_L], float64 (train::prepare).
/// @throws InvalidArgument if the loss has no curvature, or a forecast is asked for without
///   validation samples or under a loss that is not quadratic, which has no closed form.
analysis::Preflight analyze(const kernel::Model& model, const train::TrainData& data,
                            const AnalysisOptions& options);
/// Its two halves: the kernel, and what it says. The second asks the model only for trials and a
/// forecast; `origin.seconds` are those of the eigendecomposition.
kernel::Ntk start_kernel(const kernel::Model& model, const train::TrainData& data,
                         const AnalysisOptions& options);
analysis::Preflight analyze(const kernel::Model& model, const kernel::Ntk& ntk,
                            const train::TrainData& data, const AnalysisOptions& options);
/// The same of a problem's network, with its lines, conflicts and classes.
analysis::Preflight analyze(const Problem& problem, const AnalysisOptions& options);
/// The same of more rows than a kernel can have, by products with it, within
/// options.memory_bytes. Without trials and forecast.
/// @throws InvalidArgument if the loss is not quadratic.
analysis::Preflight analyze_by_products(const Problem& problem, const AnalysisOptions& options);

/// Makes the controller of the first step, and takes what it promises for the pre-flight's own.
/// Where the training has none, the pre-flight says what the paper's would do.
void promise(analysis::Preflight& preflight, train::Trainer& trainer,
             const train::TrainOptions& training);

/// Why training with these options goes without an analysis, unless someone asks for it: batches, a
/// kernel that takes longer than 15 s or more than the memory, a loss without curvature. Empty:
/// nothing is in the way.
std::string reason_to_skip(const Problem& problem, const train::TrainOptions& training);

/// Short trials under gradient descent and under CDT, on a copy of the parameters: how long the
/// local model may be believed. Labels y [n], float64.
std::vector<analysis::TrialFindings> run_trials(const kernel::Model& model, const torch::Tensor& x,
                                                const torch::Tensor& y,
                                                const analysis::Preflight& preflight, int64_t steps,
                                                int64_t curvature_products);

/// What the forecast advises: rate, weight, and where to stop.
struct Tuning {
  double learning_rate = 0;
  std::optional<double> p;  ///< none: plain descent did best
  int64_t steps = 0;
  double validation_loss = 0;  ///< that it expects there

  void fields(Fields& f) {
    f.need("lr", learning_rate);
    f("p", p);
    f.need("steps", steps);
    f("val_loss", validation_loss);
  }
};

/// The best place of the forecast for a method: of descent alone for one without control.
/// @throws InvalidArgument if the pre-flight has no forecast.
Tuning best_tuning(const analysis::Preflight& preflight, train::Method method);

}  // namespace cdt::study
