/// The Jacobian J of some samples from one factorization: the kernel Θ = JJᵀ, and products with J
/// and Jᵀ beside it.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/ntk.h>

#include <optional>
#include <utility>

namespace cdt::kernel {

/// A kernel, and the factors that it was made from where they are those of one block.
struct KeptNtk {
  Ntk ntk;
  std::optional<Factors> factors;
};
/// As empirical_ntk, whose checks the factors have passed with it.
KeptNtk ntk_with_factors(const Model& model, const torch::Tensor& x, const NtkOptions& options);

/// J(x) of a model at its present parameters.
class FactoredJacobian {
 public:
  /// @throws as empirical_ntk does.
  FactoredJacobian(Model model, torch::Tensor x, const NtkOptions& options = {});

  /// Θ [n, n], as empirical_ntk has it, to the last bit; until somebody takes it.
  const torch::Tensor& theta() const { return found_.ntk.theta; }
  torch::Tensor take_theta() { return std::exchange(found_.ntk.theta, {}); }
  /// J u [n] for u [P], and Jᵀ v [P] for v [n], in the network's dtype or in float64, which the
  /// product has too. Two operations a parameter and sample by factors; where samples took several
  /// blocks, by autograd, in the network's precision and at its present parameters.
  /// @throws InvalidArgument if a vector has another length, dtype or device.
  torch::Tensor push_forward(const torch::Tensor& u) const;
  torch::Tensor pull_back(const torch::Tensor& v) const;
  /// Then products go on after parameters have moved, with J of those of construction.
  bool by_factors() const { return found_.factors.has_value(); }

 private:
  void require_vector(const torch::Tensor& v, int64_t length) const;

  Model model_;
  torch::Tensor x_;
  int64_t slice_;  ///< entries of a temporary
  KeptNtk found_;
  int64_t size_;  ///< n
};

}  // namespace cdt::kernel
