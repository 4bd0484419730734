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
  train::Method method = "gd";
  double p = 0.1;
  double q = 1.0;
  std::string design = "lqr";                ///< name of the controller in control::designs()
  double smoothing = loss::kUsualSmoothing;  ///< of class labels
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

/// Computes the kernel of a model on its training samples and analyses it. O(n³) in the n outputs
/// of all samples together. Labels are [r, n_L], float64 (train::prepare).
/// @throws InvalidArgument if the loss has no curvature, or a forecast is asked for without
///   validation samples or under a loss that is not quadratic, which has no closed form.
analysis::Preflight analyze(const kernel::Model& model, const train::TrainData& data,
                            const AnalysisOptions& options);
/// The two halves of `analyze`: the kernel, and its analysis. The second half uses the model only
/// for trials and a forecast; its `origin.seconds` are those of the eigendecomposition.
kernel::Ntk start_kernel(const kernel::Model& model, const train::TrainData& data,
                         const AnalysisOptions& options);
analysis::Preflight analyze(const kernel::Model& model, const kernel::Ntk& ntk,
                            const train::TrainData& data, const AnalysisOptions& options);
/// Analyses the network of a problem. The pre-flight names its lines, conflicts and classes.
analysis::Preflight analyze(const Problem& problem, const AnalysisOptions& options);
/// Analyses more rows than a kernel can have, by products with it, within options.memory_bytes.
/// There are no trials and no forecast.
/// @throws InvalidArgument if the loss is not quadratic.
analysis::Preflight analyze_by_products(const Problem& problem, const AnalysisOptions& options);

/// Prepares the controller of the first step and keeps its certificate in the pre-flight. A
/// training without a controller leaves the certificate of the paper's controller there.
void promise(analysis::Preflight& preflight, train::Trainer& trainer,
             const train::TrainOptions& training);

/// The reason why training with these options skips the pre-flight by default: batches, a kernel
/// that takes longer than 15 s or more than the memory, or a loss without curvature. Empty: none.
std::string reason_to_skip(const Problem& problem, const train::TrainOptions& training);

/// Trains a copy of the parameters for some steps, under gradient descent and under CDT, to find
/// how long the local model holds. Labels y [n], float64.
std::vector<analysis::TrialFindings> run_trials(const kernel::Model& model, const torch::Tensor& x,
                                                const torch::Tensor& y,
                                                const analysis::Preflight& preflight, int64_t steps,
                                                int64_t curvature_products);

/// Settings that the forecast recommends.
struct Tuning {
  double learning_rate = 0;
  std::optional<double> p;  ///< none: plain descent is best
  int64_t steps = 0;
  double validation_loss = 0;  ///< expected after `steps`

  void fields(Fields& f) {
    f.need("lr", learning_rate);
    f("p", p);
    f.need("steps", steps);
    f("val_loss", validation_loss);
  }
};

/// The best point of the forecast for a method; for a method without control, that of descent.
/// @throws InvalidArgument if the pre-flight has no forecast.
Tuning best_tuning(const analysis::Preflight& preflight, const train::Method& method);

}  // namespace cdt::study
