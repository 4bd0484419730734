/// Eigenpairs of a kernel Θ ≈ VΛVᵀ, all or the leading ones: the one expensive step of analysis and
/// controller design.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <algorithm>
#include <string_view>

namespace cdt::dynamics {

/// m ≤ n eigenpairs and bounds on the others. A dense decomposition has all, m = n.
struct Modes {
  torch::Tensor values;   ///< λ [m], float64, ascending, not negative; exactly 0 beyond the rank.
  torch::Tensor vectors;  ///< V [n, m], orthonormal columns.
  int64_t rank = 0;       ///< number of values above rank_tolerance·λ_max.
  double rank_tolerance = 0;
  /// Smallest computed eigenvalue, before it was set to zero; may be slightly negative.
  double smallest = 0;
  /// Upper bound on the eigenvalues of Θ on the orthogonal complement of V: vᵀΘv ≤ tail_bound·‖v‖²
  /// there. 0 if m = n.
  double tail_bound = 0;
  /// ‖ΘV − VΛ‖₂ ≤ residual·λ_max; 0 for a dense decomposition, exact up to rounding.
  double residual = 0;

  int64_t size() const { return vectors.size(0); }  ///< n
  int64_t count() const { return values.size(0); }  ///< m
  bool complete() const { return count() == size(); }
  int64_t nullity() const { return count() - rank; }  ///< known null directions
  double largest() const { return values[count() - 1].item<double>(); }
  /// Upper bound on all eigenvalues of Θ, whose blocks on V and its complement are [Λ, Eᵀ; E, Θ_t].
  double upper_bound() const { return std::max(largest(), tail_bound) + residual * largest(); }
  /// [n, nullity]: directions that no label can move.
  torch::Tensor null_vectors() const { return vectors.narrow(1, 0, nullity()); }
  /// Eigenvectors [n, rank] and eigenvalues [rank] of the reachable modes.
  torch::Tensor reachable_vectors() const { return vectors.narrow(1, nullity(), rank); }
  torch::Tensor reachable_values() const { return values.narrow(0, nullity(), rank); }
};

/// All modes of a symmetric positive semidefinite Θ [n, n], float64. `rank_tolerance` is relative
/// to λ_max: tol::rank_of_computed for a kernel computed here, tol::rank_of_stored for one from a
/// file. `precision` is the dtype that Θ was stored in.
/// @throws InvalidArgument if Θ is not square, finite, symmetric to tol::symmetry(`precision`), has
///   an entry beyond tol::kLargestEntry, or an eigenvalue below −rank_tolerance·λ_max (the message
///   gives it).
Modes decompose(const torch::Tensor& theta, double rank_tolerance,
                torch::ScalarType precision = torch::kFloat64);

/// @throws InvalidArgument unless all modes are known; the message begins with `who`.
void require_complete(const Modes& modes, std::string_view who);

/// 1/(c_L λ_max), the unit of learning rates for a loss with gradient c_L·e: the largest rate at
/// which no mode oscillates. 1 for a zero kernel.
/// @throws InvalidArgument unless c_L is positive and finite.
double unit_rate(const Modes& modes, double gradient_factor);

}  // namespace cdt::dynamics
