/// One linearization as a ridge problem, solved by a step of the decay path and by a guarded step
/// at its default rate; in several forms that agree.
///
/// With residuals e and SᵀJδ (residuals.h), d = θ − θ₀ and w = τ/(τ + μ), the minimizer of
/// ‖SᵀJδ + e‖² + τ‖d + δ‖² + μ‖δ‖² is
///
///   δ = −w d − JᵀS u,   (K + (τ + μ)I) u = e − w SᵀJ d,   K = SᵀΘS          (outputs)
///   (A + (τ + μ)I) δ = −(JᵀS e + τ d),                     A = JᵀSSᵀJ       (parameters)
///
/// dual factorizes K, primal factorizes A, free uses conjugate gradients on A, and sketch does so
/// with the K of some rows as a preconditioner (docs/explanation/guard.md).
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
  kernel::LinearizationPtr network;  ///< at the current parameters
  Residuals residuals;
  torch::Tensor displacement;  ///< d [P], in the network's dtype; undefined: 0
  /// The ranks that solve the problem together: samples and residuals are those of this rank, the
  /// step is the same on all. Not supported by dual.
  std::shared_ptr<const Ranks> ranks = alone();
};

/// The step, and its prediction by the linearization.
struct RidgeStep {
  torch::Tensor seed;       ///< [n]: δ = −shrink·d − Jᵀ seed, seed = S u, or
  torch::Tensor u;          ///< [r·k], likewise
  double shrink = 0;        ///< w
  torch::Tensor delta;      ///< δ [P] itself
  torch::Tensor residuals;  ///< e + SᵀJδ [r·k], float64; their squares are the predicted objective
  bool complete = true;     ///< false: conjugate gradients reached the limit on products
  /// For conjugate gradients: the residual relative to the right side.
  double residual = kUnknown;
};

struct RidgeOptions {
  int64_t memory_bytes = int64_t{2} << 30;
  /// For the sums in K and A. Rounding in float32 moves eigenvalues by some 1e-6 of the largest,
  /// well below a decay of at least kLeastDecayOfFloat32 of their mean.
  torch::ScalarType accumulate = torch::kFloat64;
  /// Skip the self-check of kernels, once a kernel of this shape has passed it (NtkOptions).
  bool trusted = false;
  /// For conjugate gradients: the limit on products with all rows, the relative residual at which
  /// they stop, and the share of the descent so far below which another product is not worthwhile.
  int64_t products = 40;
  double tolerance = 1e-4;
  double least_gain = 0;
  /// For the sketch: rows, limit on products, the corresponding share, and the seed of the draw.
  int64_t sketch_rows = 0;
  int64_t sketch_products = 3;
  double sketch_gain = 0.03;
  uint64_t seed = 1;
};

/// In units of the mean eigenvalue.
inline constexpr double kLeastDecayOfFloat32 = 1e-2;

class RidgeForm {
 public:
  explicit RidgeForm(const RidgeProblem& problem);
  virtual ~RidgeForm() = default;

  /// ‖·‖² of residuals, summed over all ranks.
  double square(const torch::Tensor& residuals) const {
    return network_->dot(residuals, residuals);
  }

  /// e of this rank.
  const torch::Tensor& residuals() const { return residuals_.e; }

  /// Empty if rounding leaves no positive definite matrix. λ = τ + μ must be positive.
  virtual std::optional<RidgeStep> step(double tau, double mu) = 0;
  /// tr K/(r·k); for the sketch, of its rows.
  virtual double mean_eigenvalue() const = 0;
  /// Largest eigenvalue of K, approximate: a sketch uses its rows, the form free some ten products.
  virtual double largest_eigenvalue() const = 0;
  /// tr K(K + τI)⁻¹, the effective number of parameters, if there is a matrix; otherwise NaN.
  virtual double freedom(double) const { return kUnknown; }
  /// Description of the solver: "a Cholesky factor of the kernel".
  virtual std::string solver() const = 0;
  /// K, or A, which has the same nonzero eigenvalues; undefined if there is neither.
  virtual torch::Tensor matrix() const { return {}; }
  /// Residual of the step's equation for these τ and μ, relative to the right side.
  virtual double residual(const RidgeStep& step, double, double) { return step.residual; }
  /// Whether it can still be used after parameters were overwritten with the same values.
  virtual bool outlasts_writes() const { return true; }

 protected:
  /// r·k, summed over all ranks.
  double count() const { return ranks_->sum(static_cast<double>(residuals_.size())); }

  kernel::LinearizationPtr network_;  ///< of the samples of all ranks
  Residuals residuals_;
  std::shared_ptr<const Ranks> ranks_;
};

/// The best linearization options for a form. The parameters must not move before the form has
/// asked for its results.
kernel::LinearizationOptions linearization_for(const Form& form, const RidgeOptions& options,
                                               torch::ScalarType dtype);

/// @throws InvalidArgument if the form is auto, or several ranks share rows that need one kernel.
/// @throws NumericalError if a kernel cannot be computed.
std::unique_ptr<RidgeForm> make_form(const Form& form, const RidgeProblem& problem,
                                     const RidgeOptions& options);

/// Whether there are fewer residuals than outputs: then J is that of Dᵀŷ.
bool reduces(const Residuals& residuals);

/// K = SᵀΘS [r·k, r·k], float64
torch::Tensor residual_kernel(const torch::Tensor& theta, const Residuals& residuals);
torch::Tensor residual_kernel(const kernel::Linearization& network, const Residuals& residuals);

/// K and products with SᵀJ. For a network that is linearized with its kernel.
class ResidualJacobian {
 public:
  ResidualJacobian(const kernel::LinearizationPtr& network, Residuals residuals,
                   torch::ScalarType dtype = torch::kFloat64);

  /// Moves out K, in the requested dtype; call it once.
  torch::Tensor take_kernel() { return std::exchange(kernel_, {}); }
  /// Whether products use stored factors, in float64 for float64 vectors, instead of autograd.
  bool by_factors() const { return jacobian_->lasts(); }
  /// SᵀJ u [r·k], float64, for u [P]; and JᵀS v [P], in `dtype`, for v [r·k]. Products with J are
  /// computed in the dtype of u and in `dtype`, respectively.
  torch::Tensor push_forward(const torch::Tensor& u) const;
  torch::Tensor pull_back(const torch::Tensor& v, torch::ScalarType dtype) const;

 private:
  Residuals residuals_;
  bool reduced_;  ///< J is that of Dᵀŷ
  kernel::LinearizationPtr jacobian_;
  torch::Tensor kernel_;
};

}  // namespace cdt::train
