/// What a training run can be told: method, rate, schedule, control, stopping.
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

/// A row of a table: one of the library's by its name, or one of your own.
template <class Traits>
class Named {
 public:
  /// @throws InvalidArgument on another name than those of the table; the message lists them.
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

  /// The rows of the library.
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

/// What there is to know of a training method without running it. A method of the library is a
/// source in methods/ and a row in method_table.cpp; a program passes its own by value.
struct MethodTraits {
  std::string name;
  std::string summary{};          ///< for --help
  bool controlled = false;        ///< steers labels, and so needs the kernel
  bool guarded = false;           ///< judges its steps, and renews the kernel where it must
  bool solves = false;            ///< may solve a step as TrainOptions::form says
  bool path = false;              ///< a step is a point of a decay path, without a learning rate
  bool gradients = false;         ///< takes gradients of parameters (Pass::gradients)
  bool blind = false;             ///< has BlindSteps, so that sweeps take runs together
  bool balances = false;          ///< reads q and p
  bool designed = false;          ///< takes TrainOptions::design by name
  bool follows_forecast = false;  ///< takes rate, p and steps from the forecast of the pre-flight
  /// Where weights of samples and outputs enter: nowhere, the controller's Q, or the objective.
  enum class Weights { kNone, kCost, kObjective } weights = Weights::kNone;
  /// α by default, in units of 1/(c_L λ_max) if `by_curvature`.
  double start_rate = 0;
  bool by_curvature = true;
  std::function<std::unique_ptr<StepMethod>(std::shared_ptr<const Setup>)> make{};

  static constexpr const char* kWhat = "method";
  static const std::vector<Named<MethodTraits>>& table();
};
/// "gd", "cdt", "guarded", …; equal names are equal methods.
using Method = Named<MethodTraits>;

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

/// The default first α of a method, `unit` being the largest at which plain descent does not
/// oscillate, 1/(c_L λ_max) for quadratic losses.
double start_rate(const Method& method, double unit);

/// A solver of steps: of the decay path, or of a guarded run at its own rate (forms/ridge.h). Each
/// is a source in forms/ and a row in forms/form_table.cpp.
struct FormTraits {
  std::string name;
  std::string summary{};    ///< for --help
  bool open = false;        ///< counted operations and memory choose one of the others
  bool one_kernel = false;  ///< takes the kernel of all rows, which ranks cannot share
  bool sketches = false;    ///< takes the kernel of some rows
  bool products = false;    ///< takes products with the kernel, and no matrix
  bool batches = false;     ///< takes one batch after another; the guard judges epochs
  std::function<FormCost(const FormSizes&)> cost{};
  std::function<std::unique_ptr<RidgeForm>(const RidgeProblem&, const RidgeOptions&)> make{};

  static constexpr const char* kWhat = "form";
  static const std::vector<Named<FormTraits>>& table();
};
/// "auto", "dual", "primal", "free", "sketch" or "batch".
using Form = Named<FormTraits>;

/// How steps are solved, and why so.
struct FormUsed {
  Form form = "auto";  ///< auto: none is
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
  Method method = "guarded";
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
  /// The controller of `cdt`: a name in control::designs().
  std::string design = "lqr";
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
  PathOptions path;    ///< for methods with a path
  Form form = "auto";  ///< solver of its steps, and of guarded ones at their own rate
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
