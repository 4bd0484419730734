/// Leading modes of a kernel given by products only, with a bound on all other eigenvalues.
///
/// Block Lanczos with full reorthogonalisation and thick restarts: the basis grows by blocks
/// Θ·(last block); when it is full, only the leading Ritz vectors are kept. Ritz values lie below
/// eigenvalues, and copies of an eigenvalue with a multiplicity above the block size may never be
/// found, so the iteration alone gives no bound on the rest. Θ ⪰ 0 and a number known exactly do:
/// with Θ_t = (I − VVᵀ)Θ(I − VVᵀ),
///
///   ‖Θ_t‖₂ ≤ tr Θ_t = tr Θ − Σ vᵀΘv     or     ‖Θ_t‖₂ ≤ ‖Θ_t‖_F, ‖Θ_t‖_F² = ‖Θ‖_F² − ‖VᵀΘV‖_F² −
///   2‖E‖_F²
///
/// for any orthonormal V, E = ΘV − V(VᵀΘV). Both hold whatever the iteration missed, up to
/// rounding, which is added: about nε of tr Θ, and its root for ‖Θ‖_F. The trace of an empirical
/// NTK is the sum of the squared gradients of all outputs; the Frobenius norm suits flat spectra.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

#include <functional>
#include <optional>

namespace cdt::dynamics {

/// X [n, k] ↦ ΘX [n, k], float64, Θ symmetric positive semidefinite.
using KernelProduct = std::function<torch::Tensor(const torch::Tensor&)>;

struct LanczosOptions {
  int64_t modes = 32;  ///< number of modes; at most n
  /// Columns per block. A streamed product of eight columns costs hardly more than of one, and
  /// finds eigenvalues of that multiplicity.
  int64_t block = 8;
  int64_t basis = 0;  ///< columns of the largest basis; 0 means 2·modes + 4·block
  /// Convergence tolerance: ‖Θv − vλ‖ of every mode, relative to λ_max.
  double tolerance = 1e-10;
  int64_t max_restarts = 200;  ///< then the iteration stops; see `residual`
  double rank_tolerance = 0;  ///< values below this share of λ_max count as zero, as in `decompose`
  std::optional<double> trace;         ///< tr Θ
  std::optional<double> squared_norm;  ///< ‖Θ‖_F²
  uint64_t seed = 0;                   ///< seed of the first block
  torch::Device device = torch::kCPU;
};

/// Modes and how they were computed.
struct LeadingModes {
  Modes modes;
  bool converged = false;  ///< whether every mode meets the tolerance
  int64_t products = 0;    ///< number of columns multiplied by Θ
  int64_t restarts = 0;
};

/// The leading modes of Θ [n, n]. `tail_bound` and `residual` (in Frobenius norm, from new products
/// at the end) are certified as above.
/// @throws InvalidArgument if an option is out of range, neither the trace nor the norm is given, a
///   product has another shape or dtype, is not finite or beyond tol::kLargestEntry, or Θ has a
///   negative eigenvalue or a larger trace or norm than given.
LeadingModes leading_modes(const KernelProduct& product, int64_t n, const LanczosOptions& options);

/// λ_max of a symmetric positive semidefinite matrix [n, n], float64, to rounding: by Lanczos from
/// seeded random vectors, on a GPU for up to 2000 rows by squaring. Never too large, except by
/// rounding.
double largest_eigenvalue(const torch::Tensor& theta);

/// λ_max from M = Θᵐ/tr Θᵐ, m = 2⁸, 2¹⁶, …, 2⁴⁰: about ten products and one read, where Lanczos
/// takes two hundred small operations. tr MΘ is the mean of the eigenvalues with weights w_i ∝
/// λ_iᵐ. It lies below λ_max by at most the share 1 − Σw_i² = 1 − ‖M‖² (the squaring stops at
/// 10⁻¹⁰), and, if λ_max is repeated, by at most n/(e·m), 10⁻⁹ for 3000 rows.
/// @throws InvalidArgument if an entry is not finite.
double largest_eigenvalue_by_squaring(const torch::Tensor& theta);

}  // namespace cdt::dynamics
