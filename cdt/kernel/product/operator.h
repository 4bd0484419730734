/// The kernel as an operator, V ↦ ΘV = J(JᵀV), and its two halves, for Lanczos and conjugate
/// gradients, without a matrix.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/replay/plan_memory.h>

#include <optional>

namespace cdt::kernel {

struct OperatorOptions {
  /// kAuto multiplies by the factors of the layer rules if they cover all parameters, fit the
  /// memory limit for all samples (computed block by block if necessary), and outputs are few; in
  /// float64, like the kernel. Otherwise, and with kGraph, products use autograd, in the network's
  /// dtype.
  enum class Path { kAuto, kGraph };
  Path path = Path::kAuto;

  /// Approximate memory limit for factors, graphs and gradients (at least those of one sample and
  /// two vectors). If the graphs of all samples fit, they are built once and kept; otherwise
  /// samples are processed in blocks, with two more forward passes per application.
  int64_t memory_bytes = int64_t{2} << 30;

  /// Dtype of the factors' self-check, and of sums over positions. float32 halves the time of a
  /// check of many samples.
  torch::ScalarType accumulate = torch::kFloat64;
};

/// Θ(x, x) of a model at its current parameters. Neither these nor x may change during its
/// lifetime. Samples must not influence each other (Model).
class NtkOperator {
 public:
  /// @throws InvalidArgument and NumericalError as evaluate() does, if a layer is in training mode,
  ///   or if no parameter influences the outputs.
  NtkOperator(Model model, torch::Tensor x, const OperatorOptions& options = {});

  /// ΘV, for a vector [n] or a block of vectors [n, k], in the network's dtype or float64; the
  /// product has V's dtype. Each vector costs two matrix products per layer by factors, or one
  /// vector-Jacobian and one Jacobian-vector product by autograd.
  /// @throws InvalidArgument if V has another length, dtype or device, or is not finite, or x or a
  ///   parameter has changed since construction.
  torch::Tensor apply(const torch::Tensor& V) const;

  /// JᵀV [P] or [P, k], θ in the order of Model, for V as above; half the work.
  /// @throws InvalidArgument likewise.
  torch::Tensor pull_back(const torch::Tensor& V) const;
  /// J U [n] or [n, k], for U [P] or [P, k], in the network's dtype or float64.
  /// @throws InvalidArgument likewise.
  torch::Tensor push_forward(const torch::Tensor& U) const;

  /// tr Θ = ‖J‖², exact up to rounding; without factors it needs one more pass (ntk_trace).
  double trace() const;

  /// n = r·n_L.
  int64_t size() const { return outputs_.numel(); }
  /// ŷ [r, n_L] at the parameters of construction.
  torch::Tensor outputs() const { return outputs_; }
  /// Whether it uses factors: then pull_back and push_forward remain valid when parameters change,
  /// with J of construction.
  bool by_factors() const { return !factors_.empty(); }
  /// Number of samples in memory at a time.
  int64_t block_samples() const { return block_samples_; }

 private:
  /// For some samples: outputs, and Jᵀ·seed [P] as a function of the seed.
  struct Graphs {
    torch::Tensor outputs;  ///< [b, n_L], with its graph
    torch::Tensor seed;
    torch::Tensor pulled_back;  ///< undefined if no parameter influences these samples
  };

  /// Factors of consecutive blocks of samples; empty if they do not fit.
  std::vector<Factors> factors_that_fit() const;
  /// Plan with the number of samples per block; none if factors do not fit.
  std::optional<KnownPlan> plan_that_fits(const NtkOptions& options) const;
  FactorOptions factor_options(const NtkOptions& options) const;
  /// Also records in the plan along which dimensions samples lie.
  std::vector<Factors> factors_by(KnownPlan& plan, bool known, const NtkOptions& options) const;
  Graphs extended(const torch::Tensor& outputs) const;
  void require_unchanged() const;
  /// Jᵀ of columns [n, k] as [k, P], and back.
  torch::Tensor pulled(const torch::Tensor& columns) const;
  torch::Tensor pushed(const torch::Tensor& U) const;
  torch::Tensor kernel_columns(const torch::Tensor& columns) const;
  /// Calls `part(first, count)` for as many parameter vectors at a time as fit.
  template <class Part>
  void in_parts(int64_t vectors, torch::ScalarType dtype, const Part& part) const;
  /// Adds Jᵀ of all columns to U [k, P].
  void pull_back_graph(const torch::Tensor& outputs, const torch::Tensor& columns,
                       const torch::Tensor& U) const;
  /// Computes J of all rows of U, as columns.
  void push_forward_graph(const Graphs& graphs, const torch::Tensor& U,
                          const torch::Tensor& columns) const;
  torch::Tensor rows_of(const torch::Tensor& columns, int64_t first, int64_t count) const;

  Model model_;
  torch::Tensor x_;
  int64_t x_version_ = 0;
  torch::Tensor x_values_;  ///< a copy, if small
  OperatorOptions options_;
  int64_t block_samples_ = 0;
  torch::Tensor outputs_;                  ///< [r, n_L], detached
  std::vector<Factors> factors_;           ///< factors of all samples, in blocks; or
  std::optional<Graphs> kept_;             ///< graphs of all samples, if they fit
  std::vector<torch::Tensor> parameters_;  ///< copies, since version counters miss some writes
};

}  // namespace cdt::kernel
