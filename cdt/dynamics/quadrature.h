/// The spectrum of a kernel given by products only: its density, and traces of functions of it, by
/// stochastic Lanczos quadrature.
///
/// The trace of f(Θ) is Σ f(λ) over known modes V plus tr f(Θ_t), Θ_t being Θ on the complement of
/// V. For random signs g in the complement, gᵀf(Θ_t)g·(n − m)/‖g‖² has that trace as its mean. A
/// Lanczos iteration of k steps from g turns each into k nodes and weights (Gauss quadrature: exact
/// for polynomials of degree 2k − 1, and for any f after as many steps as Θ_t has distinct
/// eigenvalues). Taking out the large modes first leaves a small random part, as a random basis
/// does in Hutch++.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/lanczos.h>

namespace cdt::dynamics {

/// A mean over probes and its standard error, which does not include the error of too few
/// quadrature steps. Without a complement the error is 0.
struct TraceEstimate {
  double value = 0;
  double error = 0;
};

struct QuadratureOptions {
  int64_t probes = 8;  ///< g, processed together as columns of a product
  int64_t steps = 24;  ///< k, products per probe
  uint64_t seed = 0;
};

struct SpectralQuadrature {
  int64_t n = 0;
  torch::Tensor known;    ///< λ [m] of the given modes
  torch::Tensor nodes;    ///< [p, k], of the complement; not negative
  torch::Tensor weights;  ///< [p, k], Σ_k = n − m each

  /// tr f(Θ); f acts on tensors elementwise.
  TraceEstimate trace(const std::function<torch::Tensor(const torch::Tensor&)>& f) const;
  /// Number of eigenvalues that are at least λ.
  TraceEstimate count_from(double lambda) const;
};

/// Quadrature for Θ [n, n] ⪰ 0, with known modes of it (m < n columns, or none). Reorthogonalises
/// fully; otherwise copies of found nodes would take weight from others.
/// @throws InvalidArgument if an option is not positive, modes have another size, or a product has
///   another shape or dtype or is not finite.
SpectralQuadrature stochastic_quadrature(const KernelProduct& product, int64_t n,
                                         const Modes* modes, const QuadratureOptions& options,
                                         torch::Device device = torch::kCPU);

}  // namespace cdt::dynamics
