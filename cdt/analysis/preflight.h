/// The pre-flight analysis: what can be said of a network and its data before training, from the
/// kernel, or from products with it where it is too large to be formed.
///
/// A number that may be exact or bounded is a control::Known; one that is estimated is a
/// dynamics::TraceEstimate, with its standard error.
#pragma once

#include <cdt/analysis/reachability.h>
#include <cdt/analysis/stability.h>
#include <cdt/analysis/validity.h>
#include <cdt/control/controller.h>
#include <cdt/control/forecast.h>
#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/dynamics/kernel_result.h>
#include <cdt/dynamics/quadrature.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/loss/loss.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cdt::analysis {

struct PreflightOptions {
  double learning_rate = 0.1;
  /// Chooses the learning rate instead. `near` is the largest rate at which no mode of descent
  /// oscillates near the outputs; `anywhere` the same whatever the outputs are, 0 if the curvature
  /// of the loss has no bound. Quadratic losses have one rate, and both are that.
  std::function<double(double near, double anywhere)> choose_rate{};
  loss::LossPtr loss = loss::mse();
  double q = 1.0;
  double rho = 0.1;
  std::string design = "lqr";  ///< the controller that is examined: a name in control::designs()
  double smoothing = loss::kUsualSmoothing;  ///< label smoothing ε of classes
  /// n_L. 0: as labels or outputs [r, n_L], or the rows of the inputs, have it. It must be given
  /// where none of them does: to which sample a row of Θ belongs depends on it.
  int64_t outputs_per_sample = 0;
  std::optional<torch::Tensor> labels;  ///< y [r, n_L] or [n]
  /// ŷ before training, likewise; with the labels it gives the error.
  std::optional<torch::Tensor> outputs;
  std::optional<torch::Tensor> inputs;  ///< [r, …], for the condition on the inputs
  int64_t reach_steps = 10;             ///< f of the finite-step label reachability
  /// Whether to compute the residual of the Riccati equation: three products of matrices [n, n].
  bool residual = false;
  /// Type of the parameters behind Θ. Its rounding decides which modes count as null.
  torch::ScalarType network_dtype = torch::kFloat32;
};

/// The eigenvalues of the loop's kernel: of Θ for quadratic losses, of H^½ΘH^½ for others.
struct Spectrum {
  control::Known largest;
  control::Known smallest;  ///< as computed; rounding may leave it slightly negative
  double rank_tolerance = 0;
};

/// Learning rates of gradient descent.
struct Rates {
  control::Known stable;    ///< 2/(c_L λ_max): beyond it gradient descent diverges
  control::Known monotone;  ///< 1/(c_L λ_max): beyond it the fastest mode oscillates
  /// Under a loss that is not quadratic: stable below it whatever the outputs are; 0 if the
  /// curvature has no bound.
  double everywhere = 0;
  std::optional<double> lyapunov;  ///< lyapunov_lr_max; needs labels and outputs
  std::vector<RateRow> others;     ///< from a tenth of the rate examined to a hundred times it
};

/// The effect of labels, and the samples that they do not move.
struct Reach {
  std::optional<Stabilizability> stabilizability;  ///< needs labels and outputs, or full rank
  std::vector<Conflict> conflicts;
  std::optional<InputCondition> inputs;
  int64_t steps = 0;
  /// √Σ‖y_u‖² of the smallest sequence of augments that reaches the labels in `steps`, if one does.
  std::optional<double> size;
  std::optional<double> label_norm;  ///< ‖y‖, to compare it with
};

/// ŷ(k + 1) = ŷ(k) means αΘg = 0, g = ∂L/∂ŷ. The paper's four cases, the most telling first.
struct Equilibrium {
  enum class Kind {
    kNone,         ///< the next step moves the outputs
    kLossMinimum,  ///< g = 0: nothing left to learn
    kFrozen,       ///< α = 0
    kNullKernel,   ///< Θ = 0: no parameter moves any output
    kNullSpace,    ///< g ≠ 0 lies in the kernel's null space: what is left cannot be learned
  };
  Kind kind = Kind::kNone;
  double movement = 0;        ///< α‖Θg‖: how far the next step moves the outputs
  std::vector<int64_t> rows;  ///< samples that carry the gradient, ascending; of kNullSpace alone

  void fields(Fields& f);
};

std::string to_string(Equilibrium::Kind kind);

/// The outputs before training.
struct State {
  std::optional<double> loss;
  std::optional<Equilibrium> equilibrium;  ///< needs labels and outputs
  double mae_radius = 0;                   ///< stability.h
};

/// Kernel regression with each row left out in turn: mean squares of errors, in units of the
/// labels.
struct LeaveOneOut {
  double decay = 0;    ///< τ, the best of a grid from 10⁻⁶ to 10² mean eigenvalues
  double freedom = 0;  ///< tr Θ(Θ + τI)⁻¹, the effective number of parameters there
  double error = 0;    ///< of rows that were left out
  double fitted = 0;   ///< of the same rows where they were learned
  double mean = 0;     ///< of the mean of the other labels, the simplest model
  double outputs = 0;  ///< of the network's outputs as they are

  double r2() const { return mean > 0 ? 1 - error / mean : 0; }
  /// For the present outputs: hardly above 0 for a network that has not seen the labels. One
  /// that has carries them in outputs and kernel, and leaving a row out does not take it away.
  double outputs_r2() const { return mean > 0 ? 1 - outputs / mean : 0; }
  void fields(Fields& f);
};

/// The best of a forecast, and the best that gradient descent alone would do.
struct ForecastFindings {
  control::ForecastPoint best;
  std::optional<control::ForecastPoint> best_descent;
  control::Sensitivity sensitivity;  ///< zeros without controlled candidates

  void fields(Fields& f);
};

ForecastFindings summarize(const control::Forecast& forecast);

/// Expectations of training. The caller has the network and the validation samples, and adds trials
/// and the forecast.
struct Outlook {
  std::optional<LeaveOneOut> left_out;  ///< needs labels, outputs, and one output a sample
  std::vector<TrialFindings> trials;    ///< of gradient descent and CDT
  std::optional<ForecastFindings> forecast;

  /// The trial to report first: that of CDT, else any; null if there is none.
  const TrialFindings* leading_trial() const;
};

/// Findings under a loss that is not quadratic.
struct Curvature {
  std::optional<double> smoothing;    ///< of class labels; none: the outputs are no classes
  int64_t flat = 0;                   ///< samples without curvature: descent moves them, blindly
  std::vector<std::string> warnings;  ///< of classes that no training row has
};

/// tr Θ(Θ + τI)⁻¹, the effective number of parameters at a decay τ.
struct FreedomAt {
  double decay = 0;  ///< τ, in units of the mean eigenvalue
  dynamics::TraceEstimate freedom;

  void fields(Fields& f);
};

/// How many eigenvalues lie within a decade below λ_max.
struct Decade {
  double from = 0;  ///< in units of λ_max; the decade ends at ten times that
  dynamics::TraceEstimate count;

  void fields(Fields& f);
};

/// Findings by products with the kernel, beside the bounds.
struct ByProducts {
  int64_t parameters = 0;
  double trace = 0;  ///< exact up to rounding
  /// (tr Θ)²/tr Θ²: how many modes share the kernel.
  dynamics::TraceEstimate effective_rank;
  std::vector<FreedomAt> freedom;
  std::vector<Decade> density;
  dynamics::TraceEstimate below;  ///< eigenvalues below the last decade
  int64_t sampled_rows = 0;       ///< whose kernel bounds the rank from below
  int64_t equal_rows = 0;         ///< rows with the inputs of an earlier one
  int64_t products = 0;           ///< of the kernel with vectors
  double seconds = 0;
};

/// The source of kernel and samples.
struct Origin {
  std::string file;
  std::vector<int64_t> lines;  ///< of the samples in it, from 1; empty: not known
  std::string kernel;          ///< how the kernel was found, one line
  double seconds = 0;          ///< for its eigendecomposition, and the kernel where the caller says
  torch::Tensor theta;         ///< Θ, where the caller keeps it
};

/// The result of a pre-flight. What an analysis could not find out is empty, or bounded.
struct Preflight {
  int64_t n = 0;  ///< coordinates of the loop: samples · outputs, of classes samples · (C − 1)
  int64_t samples = 0;
  int64_t outputs = 0;
  loss::LossPtr loss = loss::mse();
  double learning_rate = 0;
  double q = 0;
  double rho = 0;
  std::string design = "lqr";
  /// x⁺ = x − S(x − u) at the rate examined, in coordinates in which S is symmetric. It knows all
  /// modes, or leading ones.
  std::optional<control::Plant> plant;
  Spectrum spectrum;
  Stability stability;  ///< of gradient descent
  Rates rates;
  Reachability reachability;
  Reach reach;
  State state;
  Outlook outlook;
  /// The controller that will train, where `acts` says so (`promise`), or another design than lqr;
  /// else the paper's, lqr with q and p (`usual_controller`).
  control::Certificate controller;
  bool acts = false;
  std::optional<Curvature> curvature;  ///< under losses that are not quadratic
  std::optional<ByProducts> products;  ///< where the kernel was too large to be formed
  Origin origin;

  /// The speed-up of slow modes, minus 1: √(1 + q/ρ) − 1 for the paper's controller.
  double gain_slow_modes() const;
  /// Writes what docs/formats.md lists; a pre-flight is not read back.
  void fields(Fields& f);
};

/// Analyses Θ [n, n] with its spectrum, under a quadratic loss. O(n²) beyond it while the kernel
/// has full rank.
/// @throws InvalidArgument if shapes do not fit or leave n_L open, entries are not finite, or a
/// rate or weight is not positive.
Preflight analyze(const torch::Tensor& theta, const dynamics::Modes& modes,
                  const PreflightOptions& options);

/// Analyses Θ [n, n] under any loss with curvature, O(n³). Losses that are not quadratic need
/// labels and outputs [r, n_L]: the numbers are of their curvature. That is the mean curvature from
/// the outputs to the equilibrium of class labels, and the curvature at the outputs of other losses
/// (docs/explanation/mathematics.md).
/// @throws InvalidArgument likewise, or if the loss has no curvature.
Preflight analyze(const torch::Tensor& theta, const PreflightOptions& options);

/// Analyses the result of kernel::empirical_ntk, with its outputs, shape and precision.
template <dynamics::KernelResult K>
Preflight analyze(const K& kernel, PreflightOptions options) {
  options.outputs = kernel.outputs;
  options.network_dtype = kernel.network_dtype;
  return analyze(kernel.theta, options);
}

/// A kernel [n, n] that is too large to be formed.
struct ProductKernel {
  int64_t samples = 0;
  int64_t outputs = 0;     ///< n_L
  int64_t parameters = 0;  ///< no more than so many directions can be reached
  double trace = 0;
  dynamics::KernelProduct times;  ///< ΘV [n, k], float64
  torch::Tensor part;             ///< Θ of the first samples, float64: it bounds the rank
  int64_t equal_rows = 0;         ///< samples with the inputs of an earlier one
  torch::ScalarType network_dtype = torch::kFloat32;
  torch::Device device = torch::kCPU;
  std::function<void(int64_t done, int64_t total)> progress;  ///< in products
};

/// Analyses a kernel by some 200 products with it, under a quadratic loss: numbers are bounded or
/// estimated. The same kernel gives the same numbers.
/// @throws InvalidArgument if the loss is not quadratic.
Preflight analyze(const ProductKernel& kernel, const PreflightOptions& options);

/// The paper's controller, at the rate examined.
control::ModalController usual_controller(const Preflight& preflight);
/// The controller of the preflight's design, at that rate.
std::unique_ptr<control::Controller> examined_controller(const Preflight& preflight);

/// Keeps the certificate of the controller that will train, unless it is empty.
void promise(Preflight& preflight, const control::Certificate& controller);

/// A page of text: the verdicts first, then what they mean and what to do.
std::string to_text(const Preflight& preflight);

/// One JSON object with stable names (docs/formats.md). Infinite numbers are null; so is what could
/// not be known (`stabilizable` without labels and outputs).
std::string to_json(const Preflight& preflight);

}  // namespace cdt::analysis
