/// A training method: one step from a forward pass. A new one is a file in methods/ and a line in
/// the table of method_table.cpp (and its enumerator in options.h).
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>
#include <cdt/train/result.h>
#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

#include <functional>
#include <optional>
#include <span>

namespace cdt::train {

/// What came of a step.
struct Advance {
  std::optional<Outcome> end;  ///< there is no step to take from here: why
  std::optional<Pass> next;    ///< the pass of the next step, if one was made to judge this one
};

/// What the paper's method applies without asking: the gradient ∂L/∂ŷ, steered.
struct Steered {
  torch::Tensor seed;  ///< [n], float64, without the rate
  /// y_u, up to its sign and shape; made when it is asked for, since no step waits for it. Empty:
  /// labels are as they are.
  std::function<torch::Tensor()> augment;
};

/// A heading that is a product with the error: M(ŷ − y).
struct LinearHeading {
  torch::Tensor matrix;  ///< M [n, n], float64; undefined: c_L I
};

/// Steps that are the same operations on the device whatever the numbers, all samples at once:
/// no look in between is needed (stride.h).
class BlindSteps {
 public:
  virtual ~BlindSteps() = default;

  /// How many from step k on are so; 0: an ordinary step must come first.
  virtual int64_t left(int64_t step) const = 0;
  /// From outputs ŷ [b, n_L]; reads nothing. What it uses but the outputs is the same until there
  /// is another linearization.
  virtual Steered heading(const torch::Tensor& outputs, const torch::Tensor& labels) = 0;
  /// The heading in numbers, where it is such a one: so that headings of several runs can be one
  /// product (together.h).
  virtual std::optional<LinearHeading> linear() { return std::nullopt; }
  /// α_k
  virtual double rate(int64_t step) const = 0;
  /// Step k was taken.
  virtual void took(int64_t) {}
};

class StepMethod {
 public:
  virtual ~StepMethod() = default;

  /// Takes step k from `pass`, which it may use up, and notes rate, augment and the like in `row`.
  virtual Advance advance(int64_t step, Pass& pass, StepRecord& row) = 0;
  /// The kernel of the present parameters on all training samples, if it is known; before the
  /// first step, of a run with all samples at once and a quadratic loss.
  virtual void adopt(const dynamics::Modes&) {}

  /// What it adds to the objective at the present parameters.
  virtual double penalty() const { return 0; }

  /// Others have changed the model since its last step.
  virtual void distrust() {}

  /// From now on at this share of its rates, of a method with a guard.
  virtual void damp(double) {}

  /// Its own, of a method that has such steps; it goes with the method.
  virtual BlindSteps* blind() { return nullptr; }

  virtual double learning_rate() const = 0;  ///< α at the first step; NaN before
  virtual int64_t linearizations() const { return 0; }
  virtual FormUsed form() const { return {}; }

  /// Prepares step k from `pass`, as `advance` will take it, so that its certificate can be read.
  virtual void prepare(int64_t, const Pass&, StepRecord&) {}
  /// Certificate of the controller that acts, or acted last; empty before. The kernel Θ of
  /// its linearization, where it is known, gives all numbers.
  virtual control::Certificate certificate(const torch::Tensor&) const { return {}; }
  virtual int64_t rejected() const { return 0; }

  /// What it keeps between two steps.
  virtual void save(SavedState& state) const = 0;
  /// @throws InvalidArgument if the state is not its own.
  virtual void restore(const SavedState& state) = 0;
};

/// What is to be known of a method without running it.
struct MethodTraits {
  Method method;
  std::string_view name;
  bool controlled = false;  ///< steers labels, and so needs the kernel
  bool guarded = false;     ///< judges its steps, so that `Relinearization::Kind::kGuard` means it
  bool optimizer = false;   ///< one of LibTorch's
  bool weighs = false;      ///< takes weights of samples: in the controller's Q, or the objective
  /// Its rate, p and steps may be those that the forecast of gradient descent and CDT finds best.
  bool follows_forecast = false;
  double start_rate = 0;  ///< default α, in units of 1/(c_L λ_max) if `by_curvature`
  bool by_curvature = true;
  kernel::StepUse use = kernel::StepUse::kDescent;
  std::unique_ptr<StepMethod> (*make)(std::shared_ptr<const Setup> setup) = nullptr;
};

std::span<const MethodTraits> methods();
/// @throws InvalidArgument if the table has no such method.
const MethodTraits& traits_of(Method method);

}  // namespace cdt::train
