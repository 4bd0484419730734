/// Options of a training run: method, rate, schedule, control, stopping.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/loss_linearization.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cdt::train {

class StepMethod;
class RidgeForm;
struct Setup;
struct RidgeProblem;
struct RidgeOptions;
struct FormSizes;
struct FormCost;

/// A row of a table: one of the library's, by its name, or your own.
template <class Traits>
class Named {
 public:
  /// @throws InvalidArgument if the table has no such name; the message lists its names.
  Named(std::string_view name) {
    for (const Named& row : all()) {
      if (row.name() == name) traits_ = row.traits_;
    }
    CDT_REQUIRE(traits_, Traits::kWhat, " must be one of ", c10::Join(", ", names()), ", got '",
                name, "'");
  }
  Named(const char* name) : Named(std::string_view(name)) {}
  Named(const std::string& name) : Named(std::string_view(name)) {}
  Named(Traits own) : traits_(std::make_shared<const Traits>(std::move(own))) {}

  const std::string& name() const { return traits_->name; }
  const Traits& operator*() const { return *traits_; }
  const Traits* operator->() const { return traits_.get(); }
  friend bool operator==(const Named& a, const Named& b) { return a.name() == b.name(); }

  /// The rows of the library's table.
  static const std::vector<Named>& all() { return Traits::table(); }
  static std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const Named& row : all()) found.push_back(row.name());
    return found;
  }
  /// "a: summary. b, c: summary", for --help.
  static std::string summaries() {
    std::string text;
    for (size_t i = 0; i < all().size(); ++i) {
      const std::string& summary = all()[i]->summary;
      const bool last = i + 1 == all().size();
      const bool shared = !last && all()[i + 1]->summary == summary;
      text += all()[i].name() + (shared ? ", " : ": " + summary + (last ? "" : ". "));
    }
    return text;
  }

 private:
  std::shared_ptr<const Traits> traits_;
};

template <class Traits>
std::string to_string(const Named<Traits>& row) {
  return row.name();
}

/// Properties of a training method, known without running it. A method of the library is a source
/// in methods/ and a row in method_table.cpp; programs pass their own by value.
struct MethodTraits {
  std::string name;
  std::string summary{};          ///< for --help
  bool controlled = false;        ///< steers labels, so it needs the kernel
  bool guarded = false;           ///< checks its steps, and relinearizes when needed
  bool solves = false;            ///< may solve its steps with TrainOptions::form
  bool path = false;              ///< a step is a point of a decay path, without a learning rate
  bool gradients = false;         ///< uses gradients of parameters (Pass::gradients)
  bool blind = false;             ///< has BlindSteps, so sweeps can train runs together
  bool balances = false;          ///< uses q and p
  bool designed = false;          ///< uses TrainOptions::design
  bool follows_forecast = false;  ///< takes rate, p and steps from the pre-flight forecast
  /// Where weights of samples and outputs apply: nowhere, the controller's Q, or the objective.
  enum class Weights { kNone, kCost, kObjective } weights = Weights::kNone;
  /// Default α, in units of 1/(c_L λ_max) if `by_curvature`.
  double start_rate = 0;
  bool by_curvature = true;
  std::function<std::unique_ptr<StepMethod>(std::shared_ptr<const Setup>)> make{};

  static constexpr const char* kWhat = "method";
  static const std::vector<Named<MethodTraits>>& table();
};
/// "gd", "cdt", "guarded", …. Methods with equal names compare equal.
using Method = Named<MethodTraits>;

/// α_k = α·factor(k). The controller is designed for the undecayed α, as in the paper.
struct Schedule {
  enum class Kind {
    kConstant,
    kInverse,      ///< 1/(1 + decay·k); the paper uses decay = 0.01
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

/// When the kernel is recomputed.
struct Relinearization {
  enum class Kind {
    kNever,  ///< the paper's choice: once, before training
    kEvery,  ///< every `period` steps
    kKc,     ///< when the local model exceeds its exponential bound minus the Lagrange error (paper
             ///< App. boundedness); costs at most `curvature_products` per kernel and one
             ///< Jacobian-vector product per step
    kError,  ///< when ‖ŷ − ŷ_ϑ‖ > `tolerance`·‖e(k₀)‖; costs one Jacobian-vector product per step
    kGuard,  ///< when the guard finds that a step achieved too little of its predicted descent
  };
  Kind kind = Kind::kNever;
  int64_t period = 0;
  double tolerance = 0;
};
/// "never", "every:N", "kc", "error:TOL" or "guard".
Relinearization parse_relinearization(std::string_view text);
std::string to_string(const Relinearization& policy);

/// The default first α of a method. `unit` is the largest rate at which plain descent does not
/// oscillate, 1/(c_L λ_max) for quadratic losses.
double start_rate(const Method& method, double unit);

/// A solver for steps of the decay path, or of a guarded run at its default rate (forms/ridge.h).
/// Each is a source in forms/ and a row in forms/form_table.cpp.
struct FormTraits {
  std::string name;
  std::string summary{};    ///< for --help
  bool open = false;        ///< one of the others is chosen, by operation count and memory
  bool one_kernel = false;  ///< needs the kernel of all rows, which ranks cannot share
  bool sketches = false;    ///< uses the kernel of some rows
  bool products = false;    ///< uses products with the kernel, and no matrix
  bool batches = false;     ///< processes one batch after another; the guard judges epochs
  std::function<FormCost(const FormSizes&)> cost{};
  std::function<std::unique_ptr<RidgeForm>(const RidgeProblem&, const RidgeOptions&)> make{};

  static constexpr const char* kWhat = "form";
  static const std::vector<Named<FormTraits>>& table();
};
/// "auto", "dual", "primal", "free", "sketch" or "batch".
using Form = Named<FormTraits>;

/// Which solver computed the steps, and why.
struct FormUsed {
  Form form = "auto";  ///< auto: no solver was used
  std::string why;
};

/// The decays τ of a path. τ starts at `start` times the mean eigenvalue of the kernel, where the
/// network hardly moves, and falls by `factor` with each point. Under --form batch a point is an
/// epoch, which moves the network further than one step does: with B batches τ starts at `start`/B,
/// but not below min(`start`, 1).
struct PathOptions {
  double start = 50;
  double factor = 0.6;
};

struct TrainOptions {
  Method method = "guarded";
  /// A quadratic loss, or the cross entropy of logits against labels that are distributions. The
  /// absolute error has no curvature: only methods without a controller accept it.
  loss::LossPtr loss = loss::mse();
  /// ε of the cross entropy: training uses (1 − ε)y + ε/C; reported losses are against y. Default:
  /// 0.1 for `cdt` and `guarded`, which need a finite equilibrium, otherwise 0.
  std::optional<double> smoothing;
  /// α. Default: start_rate; `guarded` recomputes it at each linearization.
  std::optional<double> learning_rate;
  Schedule schedule;
  double q = 1.0;  ///< weight on errors
  double p = 0.1;  ///< weight on label augments
  /// The controller of `cdt`: a name in control::designs().
  std::string design = "lqr";
  /// Your own controller for `cdt` and `guarded`, made for each linearization, instead of the one
  /// that q, p and shape define. Supports quadratic losses with or without weights, and classes
  /// without weights (docs/cpp.md). Empty: the library's controller.
  control::ControllerFactory controller{};
  /// Spectral shaping: scales q by λ/(λ + shape·λ_max), which lowers the weight of modes with λ far
  /// below shape·λ_max, where noise is learned. 0: none.
  double shape = 0;
  /// Default: guard for `guarded`, never for `cdt`.
  std::optional<Relinearization> relinearize;
  /// For the policy kc: limit on products with second derivatives to estimate the norm of ∂²ŷ/∂θ²
  /// (kernel/curvature.h); 0: default.
  int64_t curvature_products = 0;
  PathOptions path;    ///< for methods that follow a decay path
  Form form = "auto";  ///< solver for path steps, and for guarded steps at their default rate
  /// For classes without weights, --form auto solves steps by a form if the kernel has more modes
  /// than this: a controller needs all modes.
  int64_t most_modes = 5000;
  double weight_decay = 0;  ///< adds ½·weight_decay·‖θ‖² to the objective
  int64_t batch = 0;        ///< samples per step; 0: all, or the default size under --form batch
  bool reshuffle = false;  ///< new batches each epoch; otherwise they recur, with their controllers
  uint64_t seed = 1;       ///< of the batches

  int64_t steps = 1000;
  double stop_loss = 0;    ///< stop at this training loss; with smoothed labels also if the loss is
                           ///< at most this far above its minimum
  int64_t patience = 0;    ///< stop after N steps without a better validation loss, and restore the
                           ///< best weights; 0: off
  int64_t plateau = 0;     ///< stop after N steps without a training loss lower by 0.01 %; 0: off
  double max_seconds = 0;  ///< wall time; 0: no limit
  int64_t validate_every = 1;               ///< steps between evaluations of the validation loss
  bool linearization_error = false;         ///< record ‖ŷ − ŷ_ϑ‖ at every step
  int64_t memory_bytes = int64_t{2} << 30;  ///< for the kernel, and for stored controllers of
                                            ///< batches
  double checkpoint_seconds = 30;           ///< between checkpoints
};

/// @throws InvalidArgument if a number is out of range or options contradict each other (policy
///   `guard` without a guard, control options for a method without a controller or a loss without
///   curvature).
void require_valid(const TrainOptions& options);

/// Whether a guarded run only has to reach the minimum: it has no prescribed rate, no weight decay,
/// and nothing that needs all modes of the kernel or observes the local model. A form may then
/// solve its steps.
bool only_arrives(const TrainOptions& options);

/// The effective ε: 0 for losses without smoothing.
double smoothing_of(const TrainOptions& options);

}  // namespace cdt::train
