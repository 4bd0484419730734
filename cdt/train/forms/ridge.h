/// One linearization as a ridge problem: what a step of the decay path solves, and a guarded step
/// at its own rate; in several forms that agree.
///
/// With residuals e and SᵀJδ (residuals.h), d = θ − θ₀ and w = τ/(τ + μ), the least of
/// ‖SᵀJδ + e‖² + τ‖d + δ‖² + μ‖δ‖² is
///
///   δ = −w d − JᵀS u,   (K + (τ + μ)I) u = e − w SᵀJ d,   K = SᵀΘS          (outputs)
///   (A + (τ + μ)I) δ = −(JᵀS e + τ d),                     A = JᵀSSᵀJ       (parameters)
///
/// dual factorizes K, primal A, free takes conjugate gradients on A, sketch the same with the K
/// of some rows as a preconditioner (docs/explanation/guard.md).
#pragma once

#include <cdt/control/apply/shifted_factor.h>
#include <cdt/core/error.h>
#include <cdt/kernel/linearization.h>
#include <cdt/train/history.h>
#include <cdt/train/loop/residuals.h>
#include <cdt/train/options.h>
#include <cdt/train/ranks.h>

#include <memory>
#include <optional>
#include <utility>

namespace cdt::train {

using control::ShiftedFactor;

struct RidgeProblem {
  kernel::LinearizationPtr network;  ///< at the present parameters
  Residuals residuals;
  torch::Tensor displacement;  ///< d [P], in the network's dtype; undefined: 0
  /// Who solves it together: samples and residuals are those of this rank, the step is the same on
  /// all. Not for dual.
  std::shared_ptr<const Ranks> ranks = alone();
};

/// The step, and what the linearization says of it.
struct RidgeStep {
  torch::Tensor seed;       ///< [n]: δ = −shrink·d − Jᵀ seed, seed = S u, or
  torch::Tensor u;          ///< [r·k], likewise
  double shrink = 0;        ///< w
  torch::Tensor delta;      ///< δ [P] itself
  torch::Tensor residuals;  ///< e + SᵀJδ [r·k], float64; their squares are the promise
  bool complete = true;     ///< as exact as was asked for; otherwise products ran out
  /// Of conjugate gradients: what is left of the right side, as a share.
  double residual = kUnknown;
};

struct RidgeOptions {
  int64_t memory_bytes = int64_t{2} << 30;
  /// Of the sums of K and A. Rounding of float32 moves eigenvalues by some 1e-6 of the largest:
  /// well below a decay that is no less than kLeastDecayOfFloat32 of their mean.
  torch::ScalarType accumulate = torch::kFloat64;
  /// Kernels go without their self-check, once one of this shape has passed it (NtkOptions).
  bool trusted = false;
  /// Of conjugate gradients: products with all rows at most, the residual relative to the right
  /// side at which they end, and the share of the descent so far below which another product is not
  /// worth its while.
  int64_t products = 40;
  double tolerance = 1e-4;
  double least_gain = 0;
  /// Of the sketch: rows, products, such a share, and the seed of the draw.
  int64_t sketch_rows = 0;
  int64_t sketch_products = 3;
  double sketch_gain = 0.03;
  uint64_t seed = 1;
};

/// Of the mean eigenvalue.
inline constexpr double kLeastDecayOfFloat32 = 1e-2;

class RidgeForm {
 public:
  explicit RidgeForm(const RidgeProblem& problem);
  virtual ~RidgeForm() = default;

  /// ‖·‖² of residuals, those of all ranks.
  double square(const torch::Tensor& residuals) const {
    return network_->dot(residuals, residuals);
  }

  /// e of this rank
  const torch::Tensor& residuals() const { return residuals_.e; }

  /// None where rounding leaves no positive definite matrix. λ = τ + μ must be positive.
  virtual std::optional<RidgeStep> step(double tau, double mu) = 0;
  /// tr K/(r·k); of a sketch by its rows.
  virtual double mean_eigenvalue() const = 0;
  /// Of K, about: of a sketch by its rows, of products by some ten of them.
  virtual double largest_eigenvalue() const = 0;
  /// tr K(K + τI)⁻¹, the effective number of parameters, of a matrix; else NaN.
  virtual double freedom(double) const { return kUnknown; }
  /// How it solves: "a Cholesky factor of the kernel".
  virtual std::string solver() const = 0;
  /// K, or A, whose eigenvalues beside zeros are the same; undefined: there is none.
  virtual torch::Tensor matrix() const { return {}; }
  /// Of a step for these τ and μ: what is left of the right side of its equation, as a share.
  virtual double residual(const RidgeStep& step, double, double) { return step.residual; }
  /// Whether it may be asked again after parameters were written to, though they are the same.
  virtual bool outlasts_writes() const { return true; }

 protected:
  /// r·k of all ranks
  double count() const { return ranks_->sum(static_cast<double>(residuals_.size())); }

  kernel::LinearizationPtr network_;  ///< of the samples of all ranks
  Residuals residuals_;
  std::shared_ptr<const Ranks> ranks_;
};

/// How a network is best linearized for a form; parameters stay until it asks.
kernel::LinearizationOptions linearization_for(const Form& form, const RidgeOptions& options,
                                               torch::ScalarType dtype);

/// @throws InvalidArgument if the form is open, or several ranks share rows that need one kernel.
/// @throws NumericalError if a kernel cannot be computed.
std::unique_ptr<RidgeForm> make_form(const Form& form, const RidgeProblem& problem,
                                     const RidgeOptions& options);

/// Whether there are fewer residuals than outputs: J is then that of Dᵀŷ.
bool reduces(const Residuals& residuals);

/// K = SᵀΘS [r·k, r·k], float64
torch::Tensor residual_kernel(const torch::Tensor& theta, const Residuals& residuals);
torch::Tensor residual_kernel(const kernel::Linearization& network, const Residuals& residuals);

/// SᵀJ: K, and products beside it. For a network that is linearized with its kernel.
class ResidualJacobian {
 public:
  ResidualJacobian(const kernel::LinearizationPtr& network, Residuals residuals,
                   torch::ScalarType dtype = torch::kFloat64);

  /// K in the dtype that was asked for; once.
  torch::Tensor take_kernel() { return std::exchange(kernel_, {}); }
  /// Products by factors, in float64 where vectors are; otherwise by autograd.
  bool by_factors() const { return jacobian_->lasts(); }
  /// SᵀJ u [r·k], float64, for u [P]; JᵀS v [P], in `dtype`, for v [r·k]: products with J in the
  /// dtype of u, and in `dtype`.
  torch::Tensor push_forward(const torch::Tensor& u) const;
  torch::Tensor pull_back(const torch::Tensor& v, torch::ScalarType dtype) const;

 private:
  Residuals residuals_;
  bool reduced_;  ///< J is that of Dᵀŷ
  kernel::LinearizationPtr jacobian_;
  torch::Tensor kernel_;
};

}  // namespace cdt::train
