/// The learning rate of methods without a controller: as given, or from the kernel's largest
/// eigenvalue.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/lanczos.h>
#include <cdt/train/history.h>
#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

namespace cdt::train {

using dynamics::largest_eigenvalue;
using dynamics::largest_eigenvalue_by_squaring;

/// λ_max of the model's kernel on x, by Lanczos from seeded random vectors (no eigenvector is
/// orthogonal to them, whereas constant vectors are orthogonal to outputs that sum to zero). If the
/// kernel fits `memory_bytes` and has at most 4000 rows, it is formed and the result is exact up to
/// rounding; otherwise the operator is used, within that memory, to about 10⁻³. Never too large,
/// except by rounding.
double largest_kernel_eigenvalue(const kernel::Model& model, const torch::Tensor& x,
                                 int64_t outputs, int64_t memory_bytes);

/// The rate α of a run without a controller.
class BaseRate {
 public:
  /// Multiplies the default rate by `boost`.
  explicit BaseRate(double boost = 1) : boost_(boost) {}

  /// Supplies the kernel's modes before the first step, if the caller has them.
  void adopt(const dynamics::Modes& modes) { largest_ = modes.largest(); }
  /// α; computed at the first call, that of the first step.
  double at(const Setup& setup, const Pass& pass);
  double value() const { return value_; }  ///< NaN before the first step

  void save(SavedState& state) const { state.values["learning_rate"] = value_; }
  void restore(const SavedState& state) { value_ = saved_rate(state); }

 private:
  double boost_;
  double value_ = kUnknown;
  std::optional<double> largest_;
};

}  // namespace cdt::train
