/// Coordinates in which the loop of the softmax cross entropy is linear and symmetric (paper App.
/// losslin).
///
/// Three things differ from a quadratic loss. The softmax Hessian is singular: shifting all logits
/// of a sample changes nothing, so we work in zero-sum coordinates, C − 1 per sample. One-hot
/// labels have no finite equilibrium, so they are smoothed, ȳ_ε = (1 − ε)y + ε/C, and the
/// equilibrium is z_e = log ȳ_ε. The gradient p − ȳ is not linear in the logits: with H the mean
/// Hessian between the logits and z_e it equals Hξ there, ξ = z − z_e; elsewhere the label absorbs
/// the difference, so that the loop in logits is linear:
///
///   ξ⁺ = ξ − (α/r)Θ(Hξ − y_u),   y_u = −Kξ,   seed of the backward pass (H + K)ξ / r.
///
/// In ζ = H^½ξ this has the form of a quadratic loss, with the symmetric step (α/r)H^½ΘH^½.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <cstdint>

namespace cdt::loss {

/// ε; the usual amount of label smoothing. The true loss settles near ε(C − 1)/C at this value.
inline constexpr double kUsualSmoothing = 0.1;

/// The map between logits z [r, C] and ζ = H^½Zᵀ(z − z_e) [r(C − 1)]. All tensors are float64.
struct ClassCoordinates {
  int64_t samples = 0;
  int64_t classes = 0;
  torch::Tensor targets;       ///< ȳ_ε [r, C]
  torch::Tensor equilibrium;   ///< z_e [r, C], zero-sum for each sample
  torch::Tensor basis;         ///< Z [C, C − 1], orthonormal, columns sum to zero
  torch::Tensor curvature;     ///< H in the basis Z, [r, C − 1, C − 1]
  torch::Tensor root;          ///< H^½, likewise
  torch::Tensor inverse_root;  ///< H^−½, likewise

  int64_t size() const { return samples * (classes - 1); }
  /// ζ of logits [r, C].
  /// @throws InvalidArgument if they are not [r, C] or not finite.
  torch::Tensor state(const torch::Tensor& logits) const;
  /// The logits z_e + ZH^−½ζ [r, C], zero-sum.
  torch::Tensor outputs(const torch::Tensor& zeta) const;
  /// ZH^½ζ/r [r, C]: the seed of the backward pass for a steered ζ.
  torch::Tensor seed(const torch::Tensor& zeta) const;
  /// The label p − ZH^½ζ [r, C] with which the cross entropy at these logits has that gradient. It
  /// sums to 1; entries may be negative.
  torch::Tensor label(const torch::Tensor& logits, const torch::Tensor& zeta) const;
  /// The kernel H^½ZᵀΘZH^½ [n, n] of ζ, for the kernel Θ [rC, rC] of the logits.
  torch::Tensor kernel(const torch::Tensor& theta) const;
  /// H^½MH^½ for M [n, n].
  torch::Tensor scaled(const torch::Tensor& M) const;
  /// The share of the largest eigenvalue of that kernel below which one counts as zero, for a
  /// network of this precision.
  double rank_tolerance(torch::ScalarType network_dtype) const;
  /// (1/r)Σ KL(ȳ_ε ‖ softmax(z)): the smoothed loss above its minimum, zero at the equilibrium. A
  /// guard watches this.
  /// @throws InvalidArgument as `state`.
  double excess_loss(const torch::Tensor& logits) const;
};

/// The coordinates at logits [r, C], with H the mean Hessian from there to the equilibrium. Labels
/// [r, C] are distributions.
/// @throws InvalidArgument if a shape or dtype does not fit, an entry is not finite, C < 2, labels
/// are negative or do not sum to 1, or the smoothing is not in (0, 1).
ClassCoordinates class_coordinates_at(const torch::Tensor& logits, const torch::Tensor& labels,
                                      double smoothing = kUsualSmoothing);
/// The coordinates for a curvature that is known already.
ClassCoordinates class_coordinates_with(const torch::Tensor& curvature, const torch::Tensor& labels,
                                        double smoothing);

/// diag(p) − ppᵀ [r, C, C] for probabilities p [r, C]: the Hessian of one sample's cross entropy.
torch::Tensor softmax_hessian(const torch::Tensor& probabilities);

}  // namespace cdt::loss
