/// How strongly a network bends in its parameters: the norm of ∂²ŷ/∂θ² in the Lagrange bound (paper
/// eq. NTK:overbound), estimated from below by climbing from several starts.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

#include <optional>

namespace cdt::kernel {

struct CurvatureOptions {
  /// The best climb ends where a round of it gains less than this share of the norm, twice in a
  /// row.
  double tolerance = 1e-3;
  /// Products with second derivatives in all, at most, whatever the number of points; each costs
  /// about three gradient steps. 0: 400, or 60 where parameters times samples exceed 10⁷. A climb
  /// takes some 40 to 80. With few of them the norm may be too low by tens of per cent, and
  /// `accuracy` says so.
  int64_t products = 0;
  /// The most starts at a point, or one for each 50 products of it where those are more; half as
  /// many that end at the highest norm are enough. The norm has local maxima, of which small tanh
  /// networks hide the largest from half of the climbs.
  int64_t starts = 8;
  /// Points of a segment at which the norm is estimated: its ends, and evenly between them.
  int64_t points = 2;
  /// Seed of the random starts; those of further points have the seeds that follow.
  uint64_t seed = 1;
};

struct Curvature {
  /// max ‖∂²ŷ/∂θ²[u, v]‖ over unit u, v, at the worst point. Every climb gives a lower bound, this
  /// is the best of them: an estimate, not a bound.
  double norm = 0;
  /// By what share of the norm it may be too low, as far as the climbs tell. The largest of: how
  /// far below it half of them ended; how far the lowest did, over the number of those that came
  /// within 1 %; 0.1 over the number of climbs; what the last round still gained; the tolerance. An
  /// estimate as well.
  double accuracy = 0;
  /// ‖∂²ŷ/∂θ²[d, d]‖ for the unit displacement d, at the worst point: the curvature that training
  /// meets. Zero without a displacement.
  double along_path = 0;
  int64_t products = 0;  ///< spent
};

/// The norm at the model's present parameters. A climb alternates between the two arguments of
/// wᵀ∂²ŷ/∂θ²[u, u], unit vectors, whose maximum the norm is: for u the best w is one product away,
/// for w the best u is an eigenvector, looked for in a small Krylov space that holds the last one.
/// So the value never falls.
/// @throws InvalidArgument unless products ≥ 0, starts ≥ 1 and the tolerance is positive; otherwise
///   as second_derivative.
Curvature hessian_norm(const Model& model, const torch::Tensor& x,
                       const CurvatureOptions& options = {});

/// The largest norm over the segment from the present parameters θ to θ + ϑ, ϑ [P], which the
/// remainder of Taylor's formula asks for; the first climb starts in the direction of ϑ.
/// @throws InvalidArgument unless products ≥ points ≥ 2 (or 0), or ϑ does not fit.
Curvature hessian_norm_on_segment(const Model& model, const torch::Tensor& x,
                                  const torch::Tensor& displacement,
                                  const CurvatureOptions& options = {});

}  // namespace cdt::kernel
