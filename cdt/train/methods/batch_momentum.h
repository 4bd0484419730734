/// The form batch, for more rows than one pass can process: the step of SPRING (arXiv 2401.10190).
///
/// A batch with residuals e and SᵀJ (residuals.h) takes θ ← θ − ηφ, where φ minimizes
///
///   ‖e − SᵀJφ‖² + τ‖d − φ‖² + λ‖φ − μφ₋‖²,
///
/// with φ₋ of the previous batch:
///
///   φ = c + JᵀS(K + (τ + λ)I)⁻¹(e − SᵀJc),   K = SᵀΘS of the batch,   c = (τd + λμφ₋)/(τ + λ).
///
/// Components of φ that the batch does not see persist. Without φ₋ and with η = 1, it is the step
/// of the dual form (ridge.h) on the batch, with τ the batch's share of the decay.
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/core/error.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

namespace cdt::train {

/// Rates of one step. On houses and diamonds, momenta of 0.9 (η = 0.3) to 0.97 and dampings of 0.03
/// to 0.3 gave the same errors within noise; without momentum, errors were 1.1 to 1.3 times as
/// large after as many epochs.
struct BatchRates {
  double momentum = 0.97;  ///< μ
  double damping = 0.1;    ///< λ in units of the mean eigenvalue of K
  double rate = 0.1;       ///< η

  /// Rates at a share of the full step (epoch_guard.h): λ/√share and η√share. At a small share,
  /// steps are gradient descent.
  BatchRates at(double share) const;
};

/// Options for the kernels of batches: λ is far above the rounding errors of float32. Networks that
/// always run the same operators are checked only if `checked`, once per epoch; others always.
RidgeOptions batch_options(const Setup& setup, bool checked);

/// Certificate of steps by batches with momentum, which follow no law; only the epoch guard
/// guarantees descent.
control::Certificate of_batches();

class BatchMomentum {
 public:
  /// φ of a batch, where `decay` is τ, for the d of the problem; parameters are not changed. If
  /// rounding leaves no positive definite matrix, λ is increased.
  /// @throws NumericalError if the kernel cannot be computed or is not finite.
  const torch::Tensor& next(const RidgeProblem& batch, double decay, const BatchRates& rates);
  /// The same, and θ ← θ − ηφ.
  void take(const kernel::Model& model, const RidgeProblem& batch, double decay,
            const BatchRates& rates);
  /// φ [P] in the network's dtype; undefined means 0
  const torch::Tensor& direction() const { return phi_; }
  /// tr K/(r·k) of the last batch; 0 before the first.
  double mean_eigenvalue() const { return mean_eigenvalue_; }
  void forget() { phi_ = torch::Tensor(); }

  void save(SavedState& state) const;
  void restore(const SavedState& state, const kernel::Model& model);

 private:
  torch::Tensor phi_;
  double mean_eigenvalue_ = 0;
};

}  // namespace cdt::train
