/// A network to first order in its parameters: ŷ₀ + Jδ (paper eq. y_lin), with the kernel and every
/// product that is made of J.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/ntk.h>

#include <functional>
#include <memory>

namespace cdt::kernel {

class Linearization;
using LinearizationPtr = std::shared_ptr<const Linearization>;

/// What operation counts depend on.
struct Sizes {
  int64_t samples = 0;     ///< r
  int64_t outputs = 0;     ///< n_L, of a sample
  int64_t parameters = 0;  ///< P

  int64_t size() const { return samples * outputs; }  ///< n
};

struct LinearizationOptions {
  /// Options of the kernel and of Gram matrices; its memory is the products' too.
  NtkOptions kernel;

  /// What products with J and Jᵀ are made from. kByThemselves: factors of the layers or kept graphs
  /// (NtkOperator), which pays for many. kWithKernel: the factors that the kernel is made from, as
  /// long as they are those of one block; for one kernel with some products. kAnew: a forward pass
  /// and one or two backward passes for each vector; for a few.
  enum class Products { kByThemselves, kWithKernel, kAnew };
  Products products = Products::kByThemselves;

  /// Of products by themselves (OperatorOptions).
  torch::ScalarType accumulate = torch::kFloat64;

  /// Whether θ₀ is copied, so that all of it stays of θ₀ when the parameters move. If not, the
  /// caller asks before they do; products go on afterwards where lasts() says so.
  bool keeps_parameters = true;
};

/// ŷ₀ and J at the parameters θ₀ of construction, on some samples. Vectors are [P] and [n], or
/// blocks [P, k] and [n, k] of them: θ as Model orders it, outputs sample by sample. Nothing is
/// computed before it is asked for, and no kernel is kept: the caller does that. Every kernel
/// checks itself.
///
/// To derive: outputs, dtype, parameter_count and the two products are enough; all else is made of
/// them, a column for each output.
class Linearization : public std::enable_shared_from_this<Linearization> {
 public:
  Linearization() = default;
  virtual ~Linearization() = default;
  Linearization(const Linearization&) = delete;
  Linearization& operator=(const Linearization&) = delete;

  /// ŷ₀ [r, n_L], float64
  virtual const torch::Tensor& outputs() const = 0;
  virtual Sizes sizes() const;
  /// Dtype of the network. Vectors have it, or are float64; products have theirs.
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
  /// JᵀSSᵀJ [P, P], float64, S [r, n_L, k] block-diagonal as in parameter_gram; undefined: JᵀJ.
  virtual torch::Tensor gram(const torch::Tensor& S = {}) const;
  /// tr Θ = ‖J‖²
  virtual double trace() const;
  /// aᵀb of vectors of outputs: over the samples of all ranks, where several share them.
  virtual double dot(const torch::Tensor& a, const torch::Tensor& b) const;

  /// Whether products stay those of θ₀ after the parameters have moved.
  virtual bool lasts() const { return false; }

  /// x of the samples; undefined: the outputs are those of a function without any.
  virtual torch::Tensor inputs() const { return {}; }
  /// The same network at θ₀ on other samples. @throws InvalidArgument if it has none.
  virtual LinearizationPtr at(const torch::Tensor& x, const LinearizationOptions& options) const;
  /// That of Dᵀŷ, D [n_L, k] the same for all samples.
  virtual LinearizationPtr projected(const torch::Tensor& D) const;
};

/// Linearizes a model at its present parameters. x must not change while it is in use.
LinearizationPtr linearize(const Model& model, const torch::Tensor& x,
                           const LinearizationOptions& options);
LinearizationPtr linearize(const Model& model, const torch::Tensor& x,
                           const NtkOptions& options = {});

/// Of outputs [r, n_L], any function of the parameters, whose Jacobian `rows` gives: J [n, P],
/// asked for once, when it is first needed. `pull_back`, if there is one, finds Jᵀv [P] another
/// way, for v [n] of the outputs' dtype: the rows are held against it. Later calls throw
/// InvalidArgument if there are not n rows, NumericalError if they are refuted.
LinearizationPtr from_rows(const torch::Tensor& outputs, std::function<torch::Tensor()> rows,
                           std::function<torch::Tensor(const torch::Tensor& v)> pull_back = {});

}  // namespace cdt::kernel
