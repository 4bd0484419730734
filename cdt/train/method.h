/// A training method: takes one step from a forward pass. The library's methods are sources in
/// methods/ and rows of method_table.cpp; pass your own to training by value (MethodTraits,
/// docs/cpp.md).
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

/// The outcome of one step.
struct Advance {
  std::optional<Outcome> end;  ///< if no step was taken: why the run ends
  std::optional<Pass> next;    ///< the next step's pass, if one was made to judge this step
};

/// A step of the paper's method, which is applied without a check: the steered gradient ∂L/∂ŷ.
struct Steered {
  torch::Tensor seed;  ///< [n], float64, without the learning rate
  /// Computes y_u, up to sign and shape. Evaluated only on request, since no step needs it. Empty:
  /// labels are not augmented.
  std::function<torch::Tensor()> augment;
};

/// A heading that is linear in the error: M(ŷ − y).
struct LinearHeading {
  torch::Tensor matrix;  ///< M [n, n], float64; undefined: c_L I
};

/// Steps on all samples that perform the same device operations whatever the numbers. The host need
/// not read results between them (stride.h).
class BlindSteps {
 public:
  virtual ~BlindSteps() = default;

  /// How many steps from step k on are blind; 0: an ordinary step must come first.
  virtual int64_t left(int64_t step) const = 0;
  /// The heading for outputs ŷ [b, n_L]; reads nothing from the device. Apart from the outputs, it
  /// uses only tensors that stay unchanged until the next linearization.
  virtual Steered heading(const torch::Tensor& outputs, const torch::Tensor& labels) = 0;
  /// The same as a matrix, if the heading is linear: then the headings of several runs can be
  /// computed by one batched product (together.h).
  virtual std::optional<LinearHeading> linear() { return std::nullopt; }
  /// α_k
  virtual double rate(int64_t step) const = 0;
  /// Call after step k was taken.
  virtual void took(int64_t) {}
};

class StepMethod {
 public:
  virtual ~StepMethod() = default;

  /// Takes step k from `pass`, which it may consume, and records rate, augment and other values in
  /// `row`.
  virtual Advance advance(int64_t step, Pass& pass, StepRecord& row) = 0;
  /// Supplies the kernel of the current parameters on all training samples, if the caller has it.
  /// Called before the first step of runs on all samples with a quadratic loss.
  virtual void adopt(const dynamics::Modes&) {}

  /// What the method adds to the objective at the current parameters.
  virtual double penalty() const { return 0; }

  /// The caller has changed the model since the last step.
  virtual void distrust() {}

  /// For methods with a guard: use this share of the rates from now on.
  virtual void damp(double) {}

  /// The blind steps of this method, if it has any; owned by the method.
  virtual BlindSteps* blind() { return nullptr; }

  virtual double learning_rate() const = 0;  ///< α at the first step; NaN before
  virtual int64_t linearizations() const { return 0; }
  virtual FormUsed form() const { return {}; }

  /// Prepares step k from `pass`, as `advance` will take it, so that the certificate is available.
  virtual void prepare(int64_t, const Pass&, StepRecord&) {}
  /// Certificate of the current controller, or of the last one; empty before the first. Given the
  /// kernel Θ of its linearization, all numbers are computed.
  virtual control::Certificate certificate(const torch::Tensor&) const { return {}; }
  virtual int64_t rejected() const { return 0; }

  /// Saves the state that persists between steps.
  virtual void save(SavedState& state) const = 0;
  /// @throws InvalidArgument if the state belongs to another method.
  virtual void restore(const SavedState& state) = 0;
};

}  // namespace cdt::train
