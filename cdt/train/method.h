/// A training method: one step from a forward pass. The library's are sources in methods/ and rows
/// of method_table.cpp; your own goes to training by value (MethodTraits, docs/cpp.md).
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>
#include <cdt/train/result.h>
#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

#include <functional>
#include <optional>

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

}  // namespace cdt::train
