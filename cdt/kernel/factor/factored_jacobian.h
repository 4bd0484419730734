/// The Jacobian J of some samples from one factorization: the kernel Θ = JJᵀ, and products with J
/// and Jᵀ.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/ntk.h>

#include <optional>
#include <utility>

namespace cdt::kernel {

/// A kernel, and its factors if they fit one block.
struct KeptNtk {
  Ntk ntk;
  std::optional<Factors> factors;
};
/// As empirical_ntk, whose checks also cover the factors.
KeptNtk ntk_with_factors(const Model& model, const torch::Tensor& x, const NtkOptions& options);

/// J(x) of a model at its current parameters.
class FactoredJacobian {
 public:
  /// @throws as empirical_ntk does.
  FactoredJacobian(Model model, torch::Tensor x, const NtkOptions& options = {});

  /// Θ [n, n], as from empirical_ntk, to the last bit; valid until take_theta().
  const torch::Tensor& theta() const { return found_.ntk.theta; }
  torch::Tensor take_theta() { return std::exchange(found_.ntk.theta, {}); }
  /// J u [n] for u [P], and Jᵀ v [P] for v [n], in the network's dtype or float64; the product has
  /// the vector's dtype. By factors two operations per parameter and sample; if samples needed
  /// several blocks, by autograd, in the network's dtype and at its current parameters.
  /// @throws InvalidArgument if a vector has another length, dtype or device.
  torch::Tensor push_forward(const torch::Tensor& u) const;
  torch::Tensor pull_back(const torch::Tensor& v) const;
  /// Whether products use factors, and so remain those of construction when the parameters change.
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
