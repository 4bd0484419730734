/// Leading modes of a kernel that is known by its products alone, with a bound on all others.
///
/// Block Lanczos with full reorthogonalisation and thick restarts: a basis grows by blocks Θ·(last
/// block), and where it is full only the leading Ritz vectors stay. Ritz values lie below
/// eigenvalues, and of an eigenvalue that is repeated more often than a block has columns some
/// copies may never be found; so nothing that the iteration saw bounds what it did not see. What
/// does is Θ ⪰ 0 and a number that is known exactly: with Θ_t = (I − VVᵀ)Θ(I − VVᵀ),
///
///   ‖Θ_t‖₂ ≤ tr Θ_t = tr Θ − Σ vᵀΘv     or     ‖Θ_t‖₂ ≤ ‖Θ_t‖_F, ‖Θ_t‖_F² = ‖Θ‖_F² − ‖VᵀΘV‖_F² −
///   2‖E‖_F²
///
/// for any orthonormal V, E = ΘV − V(VᵀΘV). Both hold whatever the iteration missed, up to
/// rounding, which is added: some nε of tr Θ, the root of it of ‖Θ‖_F. The trace of an empirical
/// NTK is the sum of the squared gradients of all outputs; the other norm suits flat spectra.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

#include <functional>
#include <optional>

namespace cdt::dynamics {

/// X [n, k] ↦ ΘX [n, k], float64, Θ symmetric positive semidefinite.
using KernelProduct = std::function<torch::Tensor(const torch::Tensor&)>;

struct LanczosOptions {
  int64_t modes = 32;  ///< how many; all n if there are no more
  /// Columns of a block: a streamed product costs hardly more for eight columns than for one, and
  /// eigenvalues of that multiplicity are found.
  int64_t block = 8;
  int64_t basis = 0;  ///< columns of the largest basis; 0 means 2·modes + 4·block
  /// ‖Θv − vλ‖ of every mode, relative to λ_max, at which the iteration ends.
  double tolerance = 1e-10;
  int64_t max_restarts = 200;  ///< beyond it the modes are as good as `residual` says
  double rank_tolerance = 0;  ///< values below this share of λ_max count as zero, as in `decompose`
  std::optional<double> trace;         ///< tr Θ
  std::optional<double> squared_norm;  ///< ‖Θ‖_F²
  uint64_t seed = 0;                   ///< of the first block
  torch::Device device = torch::kCPU;
};

/// How they were found.
struct LeadingModes {
  Modes modes;
  bool converged = false;  ///< every mode to the tolerance
  int64_t products = 0;    ///< columns that Θ was applied to
  int64_t restarts = 0;
};

/// The leading modes of Θ [n, n]; `tail_bound` and `residual` (in Frobenius norm, from products
/// taken anew at the end) are certified as above.
/// @throws InvalidArgument if an option is out of range, neither the trace nor the norm is given, a
/// product has another shape or dtype, is not finite or beyond tol::kLargestEntry, or Θ shows a
/// negative eigenvalue or more trace or norm than was said.
LeadingModes leading_modes(const KernelProduct& product, int64_t n, const LanczosOptions& options);

/// λ_max of a symmetric positive semidefinite matrix [n, n], float64: by Lanczos from seeded random
/// vectors, to rounding; on a GPU up to 2000 rows by squaring. Never too large, but for rounding.
double largest_eigenvalue(const torch::Tensor& theta);

/// The same from M = Θᵐ/tr Θᵐ, m = 2⁸, 2¹⁶, …, 2⁴⁰: some ten products and one read, where Lanczos
/// takes two hundred small operations. tr MΘ is the mean of the eigenvalues with weights w_i ∝
/// λ_iᵐ, so it lies below λ_max, by no more than the share 1 − Σw_i² = 1 − ‖M‖², which ends the
/// squaring at 10⁻¹⁰, and by no more than n/(e·m), 10⁻⁹ for 3000 rows, where λ_max is repeated.
/// @throws InvalidArgument if an entry is not finite.
double largest_eigenvalue_by_squaring(const torch::Tensor& theta);

}  // namespace cdt::dynamics
