/// The kernel as an operator, v ↦ Θv = J(Jᵀv), for Lanczos and power iterations: no matrix is
/// formed.
#pragma once

#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// Θ(x, x) of a model at its present parameters. The forward graph and the graph of Jᵀv are built
/// once, so an application costs one vector-Jacobian and one Jacobian-vector product, and the
/// parameters must not change meanwhile.
class NtkOperator {
 public:
  /// @throws InvalidArgument and NumericalError as evaluate() does, if a layer is in training mode,
  /// or if no parameter moves the outputs.
  NtkOperator(Model model, const torch::Tensor& x);

  /// Θv [n], for v [n]; float64 stays with a float64 network.
  /// @throws InvalidArgument if v has another length, dtype or device, or is not finite, or a
  /// parameter was changed in
  ///   place since the operator was made.
  torch::Tensor apply(const torch::Tensor& v) const;

  /// n = r·n_L.
  int64_t size() const { return outputs_.numel(); }
  /// ŷ [r, n_L] at the parameters of construction.
  torch::Tensor outputs() const { return outputs_.detach(); }

 private:
  Model model_;
  torch::Tensor outputs_;      ///< [r, n_L], with its graph.
  torch::Tensor seed_;         ///< [r, n_L], the variable v of Jᵀv.
  torch::Tensor pulled_back_;  ///< Jᵀ·seed [P], as a function of the seed.
  std::vector<uint32_t> versions_;
};

}  // namespace cdt::kernel
