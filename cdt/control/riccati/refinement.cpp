/// Newton's method for the Riccati equation after doubling, and its accuracy.
///
/// Kleinman's form computes the cost P of a gain K, P = Q + KᵀRK + FᵀPF with F = A − BK. An error
/// of K enters P squared, since the best gain is a minimum. The accuracy of P therefore depends on
/// how well F matches K and on the summation of Σ (Fᵀ)ᵏ(Q + KᵀRK)Fᵏ. For modes, A = I − diag(s),
/// both keep their digits:
///
/// - For a slow mode 1 − F is small, and F has lost its digits: ε in F is ε/s of P. So D = I − F =
///   S + BK, a sum of small numbers, is stored beside F, and I − F² = 2D − D².
/// - For a fast mode F is small, and A − BK has lost its digits: ε in BK is εs of F. So F is
///   computed from (I + GP)⁻¹A, and K from F, BK = A − F.
///
/// With G = CCᵀ (Cholesky, modes ascending) and K' = CᵀPF, the gain in units of R^½, the slow rows
/// of K' determine those of D, and the fast rows of F those of K', by one triangular solve. The
/// remaining error is the rounding of products of n terms that do not cancel, some nε, in each
/// mode.
#include <cdt/control/riccati/doubling.h>
#include <cdt/core/tolerance.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::control {
namespace {

using torch::Tensor;

/// 1 to 8 iterations from the result of doubling, up to 30 from larger weights.
constexpr int kRefinements = 100;

/// The closed loop of a gain and what a step under it costs.
struct Loop {
  Tensor F;
  Tensor D{};     ///< I − F with the digits of slow modes; undefined if the modes are unknown
  Tensor weight;  ///< Q + KᵀRK
  Tensor closed;  ///< (I + GP)⁻¹A, which gives the smallest residual of the equation
};

/// A − BK = (I + GP)⁻¹A with G = BR⁻¹Bᵀ: at large steps the difference of A and BK keeps few
/// digits, this form keeps all.
Tensor closed_loop(const Tensor& A, const Tensor& G, const Tensor& P) {
  return solve_or_nan(torch::addmm(torch::eye(A.size(0), A.options()), G, P), A);
}

/// P's diagonal, bounded away from zero for states without cost.
Tensor mode_sizes(const Tensor& P) {
  const Tensor sizes = P.diagonal();
  return sizes.clamp_min(sizes.max().item<double>() * tol::kEpsilon64 * tol::kEpsilon64);
}

/// The largest entry of the equation's residual, each relative to the costs of its two states:
/// modes of small cost must be as accurate as those of large cost.
double residual_gap(const Tensor& P, const Tensor& residual) {
  const Tensor roots = mode_sizes(P).sqrt();
  return (residual.abs() / roots / roots.unsqueeze(1)).max().item<double>();
}

/// The rows of I that belong to some modes.
Tensor unit_rows(int64_t first, int64_t count, int64_t n, const torch::TensorOptions& options) {
  return torch::eye(n, options).narrow(0, first, count);
}

/// The best gain for the cost P, KᵀRK = FᵀPGPF, and the residual `gap` of P in the equation,
/// relative to its tolerance: P is accurate if `gap` ≤ 1.
struct Gains {
  const Tensor& A;
  const Tensor& G;
  const Tensor& Q;

  Loop operator()(const Tensor& P) const {
    const Tensor F = closed_loop(A, G, P);
    const Tensor PF = P.mm(F);
    const Tensor weight = Q + PF.t().mm(G.mm(PF));
    return {F, {}, (weight + weight.t()) / 2, F};
  }

  double gap(const Tensor& P, const Loop& loop) const {
    return residual_gap(P, P - Q - A.t().mm(P.mm(loop.closed))) / tol::kRiccatiRefined;
  }
  static constexpr double kSettled = tol::kRiccatiRefined;
};

/// The same for A = I − diag(s).
struct ModalGains {
  Tensor s, A, G, Q;
  Tensor C;          ///< G = CCᵀ, lower triangular
  int64_t slow = 0;  ///< number of modes with s ≤ 1: the first ones

  Loop operator()(const Tensor& P) const {
    const int64_t n = s.size(0);
    const int64_t fast = n - slow;
    const Tensor F = closed_loop(A, G, P);
    const Tensor K = C.t().mm(P.mm(F)).narrow(0, 0, slow);
    const Tensor D =
        torch::diag(s).narrow(0, 0, slow) + C.narrow(0, 0, slow).narrow(1, 0, slow).mm(K);
    const Tensor quick = F.narrow(0, slow, fast);
    const Tensor moved =
        A.narrow(0, slow, fast) - quick - C.narrow(0, slow, fast).narrow(1, 0, slow).mm(K);
    const Tensor rest = torch::linalg_solve_triangular(
        C.narrow(0, slow, fast).narrow(1, slow, fast), moved, /*upper=*/false);
    const Tensor all = torch::cat({K, rest});
    const Tensor weight = Q + all.t().mm(all);
    return {torch::cat({unit_rows(0, slow, n, s.options()) - D, quick}),
            torch::cat({D, unit_rows(slow, fast, n, s.options()) - quick}),
            (weight + weight.t()) / 2, F};
  }

  /// As above; in addition the largest entry of weight + FᵀPF − P relative to the terms of its two
  /// modes' own equations, which is the relative error of P. Between slow modes it is computed as
  /// weight − PD − DᵀPF, whose terms are as small as the modes are slow.
  double gap(const Tensor& P, const Loop& loop) const {
    const Tensor PF = P.mm(loop.F);
    const Tensor PD = P.narrow(0, 0, slow).mm(loop.D.narrow(1, 0, slow));
    const Tensor DPF = loop.D.t().narrow(0, 0, slow).mm(PF.narrow(1, 0, slow));
    const Tensor later = loop.F.t().mm(PF);
    Tensor gaps = loop.weight + later - P;
    Tensor sizes = loop.weight.diagonal() + later.diagonal().abs();
    const Tensor weight = loop.weight.narrow(0, 0, slow).narrow(1, 0, slow);
    gaps.narrow(0, 0, slow).narrow(1, 0, slow).copy_(weight - PD - DPF);
    sizes.narrow(0, 0, slow).copy_(weight.diagonal() + PD.diagonal().abs() + DPF.diagonal().abs());
    const Tensor roots =
        sizes.clamp_min(sizes.max().item<double>() * tol::kEpsilon64 * tol::kEpsilon64).sqrt();
    const double of_modes = (gaps.abs() / roots / roots.unsqueeze(1)).max().item<double>();
    const Tensor residual = P - Q - (1 - s).unsqueeze(1) * P.mm(loop.closed);
    return std::max(residual_gap(P, residual) / tol::kRiccatiRefined,
                    of_modes / tol::kModesRefined);
  }
  /// The remaining error is the square of the change, since a step is exact but for some hundred ε.
  static constexpr double kSettled = 1e-7;
};

/// Σ (Fᵀ)ᵏWFᵏ, which solves X = W + FᵀXF, by doubling the number of terms.
Tensor sum_of_powers(const Loop& loop, const RiccatiOptions& options) {
  Tensor F = loop.F;
  Tensor D = loop.D;
  Tensor X = loop.weight;
  const Tensor identity = torch::eye(F.size(0), F.options());
  for (int64_t k = 0; k < options.max_iterations; ++k) {
    const Tensor more = F.t().mm(X.mm(F));
    X = X + (more + more.t()) / 2;
    const bool settled = (more.diagonal() <= tol::kDoubling * X.diagonal()).all().item<bool>();
    if (settled || !std::isfinite(X.norm().item<double>())) break;
    F = F.mm(F);
    if (D.defined()) {
      D = 2 * D - D.mm(D);
      const Tensor known = D.abs() <= F.abs();  // the smaller of the two has more digits
      F = torch::where(known, identity - D, F);
      D = torch::where(known, D, identity - F);
    }
  }
  return X;
}

template <class Gain>
Doubled newton(const Gain& gain, const Doubled& doubled, const RiccatiOptions& options) {
  Doubled refined = doubled;
  Loop loop;
  double gap = std::numeric_limits<double>::infinity();
  if (doubled.converged) {
    loop = gain(doubled.P);
    refined.closed = loop.closed;
    gap = gain.gap(doubled.P, loop);
    if (gap <= 1) return refined;
  }
  if (!std::isfinite(gap) || !(spectral_radius(refined.closed) <= 1 - tol::kUndecayed)) {
    // Not a valid start for Newton's method. With weight on every state doubling loses no digits,
    // and its closed loop is stable.
    const Tensor more = gain.Q + gain.Q.norm() * torch::eye(gain.A.size(0), gain.A.options());
    const Doubled start = double_riccati(gain.A, gain.G, more, options);
    if (!start.converged) {
      refined.converged = false;
      return refined;
    }
    refined.P = start.P;
    refined.iterations += start.iterations;
    loop = gain(start.P);
  }
  refined.converged = false;
  double last = std::numeric_limits<double>::infinity();
  for (int k = 0; k < kRefinements && !refined.converged; ++k) {
    const Tensor P = sum_of_powers(loop, options);
    const Tensor sizes = mode_sizes(P);
    const double change =
        ((P - refined.P).diagonal().abs() / sizes).max().item<double>();  // of the worst mode
    ++refined.iterations;
    if (!std::isfinite(change)) break;
    refined.P = P;
    loop = gain(P);
    // Convergence is quadratic in the end, until rounding.
    refined.converged = change <= Gain::kSettled || (change < 0.01 && change >= last / 2);
    last = change;
  }
  refined.closed = loop.closed;
  return refined;
}

}  // namespace

Doubled refine_riccati(const Tensor& A, const Tensor& G, const Tensor& Q, const Doubled& doubled,
                       const RiccatiOptions& options) {
  return newton(Gains{A, G, Q}, doubled, options);
}

Doubled refine_modes(const Tensor& s, const Tensor& G, const Tensor& Q, const Doubled& doubled,
                     const RiccatiOptions& options) {
  const auto [C, failed] = torch::linalg_cholesky_ex(G);
  const Tensor A = torch::diag(1 - s);
  if (failed.item<int>() != 0) return refine_riccati(A, G, Q, doubled, options);
  return newton(ModalGains{s, A, G, Q, C, (s <= 1).sum().item<int64_t>()}, doubled, options);
}

}  // namespace cdt::control
