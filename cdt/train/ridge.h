/// One linearization as a ridge problem: what a step of the decay path solves.
///
/// Residuals are Sᵀŷ + …, one block S_i [n_L, k] a sample, such that the objective's model is
/// ‖SᵀJδ + e‖² up to a constant: S = W^½ for quadratic losses with weights W; for the cross entropy
/// its generalised Gauss-Newton form, S_i S_iᵀ = w_i(diag p − ppᵀ) and S_i e_i = w_i(p − y). With
/// d = θ − θ₀ and w = τ/(τ + μ), the least of ‖SᵀJδ + e‖² + τ‖d + δ‖² + μ‖δ‖² is
///
///   δ = −w d − JᵀS u,   (K + (τ + μ)I) u = e − w SᵀJ d,   K = SᵀΘS.
///
/// K is a matrix where all S_i = D·diag(scale_i) with one D, and it is not too large: quadratic
/// losses, two classes. Otherwise products with it (kernel::NtkOperator) feed conjugate gradients.
#pragma once

#include <cdt/kernel/operator.h>
#include <cdt/train/setup.h>

namespace cdt::train {

struct RidgeOptions {
  /// Residuals beyond which K is not formed.
  int64_t largest_matrix = 5000;
  /// Of conjugate gradients: products at most, and the residual relative to the right side.
  int64_t products = 40;
  double tolerance = 1e-4;
  int64_t memory_bytes = int64_t{2} << 30;
  /// Of the sums of K. Rounding of float32 moves its eigenvalues by some 1e-6 of the largest: well
  /// below a decay that is no less than kLeastDecayOfFloat32 of their mean.
  torch::ScalarType accumulate = torch::kFloat64;
};

/// Of the mean eigenvalue.
inline constexpr double kLeastDecayOfFloat32 = 1e-2;

class RidgeProblem {
 public:
  /// At the present parameters, of outputs ŷ [r, n_L] and labels, float64; weights [r·n_L] or
  /// undefined.
  /// @throws NumericalError if the kernel cannot be computed.
  RidgeProblem(const kernel::Model& model, const torch::Tensor& x, const Objective& objective,
               const torch::Tensor& outputs, const torch::Tensor& labels,
               const torch::Tensor& weights, const RidgeOptions& options = {});

  /// e [m]
  const torch::Tensor& residual() const { return residual_; }
  /// S u [n] and Sᵀv [m], float64.
  torch::Tensor to_outputs(const torch::Tensor& u) const;
  torch::Tensor to_residuals(const torch::Tensor& v) const;
  /// tr K/m: of a matrix exactly, else tr Θ/n times the mean square of S.
  double mean_eigenvalue() const { return mean_eigenvalue_; }
  bool has_matrix() const { return K_.defined(); }

  /// (K + λI)⁻¹ b [m], float64; undefined where rounding leaves no positive definite matrix.
  torch::Tensor solve(const torch::Tensor& b, double lambda) const;
  /// tr K(K + τI)⁻¹, the effective number of parameters; of a matrix, else NaN. Exact up to 500
  /// residuals, beyond that by 32 random probes, some percent off.
  double freedom(double tau) const;

 private:
  torch::Tensor conjugate_gradients(const torch::Tensor& b, double lambda) const;
  /// The lower factor of K + λI, of the last λ kept; undefined where it is not positive definite.
  const torch::Tensor& factor(double lambda) const;

  RidgeOptions options_;
  torch::Tensor S_;         ///< [r, n_L, k]
  torch::Tensor residual_;  ///< [r·k]
  torch::Tensor K_;         ///< [m, m], or
  mutable double factored_ = -1;
  mutable torch::Tensor factor_;
  std::optional<kernel::NtkOperator> operator_;
  torch::ScalarType dtype_;  ///< of the network
  double mean_eigenvalue_ = 0;
};

}  // namespace cdt::train
