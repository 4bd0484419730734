/// The learning rate of methods without a controller: as told, or from the kernel's largest
/// eigenvalue.
#pragma once

#include <cdt/dynamics/modes.h>
#include <cdt/train/history.h>
#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

#include <functional>

namespace cdt::train {

/// λ_max of a symmetric positive semidefinite operator, and how well it is known.
struct LargestEigenvalue {
  double value = 0;  ///< a Ritz value: never above λ_max, but for rounding
  double residual = 0;  ///< ‖Av − value·v‖: an eigenvalue lies as close, and λ_max to second order
  int64_t products = 0;  ///< with the operator
};
/// By Lanczos' method with full orthogonalization from a seeded random vector [n] (which no
/// eigenvector of the kernel is orthogonal to, as ones are to outputs that sum to zero), until the
/// residual is below `tolerance` of the value or after so many products.
LargestEigenvalue largest_eigenvalue(
    const std::function<torch::Tensor(const torch::Tensor&)>& product, int64_t n,
    const torch::TensorOptions& options, double tolerance, int64_t most_products);

/// λ_max of the model's kernel on x: of the kernel itself (to 10⁻⁶ and better, for the error is of
/// second order), where it fits `memory_bytes` and has at most 4000 rows; else of the operator,
/// some dozens of passes, to about 10⁻³ where its modes are apart, never too large.
double largest_kernel_eigenvalue(const kernel::Model& model, const torch::Tensor& x,
                                 int64_t outputs, int64_t memory_bytes);

/// The rate α of a run without a controller.
class BaseRate {
 public:
  /// `boost` times what it would be otherwise.
  explicit BaseRate(double boost = 1) : boost_(boost) {}

  /// The kernel's modes before the first step, if somebody has them.
  void adopt(const dynamics::Modes& modes) { largest_ = modes.largest(); }
  /// α, found at the first call, which is that of the first step.
  double at(const Setup& setup, const Pass& pass);
  double value() const { return value_; }  ///< NaN before

  void save(SavedState& state) const { state.values["learning_rate"] = value_; }
  void restore(const SavedState& state) { value_ = state.number("learning_rate"); }

 private:
  double boost_;
  double value_ = kUnknown;
  std::optional<double> largest_;
};

}  // namespace cdt::train
