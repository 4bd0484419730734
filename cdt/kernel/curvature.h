/// How strongly a network bends in its parameters: the norm of ∂²ŷ/∂θ² in the Lagrange bound (paper
/// eq. NTK:overbound), estimated.
#pragma once

#include <cdt/kernel/model.h>

#include <optional>

namespace cdt::kernel {

struct CurvatureOptions {
  /// Products with second derivatives in all, whatever the number of points. Eight find the norm of
  /// a small network within a few per cent; each costs about three gradient steps.
  int64_t products = 8;
  /// Points of a segment at which the norm is estimated: its ends, and evenly between them.
  int64_t points = 2;
  /// Of the random direction to start with, where no displacement gives one.
  uint64_t seed = 1;
};

struct Curvature {
  /// max ‖∂²ŷ/∂θ²[u, v]‖ over unit u, v, at the worst point: every product gives a lower bound,
  /// this is the best of them. An estimate, not a bound.
  double norm = 0;
  /// ‖∂²ŷ/∂θ²[d, d]‖ for the unit displacement d, at the worst point: the curvature that training
  /// meets. Zero without a displacement.
  double along_path = 0;
  int64_t products = 0;  ///< spent
};

/// The norm at the model's present parameters, by alternating power iteration on wᵀ∂²ŷ/∂θ²[u, v]:
/// two of the three unit vectors fixed, the best third is one product away, so the value never
/// falls.
/// @throws InvalidArgument unless products ≥ 1; otherwise as second_derivative.
Curvature hessian_norm(const Model& model, const torch::Tensor& x,
                       const CurvatureOptions& options = {});

/// The largest norm over the segment from the present parameters θ to θ + ϑ, ϑ [P], which the
/// remainder of Taylor's formula asks for; it starts in the direction of ϑ.
/// @throws InvalidArgument unless products ≥ points ≥ 2, or ϑ does not fit.
Curvature hessian_norm_on_segment(const Model& model, const torch::Tensor& x,
                                  const torch::Tensor& displacement,
                                  const CurvatureOptions& options = {});

}  // namespace cdt::kernel
