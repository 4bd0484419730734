/// What a training run can be told: method, rate, schedule, control, stopping.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/loss_linearization.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::train {

/// Each has its line in method_table.cpp.
enum class Method {
  kGd,         ///< gradient descent at α
  kGdMatched,  ///< gradient descent at α√(1 + q/p), what CDT does to slow modes: the fair baseline
  kCdt,        ///< the paper's Algorithm 1: labels steered by a gain designed once
  kGuarded,    ///< CDT as a trust-region method in function space: every step is checked
  kMomentum,  ///< Nesterov momentum 0.9, LibTorch's
  kAdam,      ///< LibTorch's
  kLbfgs,     ///< LibTorch's, with a strong Wolfe line search; 20 iterations a step
  kPath,      ///< a path of falling decay towards the start, one guarded step a point
};
Method parse_method(std::string_view name);
/// All of them, as options and files spell them.
std::vector<std::string> method_names();
std::string to_string(Method method);
/// Whether the method steers labels, and so needs the kernel.
bool is_controlled(Method method);
/// Whether the method is one of LibTorch's optimizers.
bool is_optimizer(Method method);

/// α_k = α·factor(k). The controller is designed for the undecayed α, as in the paper.
struct Schedule {
  enum class Kind {
    kConstant,
    kInverse,      ///< 1/(1 + decay·k), the paper's with decay = 0.01
    kExponential,  ///< e^(−decay·k)
    kCosine,       ///< ½(1 + cos(πk/steps))
    kStep,         ///< decay^⌊k/period⌋
  };
  Kind kind = Kind::kConstant;
  double decay = 0.01;
  int64_t period = 100;

  /// `steps` is the length of the run.
  double factor(int64_t step, int64_t steps) const;
};
Schedule::Kind parse_schedule(std::string_view name);
std::string to_string(Schedule::Kind kind);

/// When the kernel is computed anew.
struct Relinearization {
  enum class Kind {
    kNever,  ///< the paper's choice: once, before training
    kEvery,  ///< every `period` steps
    kKc,     ///< when the local model breaks its exponential bound less the Lagrange error (paper
             ///< App. boundedness); costs `curvature_products` a kernel, at most, and a
             ///< Jacobian-vector product a step
    kError,  ///< when ‖ŷ − ŷ_ϑ‖ exceeds `tolerance`·‖e(k₀)‖; costs a Jacobian-vector product a step
    kGuard,  ///< when the guard finds that the local model promised too much
  };
  Kind kind = Kind::kNever;
  int64_t period = 0;
  double tolerance = 0;
};
/// "never", "every:N", "kc", "error:TOL" or "guard".
Relinearization parse_relinearization(std::string_view text);
std::string to_string(const Relinearization& policy);

/// The default first α of a method (method_table.cpp), `unit` being the largest at
/// which plain descent does not oscillate, 1/(c_L λ_max) for quadratic losses.
double start_rate(Method method, double unit);

/// How a step of the decay path, or of a guarded run at its own rate, is solved (ridge.h).
enum class Form {
  kAuto,    ///< by operations and memory (form_choice.h)
  kDual,    ///< the kernel of all outputs
  kPrimal,  ///< the Gram matrix of the parameters, summed over rows
  kFree,    ///< conjugate gradients, no matrix
  kSketch,  ///< conjugate gradients steered by the kernel of some rows
  kBatch,   ///< kernels of batches, one after another, with a momentum (batch_momentum.h)
};
/// "auto", "dual", "primal", "free", "sketch" or "batch".
/// @throws InvalidArgument on another name.
Form parse_form(std::string_view name);
std::string to_string(Form form);

/// How steps are solved, and why so.
struct FormUsed {
  Form form = Form::kAuto;  ///< kAuto: nothing is
  std::string why;
};

/// The decays τ of a path: they start at `start` times the mean eigenvalue of the kernel, where the
/// network has hardly moved, and fall by `factor` with each point. Under --form batch a point is an
/// epoch, whose steps go further than one: of B batches they start at `start`/B, or at 1 if that is
/// less.
struct PathOptions {
  double start = 50;
  double factor = 0.6;
};

struct TrainOptions {
  Method method = Method::kGuarded;
  /// Quadratic, or the cross entropy on logits against labels that are distributions. The absolute
  /// error has no curvature to control: for the methods without a controller only.
  loss::LossPtr loss = loss::mse();
  /// ε of the cross entropy: trained on (1 − ε)y + ε/C, while reported losses are against y.
  /// Default: 0.1 for `cdt` and `guarded`, which need a finite equilibrium, else 0.
  std::optional<double> smoothing;
  /// α. Default: start_rate, for guarded renewed with each linearization.
  std::optional<double> learning_rate;
  Schedule schedule;
  double q = 1.0;  ///< weight on errors
  double p = 0.1;  ///< weight on label augments
  /// Your own controller for `cdt` and `guarded`, made for each linearization, instead of the
  /// one that q, p and shape make; for quadratic losses with weights or without, and for classes
  /// without (docs/cpp.md). Empty: theirs.
  control::ControllerFactory controller{};
  /// Spectral shaping: modes with λ far below shape·λ_max get less of q, by the factor
  /// λ/(λ + shape·λ_max). They are where noise is learned. 0: none.
  double shape = 0;
  /// Default: guard for `guarded`, never for `cdt`.
  std::optional<Relinearization> relinearize;
  /// For the policy kc: products with second derivatives for the norm of ∂²ŷ/∂θ², at most
  /// (kernel/curvature.h); 0: the usual number.
  int64_t curvature_products = 0;
  PathOptions path;         ///< of the method of this name
  Form form = Form::kAuto;  ///< of its steps, and of guarded ones at their own rate
  /// For classes without weights --form auto begins where the kernel has more modes than this: a
  /// controller needs all of them.
  int64_t most_modes = 5000;
  double weight_decay = 0;  ///< adds ½·weight_decay·‖θ‖² to the objective
  int64_t batch = 0;        ///< samples a step; 0 takes all, under --form batch the default
  bool reshuffle = false;  ///< new batches each epoch; otherwise they recur, with their controllers
  uint64_t seed = 1;       ///< of the batches

  int64_t steps = 1000;
  double stop_loss = 0;    ///< stop at this training loss; with smoothed labels also where it is
                           ///< no further above its minimum
  int64_t patience = 0;    ///< stop after N steps without a better validation loss, and take
                           ///< the best weights; 0: off
  int64_t plateau = 0;     ///< stop after N steps without a training loss lower by 0.01 %
  double max_seconds = 0;  ///< wall time; 0: no limit
  int64_t validate_every = 1;               ///< steps between evaluations of the validation loss
  bool linearization_error = false;         ///< record ‖ŷ − ŷ_ϑ‖ at every step
  int64_t memory_bytes = int64_t{2} << 30;  ///< for the kernel, and for kept controllers of batches
  double checkpoint_seconds = 30;           ///< between checkpoints
};

/// @throws InvalidArgument if a number is out of its range, or options contradict each other (a
///   policy `guard` without a guard, control of a method that has none, control of a loss without
///   curvature).
void require_valid(const TrainOptions& options);

/// Whether a guarded run only wants to arrive: no rate to keep to, no decay, nothing that needs all
/// modes of the kernel or watches the local model. So its steps may be solved by a form.
bool only_arrives(const TrainOptions& options);

/// ε as it holds: 0 for losses that have none.
double smoothing_of(const TrainOptions& options);

}  // namespace cdt::train
