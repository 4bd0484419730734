/// The pre-flight analysis: everything that can be said before training, from the kernel and
/// perhaps labels and inputs.
#pragma once

#include <cdt/analysis/findings.h>
#include <cdt/analysis/reachability.h>
#include <cdt/analysis/stability.h>
#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/kernel_result.h>
#include <cdt/loss/loss.h>

#include <optional>

namespace cdt::analysis {

struct PreflightOptions {
  double learning_rate = 0.1;
  loss::LossPtr loss = loss::mse();
  double q = 1.0;
  double rho = 0.1;
  std::string design = "lqr";  ///< the controller that is examined: a name in control::designs()
  /// n_L. 0: as labels or outputs [r, n_L], or the rows of the inputs, have it. Where none of them
  /// tells, it must be given: to which sample a row of Θ belongs depends on it.
  int64_t outputs_per_sample = 0;
  std::optional<torch::Tensor> labels;  ///< y [r, n_L] or [n]
  /// ŷ before training, likewise; with the labels it gives the error.
  std::optional<torch::Tensor> outputs;
  std::optional<torch::Tensor> inputs;  ///< [r, …], for the condition on the inputs
  int64_t reach_steps = 10;             ///< f of the finite-step label reachability
  bool residual = false;                ///< of the Riccati equation: three matrix products more
};

struct Preflight {
  int64_t n = 0;
  int64_t samples = 0;
  int64_t outputs = 0;
  double learning_rate = 0;
  loss::LossPtr loss = loss::mse();
  double q = 0;
  double rho = 0;
  std::string design = "lqr";
  double lambda_max = 0;
  double lambda_min = 0;  ///< as computed; rounding may leave it slightly negative
  double rank_tolerance = 0;
  Stability stability;
  double lr_max = 0;       ///< 2/(c_L λ_max): beyond it gradient descent diverges
  double lr_monotone = 0;  ///< 1/(c_L λ_max): beyond it the fastest mode oscillates
  Reachability reachability;
  std::optional<Stabilizability>
      stabilizability;  ///< needs labels and outputs, unless everything is reachable
  std::vector<Conflict> conflicts;
  Margins margins;
  double radius_cdt = 0;       ///< max |1 − s(1 + k)| on the reachable subspace; 1 if it is empty
  double gain_slow_modes = 0;  ///< k(0) = √(1 + q/ρ) − 1: slow modes learn 1 + k(0) times faster
  std::optional<double> riccati_residual;  ///< if it was asked for
  std::optional<InputCondition> input_condition;
  std::optional<double> reach_size;  ///< √Σ‖y_u‖² of the smallest sequence that reaches the labels
                                     ///< in `reach_steps`, if any does
  std::optional<double> label_norm;  ///< ‖y‖, to compare it with
  int64_t reach_steps = 0;
  Findings findings;
  /// Of the controller that will train, where training is meant (`promise`), or of another design
  /// than lqr; else empty, and the numbers of controlled descent are those of the paper's
  /// controller, lqr with q and p.
  control::Certificate controller;
};

/// Takes what the controller that will train promises: radius, margins, residual and gain are its
/// own. Where a number is only bounded, it is the worse bound.
void promise(Preflight& preflight, const control::Certificate& controller);

/// Analyses Θ [n, n] with its spectrum. O(n²) beyond it while the kernel has full rank.
/// @throws InvalidArgument if shapes do not fit or leave n_L open, entries are not finite, or a
/// rate or weight is not positive.
Preflight analyze(const torch::Tensor& theta, const dynamics::Modes& modes,
                  const PreflightOptions& options);

/// The same of what kernel::empirical_ntk returns: outputs, shape and precision are the kernel's
/// own.
template <dynamics::KernelResult K>
Preflight analyze(const K& kernel, PreflightOptions options) {
  options.outputs = kernel.outputs;
  return analyze(kernel.theta, dynamics::decompose(kernel), options);
}

}  // namespace cdt::analysis
