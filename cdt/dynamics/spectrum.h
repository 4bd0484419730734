/// The eigendecomposition of a kernel, Θ = VΛVᵀ: the one expensive step on which analysis and
/// controller stand.
#pragma once

#include <cdt/dynamics/loss.h>
#include <torch/types.h>

namespace cdt::dynamics {

struct Spectrum {
  torch::Tensor
      eigenvalues;  ///< λ [n], float64, ascending, none below zero; exactly 0 beyond the rank.
  torch::Tensor eigenvectors;  ///< V [n, n], orthonormal columns.
  int64_t rank = 0;            ///< number of eigenvalues above rank_tolerance·λ_max.
  double rank_tolerance = 0;
  double smallest = 0;  ///< the smallest eigenvalue as computed, before it was called zero; may be
                        ///< slightly negative.

  int64_t size() const { return eigenvalues.size(0); }
  int64_t nullity() const { return size() - rank; }
  double largest() const { return eigenvalues[size() - 1].item<double>(); }
  /// [n, nullity]: directions that no label moves.
  torch::Tensor null_vectors() const { return eigenvectors.narrow(1, 0, nullity()); }
  /// [n, rank] and their eigenvalues [rank].
  torch::Tensor reachable_vectors() const { return eigenvectors.narrow(1, nullity(), rank); }
  torch::Tensor reachable_values() const { return eigenvalues.narrow(0, nullity(), rank); }
};

/// Decomposes a symmetric positive semidefinite Θ [n, n], float64. `rank_tolerance` is relative to
/// λ_max: tol::rank_of_computed for a kernel computed here, tol::rank_of_stored for one from a
/// file.
/// @throws InvalidArgument if Θ is not square, finite, symmetric to tol::symmetry(`precision`), or
/// has an eigenvalue below
///   −rank_tolerance·λ_max (the message gives it). `precision` is the dtype that Θ once had.
Spectrum decompose(const torch::Tensor& theta, double rank_tolerance,
                   torch::ScalarType precision = torch::kFloat64);

/// 1/(c_L λ_max), the unit of learning rates: the largest at which no mode oscillates. 1 for a zero
/// kernel.
double unit_rate(const Spectrum& spectrum, Loss loss);

}  // namespace cdt::dynamics
