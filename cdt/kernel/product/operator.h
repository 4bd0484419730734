/// The kernel as an operator, V ↦ ΘV = J(JᵀV), and its two halves, for Lanczos and conjugate
/// gradients: no matrix is formed.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/replay/plan_memory.h>

#include <optional>

namespace cdt::kernel {

struct OperatorOptions {
  /// kAuto multiplies by the factors of the layer rules where they cover all parameters, fit the
  /// budget for all samples (made a block at a time if need be), and outputs are few; in float64,
  /// like the kernel itself. Elsewhere, and with kGraph, products come from autograd, in the
  /// network's precision.
  enum class Path { kAuto, kGraph };
  Path path = Path::kAuto;

  /// About as much memory is used for factors, graphs and gradients (at least those of one sample
  /// and two vectors). Where the graphs of all samples fit, they are built once and kept; otherwise
  /// samples stream through in blocks that fit, for two forward passes more an application.
  int64_t memory_bytes = int64_t{2} << 30;

  /// Of the factors' self-check, and of sums over positions within them. In float32 a check of many
  /// samples takes half the time.
  torch::ScalarType accumulate = torch::kFloat64;
};

/// Θ(x, x) of a model at its present parameters, which must not change meanwhile, nor may x.
/// Samples must not influence each other (Model).
class NtkOperator {
 public:
  /// @throws InvalidArgument and NumericalError as evaluate() does, if a layer is in training mode,
  /// or if no parameter moves the outputs.
  NtkOperator(Model model, torch::Tensor x, const OperatorOptions& options = {});

  /// ΘV, for a vector [n] or a block of vectors [n, k], in the network's dtype or in float64; the
  /// product has V's dtype. Each vector costs two matrix products a layer by factors, or one
  /// vector-Jacobian and one Jacobian-vector product by autograd.
  /// @throws InvalidArgument if V has another length, dtype or device, or is not finite, or x or a
  /// parameter was changed since the operator was made.
  torch::Tensor apply(const torch::Tensor& V) const;

  /// JᵀV [P] or [P, k], θ as Model orders it, for V as above; half the work.
  /// @throws InvalidArgument likewise.
  torch::Tensor pull_back(const torch::Tensor& V) const;
  /// J U [n] or [n, k], for U [P] or [P, k], in the network's dtype or in float64.
  /// @throws InvalidArgument likewise.
  torch::Tensor push_forward(const torch::Tensor& U) const;

  /// tr Θ = ‖J‖², exact up to rounding; where factors are not kept, by one more pass (ntk_trace).
  double trace() const;

  /// n = r·n_L.
  int64_t size() const { return outputs_.numel(); }
  /// ŷ [r, n_L] at the parameters of construction.
  torch::Tensor outputs() const { return outputs_; }
  /// Then halves of products go on after parameters have moved, with J of those of construction.
  bool by_factors() const { return !factors_.empty(); }
  /// How many samples are in memory at a time.
  int64_t block_samples() const { return block_samples_; }

 private:
  /// Of some samples: outputs, and Jᵀ·seed [P] as a function of the seed.
  struct Graphs {
    torch::Tensor outputs;  ///< [b, n_L], with its graph
    torch::Tensor seed;
    torch::Tensor pulled_back;  ///< undefined where no parameter moves these samples
  };

  /// Of blocks of samples, one after another; none where they do not fit.
  std::vector<Factors> factors_that_fit() const;
  /// How many samples at a time; none where factors do not fit.
  std::optional<KnownPlan> plan_that_fits(const NtkOptions& options) const;
  FactorOptions factor_options(const NtkOptions& options) const;
  /// Says in the plan where samples lie.
  std::vector<Factors> factors_by(KnownPlan& plan, bool known, const NtkOptions& options) const;
  Graphs extended(const torch::Tensor& outputs) const;
  void require_unchanged() const;
  /// [k, P] for columns [n, k], and back.
  torch::Tensor pulled(const torch::Tensor& columns) const;
  torch::Tensor pushed(const torch::Tensor& U) const;
  torch::Tensor kernel_columns(const torch::Tensor& columns) const;
  /// Calls `part(first, count)` for as many vectors of parameters at a time as fit.
  template <class Part>
  void in_parts(int64_t vectors, torch::ScalarType dtype, const Part& part) const;
  /// Jᵀ of all columns, added to U [k, P].
  void pull_back_graph(const torch::Tensor& outputs, const torch::Tensor& columns,
                       const torch::Tensor& U) const;
  /// J of all rows of U, as columns.
  void push_forward_graph(const Graphs& graphs, const torch::Tensor& U,
                          const torch::Tensor& columns) const;
  torch::Tensor rows_of(const torch::Tensor& columns, int64_t first, int64_t count) const;

  Model model_;
  torch::Tensor x_;
  int64_t x_version_ = 0;
  torch::Tensor x_values_;  ///< a copy, where it is small
  OperatorOptions options_;
  int64_t block_samples_ = 0;
  torch::Tensor outputs_;                  ///< [r, n_L], detached
  std::vector<Factors> factors_;           ///< of all samples, in blocks, or
  std::optional<Graphs> kept_;             ///< of all samples, where they fit
  std::vector<torch::Tensor> parameters_;  ///< copies: version counters do not count every write
};

}  // namespace cdt::kernel
