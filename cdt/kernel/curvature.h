/// Curvature of a network in its parameters: the norm of ∂²ŷ/∂θ² in the Lagrange bound (paper eq.
/// NTK:overbound), estimated from below by several local searches ("climbs").
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

#include <optional>

namespace cdt::kernel {

struct CurvatureOptions {
  /// The best climb stops after two consecutive rounds that each gain less than this share of the
  /// norm.
  double tolerance = 1e-3;
  /// Limit on second-derivative products in total, for any number of points; each costs about three
  /// gradient steps. 0 means 400, or 60 where parameters times samples exceed 10⁷. A climb takes 40
  /// to 80. With few products the norm may be too low by tens of per cent; `accuracy` reports it.
  int64_t products = 0;
  /// Maximum number of starts at a point, or one per 50 products if that is more. The search ends
  /// early when half as many end at the highest norm. The norm has local maxima; small tanh
  /// networks hide the largest from half of the climbs.
  int64_t starts = 8;
  /// Number of points on a segment at which the norm is estimated: its ends, and evenly between.
  int64_t points = 2;
  /// Seed of the random starts; further points use the seeds that follow.
  uint64_t seed = 1;
};

struct Curvature {
  /// max ‖∂²ŷ/∂θ²[u, v]‖ over unit u, v, at the worst point. The largest lower bound that the
  /// climbs found: an estimate, not an upper bound.
  double norm = 0;
  /// Estimated share of the norm by which it may be too low. The largest of: how far below it half
  /// of the climbs ended; how far the lowest did, divided by the number of climbs that came within
  /// 1 %; 0.1 divided by the number of climbs; the gain of the last round; the tolerance.
  double accuracy = 0;
  /// ‖∂²ŷ/∂θ²[d, d]‖ for the unit displacement d, at the worst point: the curvature that training
  /// meets. Zero without a displacement.
  double along_path = 0;
  int64_t products = 0;  ///< products used
};

/// The norm at the model's current parameters. A climb maximizes wᵀ∂²ŷ/∂θ²[u, u] over unit vectors,
/// alternating between u and w: the best w for a given u takes one product; the best u for a given
/// w is an eigenvector, found in a small Krylov space that contains the previous u. So the value
/// never decreases.
/// @throws InvalidArgument unless products ≥ 0, starts ≥ 1 and the tolerance is positive; otherwise
///   as second_derivative.
Curvature hessian_norm(const Model& model, const torch::Tensor& x,
                       const CurvatureOptions& options = {});

/// The largest norm over the segment from the current parameters θ to θ + ϑ, ϑ [P], as in the
/// remainder of Taylor's formula. The first climb starts in the direction of ϑ.
/// @throws InvalidArgument unless products ≥ points ≥ 2 (or products = 0), or if ϑ does not fit.
Curvature hessian_norm_on_segment(const Model& model, const torch::Tensor& x,
                                  const torch::Tensor& displacement,
                                  const CurvatureOptions& options = {});

}  // namespace cdt::kernel
