/// The form of batches, for rows that are too many for one pass: the step of SPRING
/// (arXiv 2401.10190).
///
/// A batch with residuals e and SᵀJ (residuals.h) takes θ ← θ − ηφ, with φ the least of
///
///   ‖e − SᵀJφ‖² + τ‖d − φ‖² + λ‖φ − μφ₋‖²,
///
/// φ₋ being that of the batch before:
///
///   φ = c + JᵀS(K + (τ + λ)I)⁻¹(e − SᵀJc),   K = SᵀΘS of the batch,   c = (τd + λμφ₋)/(τ + λ).
///
/// What a batch does not see of φ stays as others have left it. Without φ₋ and at η = 1 it is the
/// step of the dual form (ridge.h) on the batch, τ its share of the decay.
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/core/error.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/saved_state.h>
#include <cdt/train/setup.h>

namespace cdt::train {

/// Of one step. On houses and diamonds momenta of 0.9 (η = 0.3) to 0.97 and dampings of 0.03 to 0.3
/// were the same within noise; without momentum errors were 1.1 to 1.3 times as large after as many
/// epochs.
struct BatchRates {
  double momentum = 0.97;  ///< μ
  double damping = 0.1;    ///< λ in units of the mean eigenvalue of K
  double rate = 0.1;       ///< η

  /// With a share of them left (epoch_guard.h), both say so: λ/√share, η√share. Steps of a small
  /// share are gradient descent.
  BatchRates at(double share) const;
};

/// Of the kernels of batches: λ is far above what rounding of float32 moves. Networks that always
/// run the same operators are `checked` now and then, once an epoch; others always.
RidgeOptions batch_options(const Setup& setup, bool checked);

/// Of steps by batches with momentum, which are no law: what is promised is the epoch guard's.
control::Certificate of_batches();

class BatchMomentum {
 public:
  /// φ of a batch, `decay` being τ, of d in the problem; parameters stay as they are. Where
  /// rounding leaves no positive definite matrix, with a larger λ.
  /// @throws NumericalError if the kernel cannot be computed or is not finite.
  const torch::Tensor& next(const RidgeProblem& batch, double decay, const BatchRates& rates);
  /// The same, and θ ← θ − ηφ.
  void take(const kernel::Model& model, const RidgeProblem& batch, double decay,
            const BatchRates& rates);
  /// φ [P] in the network's dtype; undefined: 0
  const torch::Tensor& direction() const { return phi_; }
  /// tr K/(r·k) of the last batch; 0 before.
  double mean_eigenvalue() const { return mean_eigenvalue_; }
  void forget() { phi_ = torch::Tensor(); }

  void save(SavedState& state) const;
  void restore(const SavedState& state, const kernel::Model& model);

 private:
  torch::Tensor phi_;
  double mean_eigenvalue_ = 0;
};

}  // namespace cdt::train
