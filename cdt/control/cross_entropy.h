/// The controller for softmax cross entropy on logits (paper App. losslin, carried through).
///
/// Three things stand in the way of the quadratic recipe. The softmax Hessian is singular: shifting
/// all logits of a sample changes nothing, so we work in zero-sum coordinates, C − 1 per sample.
/// One-hot labels have no finite equilibrium, so they are smoothed, ȳ_ε = (1 − ε)y + ε/C, and the
/// equilibrium is z_e = log ȳ_ε. And the gradient p − ȳ is not linear in the logits: with H the
/// mean Hessian between the state and z_e it is Hξ there, ξ = z − z_e; elsewhere the label absorbs
/// the difference, so that the loop in logits is linear:
///
///   ξ⁺ = ξ − (α/r)Θ(Hξ − y_u),   y_u = −Kξ,   seed of the backward pass (H + K)ξ / r.
///
/// In ζ = H^½ξ this is the form of the quadratic case, with the symmetric step (α/r)H^½ΘH^½.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

namespace cdt::control {

/// ε; the usual amount of label smoothing. The true loss settles near ε(C − 1)/C at this value.
inline constexpr double kUsualSmoothing = 0.1;

/// ξᵀHξ is weighed against y_uᵀH⁻¹y_u: twice the loss to second order, in closed form.
struct CrossEntropyOptions {
  double q = 1.0;
  double rho = 0.1;
  double smoothing = kUsualSmoothing;  ///< ε
  /// Precision of the network that Θ came from: its rounding decides which modes count as null.
  torch::ScalarType network_dtype = torch::kFloat32;
};

/// The loop in ζ = H^½ξ [r(C − 1)], before a rate is chosen: ζ⁺ = ζ − (α/r)H^½ΘH^½(ζ + Kζ).
struct CrossEntropyPlant {
  int64_t samples = 0;
  int64_t classes = 0;
  torch::Tensor targets;       ///< ȳ_ε [r, C]
  torch::Tensor equilibrium;   ///< z_e [r, C], zero-sum for each sample
  torch::Tensor basis;         ///< Z [C, C − 1], orthonormal, columns sum to zero
  torch::Tensor curvature;     ///< H in these coordinates [r, C − 1, C − 1]
  torch::Tensor root;          ///< H^½, likewise
  torch::Tensor inverse_root;  ///< H^−½
  dynamics::Modes modes;       ///< of H^½ΘH^½

  /// r/λ_max(H^½ΘH^½): the largest rate at which no mode of plain descent oscillates. 1 if no label
  /// moves any logit against another.
  double unit_rate() const;
  /// ζ of logits [r, C].
  /// @throws InvalidArgument if they are not [r, C] or not finite.
  torch::Tensor coordinates(const torch::Tensor& logits) const;
  /// z_e + ZH^−½ζ [r, C]: the logits, zero-sum.
  torch::Tensor logits(const torch::Tensor& zeta) const;
  /// ZH^½ζ/r [r, C]: the seed of the backward pass for a steered ζ.
  torch::Tensor seed(const torch::Tensor& zeta) const;
  /// H^½ZᵀΘZH^½ [n, n], n = r(C − 1), for the kernel Θ [rC, rC] of the logits.
  torch::Tensor kernel_of_state(const torch::Tensor& theta) const;
  /// (1/r)Σ KL(ȳ_ε ‖ softmax(z)): the smoothed loss above its minimum, zero at the equilibrium.
  /// What a guard should watch.
  /// @throws InvalidArgument as `coordinates`.
  double excess_loss(const torch::Tensor& logits) const;
};

/// The plant at logits [r, C], with H the mean Hessian from there to the equilibrium, from Θ
/// [rC, rC], float64, of a network of `network_dtype`.
/// @throws InvalidArgument as design_cross_entropy.
CrossEntropyPlant linearize_cross_entropy(const torch::Tensor& theta, const torch::Tensor& logits,
                                          const torch::Tensor& labels,
                                          double smoothing = kUsualSmoothing,
                                          torch::ScalarType network_dtype = torch::kFloat32);
/// The same without the kernel: coordinates alone, the spectrum is left to the caller.
CrossEntropyPlant cross_entropy_plant_at(const torch::Tensor& logits, const torch::Tensor& labels,
                                         double smoothing);
/// The same with a curvature that is known already; the spectrum is left to the caller.
CrossEntropyPlant cross_entropy_plant(const torch::Tensor& labels, double smoothing,
                                      const torch::Tensor& curvature);

struct CrossEntropyController {
  CrossEntropyPlant plant;
  torch::Tensor steering;         ///< (H + K) [r(C − 1), r(C − 1)]
  torch::Tensor closed_loop;      ///< I − (α/r)Θ(H + K), likewise
  double closed_loop_radius = 0;  ///< on the reachable part
  double lr_max = 0;  ///< 2r/λ_max(H^½ΘH^½): beyond it plain descent oscillates without end

  /// ∂L/∂z to start the backward pass with instead of (p − y)/r: [r, C] in the logits' dtype and
  /// device, detached; the arithmetic is float64.
  /// @throws InvalidArgument if the logits are not [r, C] or not finite.
  torch::Tensor seed(const torch::Tensor& logits) const;
  /// ȳ = p − r·seed: the label with which cross_entropy has that gradient. Sums to 1, entries may
  /// be negative.
  torch::Tensor augment(const torch::Tensor& logits) const;
  /// Logits that the local model promises after one step, zero-sum, float64 [r, C].
  torch::Tensor predict(const torch::Tensor& logits) const;
};

/// From Θ [n, n] of the logits, n = r·C, float64, logits and labels [r, C]; labels are
/// distributions.
/// @throws InvalidArgument if a shape or dtype does not fit, an entry is not finite, C < 2, labels
/// are negative or do not sum to 1, the smoothing is not in (0, 1), a rate or weight is not
/// positive, or no label moves any logit against another.
CrossEntropyController design_cross_entropy(const torch::Tensor& theta, const torch::Tensor& logits,
                                            const torch::Tensor& labels, double learning_rate,
                                            const CrossEntropyOptions& options = {});
/// The same for a plant, whose smoothing holds: another rate needs no new kernel and no new
/// eigendecomposition.
CrossEntropyController design_cross_entropy(const CrossEntropyPlant& plant, double learning_rate,
                                            const CrossEntropyOptions& options = {});

}  // namespace cdt::control
