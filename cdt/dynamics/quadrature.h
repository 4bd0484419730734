/// The spectrum of a kernel that is known by its products alone: its density, and traces of
/// functions of it, by stochastic Lanczos quadrature.
///
/// The trace of f(Θ) is Σ f(λ) over modes V that are known and tr f(Θ_t), Θ_t being Θ on the
/// complement of V. There random signs g give gᵀf(Θ_t)g·(n − m)/‖g‖², whose mean is that trace; a
/// Lanczos iteration of k steps from g turns each into k nodes and weights (Gauss quadrature: exact
/// for polynomials of degree 2k − 1, and for any f after as many steps as Θ_t has different
/// eigenvalues). Taking the large modes out first is what Hutch++ does with a random basis: what is
/// left to chance is small.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/lanczos.h>

namespace cdt::dynamics {

/// A mean over probes and its standard error, which knows nothing of a quadrature with too few
/// steps. Without a complement there is no error.
struct TraceEstimate {
  double value = 0;
  double error = 0;
};

struct QuadratureOptions {
  int64_t probes = 8;  ///< g, side by side: columns of a product
  int64_t steps = 24;  ///< k, products with each
  uint64_t seed = 0;
};

struct SpectralQuadrature {
  int64_t n = 0;
  torch::Tensor known;    ///< λ [m] of the modes that were given
  torch::Tensor nodes;    ///< [p, k], of the complement; none below zero
  torch::Tensor weights;  ///< [p, k], Σ_k = n − m each

  /// tr f(Θ), f being of tensors, entry by entry.
  TraceEstimate trace(const std::function<torch::Tensor(const torch::Tensor&)>& f) const;
  /// How many eigenvalues are at least λ.
  TraceEstimate count_from(double lambda) const;
};

/// Of Θ [n, n] ⪰ 0, with modes that are known of it (m < n columns, or none). Full
/// reorthogonalisation: without it, copies of found nodes would take weight from others.
/// @throws InvalidArgument if an option is not positive, modes have another size, or a product has
/// another shape or dtype or is not finite.
SpectralQuadrature stochastic_quadrature(const KernelProduct& product, int64_t n,
                                         const Modes* modes, const QuadratureOptions& options,
                                         torch::Device device = torch::kCPU);

}  // namespace cdt::dynamics
