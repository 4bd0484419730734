/// A network to first order in its parameters, ŷ₀ + Jδ (paper eq. y_lin), with its kernel and all
/// products with J.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/ntk.h>

#include <functional>
#include <memory>

namespace cdt::kernel {

class Linearization;
using LinearizationPtr = std::shared_ptr<const Linearization>;

/// Sizes that determine operation counts.
struct Sizes {
  int64_t samples = 0;     ///< r
  int64_t outputs = 0;     ///< n_L, per sample
  int64_t parameters = 0;  ///< P

  int64_t size() const { return samples * outputs; }  ///< n
};

struct LinearizationOptions {
  /// Options of the kernel and of Gram matrices; the memory limit also holds for products.
  NtkOptions kernel;

  /// How products with J and Jᵀ are computed.
  /// - kByThemselves: from layer factors or kept graphs (NtkOperator). Best for many products.
  /// - kWithKernel: from the factors of the kernel, if these fit one block. Best for one kernel and
  ///   some products.
  /// - kAnew: by a forward pass and one or two backward passes per vector. Best for a few.
  enum class Products { kByThemselves, kWithKernel, kAnew };
  Products products = Products::kByThemselves;

  /// Accumulation dtype of kByThemselves (OperatorOptions).
  torch::ScalarType accumulate = torch::kFloat64;

  /// Whether to copy θ₀, so that all results remain those of θ₀ when the parameters move. Otherwise
  /// the caller must ask for results before that; products remain valid afterwards if lasts().
  bool keeps_parameters = true;
};

/// ŷ₀ and J on some samples, at the parameters θ₀ of construction. Vectors are [P] and [n], or
/// blocks [P, k] and [n, k]: θ in the order of Model, outputs sample by sample. Everything is
/// computed on request, and no kernel is cached: the caller keeps it. Every kernel is self-checked.
///
/// Derived classes must define outputs, dtype, parameter_count and the two products; the defaults
/// compute the rest from them, one column per output.
class Linearization : public std::enable_shared_from_this<Linearization> {
 public:
  Linearization() = default;
  virtual ~Linearization() = default;
  Linearization(const Linearization&) = delete;
  Linearization& operator=(const Linearization&) = delete;

  /// ŷ₀ [r, n_L], float64
  virtual const torch::Tensor& outputs() const = 0;
  virtual Sizes sizes() const;
  /// The network's dtype. Vectors have this dtype or float64; products return the dtype of the
  /// vectors.
  virtual torch::ScalarType dtype() const = 0;
  /// P
  virtual int64_t parameter_count() const = 0;

  /// J U. @throws InvalidArgument if U does not fit.
  virtual torch::Tensor push_forward(const torch::Tensor& U) const = 0;
  /// JᵀV. @throws InvalidArgument if V does not fit.
  virtual torch::Tensor pull_back(const torch::Tensor& V) const = 0;
  /// ΘV
  virtual torch::Tensor kernel_times(const torch::Tensor& V) const;
  /// Θ = JJᵀ [n, n]. @throws NumericalError if its self-check fails.
  virtual torch::Tensor kernel() const;
  /// JᵀSSᵀJ [P, P], float64, S [r, n_L, k] block-diagonal as in parameter_gram; JᵀJ if S is
  /// undefined.
  virtual torch::Tensor gram(const torch::Tensor& S = {}) const;
  /// tr Θ = ‖J‖²
  virtual double trace() const;
  /// aᵀb of two vectors of outputs; summed over all ranks if the samples are distributed.
  virtual double dot(const torch::Tensor& a, const torch::Tensor& b) const;

  /// Whether products remain those of θ₀ after the parameters have moved.
  virtual bool lasts() const { return false; }

  /// Inputs x of the samples; undefined if the outputs are those of a function without inputs.
  virtual torch::Tensor inputs() const { return {}; }
  /// The same network at θ₀ on other samples. @throws InvalidArgument if there are no inputs.
  virtual LinearizationPtr at(const torch::Tensor& x, const LinearizationOptions& options) const;
  /// Linearization of Dᵀŷ, D [n_L, k] the same for all samples.
  virtual LinearizationPtr projected(const torch::Tensor& D) const;
};

/// Linearizes a model at its current parameters. x must not change while the result is in use.
LinearizationPtr linearize(const Model& model, const torch::Tensor& x,
                           const LinearizationOptions& options);
LinearizationPtr linearize(const Model& model, const torch::Tensor& x,
                           const NtkOptions& options = {});

/// Linearizes outputs [r, n_L], any function of the parameters, given their Jacobian: `rows`
/// returns J [n, P] and is called once, on first use. `pull_back`, if given, computes Jᵀv [P]
/// independently, for v [n] in the outputs' dtype; the rows are checked against it. Later calls
/// throw InvalidArgument if there are not n rows, NumericalError if the check fails.
LinearizationPtr from_rows(const torch::Tensor& outputs, std::function<torch::Tensor()> rows,
                           std::function<torch::Tensor(const torch::Tensor& v)> pull_back = {});

}  // namespace cdt::kernel
