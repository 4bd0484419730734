/// The pre-flight of a network and its data: one for quadratic losses, for the cross entropy, and
/// for others that have curvature.
#pragma once

#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/kernel/ntk.h>
#include <cdt/loss/class_coordinates.h>
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
  std::string design = "lqr";                ///< of the controller: a name in control::designs()
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

/// What the cross entropy has beside the numbers of every loss.
struct ClassFindings {
  double smoothing = 0;
  double safe_rate = 0;  ///< 4r/λ_max(Θ): plain descent is stable below it whatever the outputs are
  double initial_loss = 0;
  std::vector<ConflictingRows> conflicts;
  std::vector<std::string> warnings;  ///< of classes that no training row has
};

/// What losses of numbers that are not quadratic have: all of it is of their curvature H at the
/// outputs before training, and holds near them.
struct CurvedFindings {
  double safe_rate = 0;  ///< 2/(c λ_max(Θ)‖H‖_max), as of classes; 0: H has no bound
  double initial_loss = 0;
  int64_t flat = 0;  ///< outputs in whose direction H is zero: descent does not see how far off
  std::vector<ConflictingRows> conflicts;
};

/// What can be said before training.
struct Findings {
  /// Of Θ; under the cross entropy of H^½ΘH^½, which counts the C − 1 coordinates of each sample
  /// that the softmax sees, scaled by the mean Hessian H of the smoothed loss from here to its
  /// equilibrium (docs/explanation/mathematics.md); under other losses of H^½ΘH^½, H/c = ∂²ℓ/∂ŷ²
  /// here.
  dynamics::Modes modes;
  /// Θ, which the controller that will train is held against; undefined once it was.
  torch::Tensor theta;
  /// Under the cross entropy of the loop in logits: n = r(C − 1), and nothing that needs quadratic
  /// losses (stabilizability, conflicts between samples, `findings`). Under other losses of the
  /// loop in x = H^½(ŷ − ŷ_e), likewise.
  analysis::Preflight preflight;
  std::optional<ClassFindings> classes;  ///< under the cross entropy
  std::optional<CurvedFindings> curved;  ///< under other losses that are not quadratic
  std::string source;                    ///< the file of the samples
  std::vector<int64_t> lines;            ///< of the samples in it
  std::string kernel;                    ///< how the kernel was found, one line
  double kernel_seconds = 0;             ///< for the kernel and its eigendecomposition
};

/// The kernel of a model on its training samples, and what it says. O(n³) in the n outputs of all
/// samples together. Labels are [r, n_L], float64 (train::prepare).
/// @throws InvalidArgument if the loss has no curvature, or a forecast is asked for without
///   validation samples or under a loss that is not quadratic, which has no closed form.
Findings analyze(const kernel::Model& model, const train::TrainData& data,
                 const AnalysisOptions& options);
/// Its two halves: the kernel, and what it says. The second asks the model only for trials and a
/// forecast; its `kernel_seconds` are those of the eigendecomposition.
kernel::Ntk start_kernel(const kernel::Model& model, const train::TrainData& data,
                         const AnalysisOptions& options);
Findings analyze(const kernel::Model& model, const kernel::Ntk& ntk, const train::TrainData& data,
                 const AnalysisOptions& options);
/// The same of a problem's network; the findings know its lines, conflicts and classes.
Findings analyze(const Problem& problem, const AnalysisOptions& options);

/// Makes the controller of the first step, and takes what it promises for the findings' own; where
/// the training has none, they say what the paper's would do.
void promise(Findings& findings, train::Trainer& trainer, const train::TrainOptions& training);

/// Why training with these options goes without an analysis, unless someone asks for it: batches, a
/// kernel that takes longer than 15 s or more than the memory, a loss without curvature. Empty:
/// nothing is in the way.
std::string reason_to_skip(const Problem& problem, const train::TrainOptions& training);

/// A page of text: the verdicts first, then what they mean and what to do.
std::string to_text(const Findings& findings);
/// One JSON object with the names of docs/formats.md.
std::string to_json(const Findings& findings);

/// Short trials under gradient descent and under the preflight's controller, on a copy of the
/// parameters: how long the local model may be believed. Labels y [n], float64.
std::vector<analysis::TrialFindings> run_trials(const kernel::Model& model, const torch::Tensor& x,
                                                const torch::Tensor& y,
                                                const dynamics::Modes& modes,
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
/// @throws InvalidArgument if the findings have no forecast.
Tuning best_tuning(const Findings& findings, const train::Method& method);

}  // namespace cdt::study
