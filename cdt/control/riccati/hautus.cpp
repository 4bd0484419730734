/// The textbook test fails in floating point for two reasons. Units: a state in millimetres is a
/// large one, so all states are balanced first. Eigenvalues: those of a matrix far from normal, or
/// multiple ones, have far fewer digits than the matrix, and 1 may be computed as 0.9999. The rank
/// of [A − zI, B] is therefore tested not only at a computed z, but also at the nearby z where it
/// is least (uᴴAu, with u its last left singular vector), and at the point of the unit circle
/// closest to that.
#include <cdt/control/riccati/hautus.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>
#include <vector>

namespace cdt::control {
namespace {

using torch::Tensor;
using Complex = c10::complex<double>;

constexpr int kBalancings = 40;
constexpr double kLargestUnit = 50;  // log₂
constexpr int kSearches = 4;
/// An eigenvalue needs no closer look if it is well-conditioned, separated from the others by
/// kApart·‖A‖, and the inputs move its left eigenvector by more than kMoved.
constexpr double kApart = 1e-5;
constexpr double kMoved = 1e-4;
constexpr double kWellConditioned = 1e3;
/// The relative error assumed for eigenvalues lies between these.
constexpr double kTrusted = 1e-9;
constexpr double kMistrusted = 1e-2;

/// Powers of two d [n] such that in x = diag(d)x′ the rows and columns of [A, b; cᵀ, 0] have
/// similar sizes (Osborne); b and c are the sizes of each state's inputs and costs. For a state
/// without inputs or costs d is unbounded, so it is limited to kLargestUnit.
Tensor balancing(const Tensor& A, const Tensor& b, const Tensor& c) {
  const int64_t n = A.size(0);
  Tensor M = torch::zeros({n + 1, n + 1}, A.options());
  M.narrow(0, 0, n).narrow(1, 0, n).copy_(A.abs());
  M.narrow(0, 0, n).select(1, n).copy_(b);
  M.select(0, n).narrow(0, 0, n).copy_(c);
  M.fill_diagonal_(0);
  std::vector<double> d(static_cast<size_t>(n + 1), 1.0);
  for (int round = 0; round < kBalancings; ++round) {
    bool changed = false;
    for (int64_t i = 0; i <= n; ++i) {
      const double row = M[i].norm().item<double>();
      const double column = M.select(1, i).norm().item<double>();
      if (!(row > 0 && column > 0)) continue;
      const double factor = std::exp2(std::round(0.5 * std::log2(row / column)));
      if (column * factor + row / factor > 0.95 * (column + row)) continue;
      if (std::abs(std::log2(d[static_cast<size_t>(i)] * factor)) > kLargestUnit) continue;
      M[i].div_(factor);
      M.select(1, i).mul_(factor);
      d[static_cast<size_t>(i)] *= factor;
      changed = true;
    }
    if (!changed) break;
  }
  return torch::tensor(d, A.options()).narrow(0, 0, n);
}

/// How far [A − zI, B] is from losing rank n, as a share of ‖A‖, and the direction that is lost.
struct Kept {
  double share;
  Tensor u;
};

Kept kept_rank(const Tensor& A, const Tensor& B, Complex z, double size) {
  const int64_t n = A.size(0);
  const Tensor pencil = torch::cat({A - z * torch::eye(n, A.options()), B}, 1);
  const auto [U, S, Vh] = torch::linalg_svd(pencil, /*full_matrices=*/false);
  return {S[n - 1].item<double>() / size, U.select(1, n - 1)};
}

/// The eigenvalue of a mode that does not decay and that no column of B moves. Runs on the CPU.
std::optional<Complex> unmoved_mode(const Tensor& A, const Tensor& B) {
  const int64_t n = A.size(0);
  const double size = A.norm().item<double>();
  if (size < 1 - tol::kUndecayed) return std::nullopt;  // no eigenvalue is larger
  const double moved = B.norm().item<double>();
  const double rounding = 10 * static_cast<double>(n) * tol::kEpsilon64;
  const Tensor state = A.to(torch::kComplexDouble);
  const Tensor input = (moved > 0 ? B * (size / moved) : B).to(torch::kComplexDouble);
  const auto [eigenvalues, V] = torch::linalg_eig(A);
  const auto [W, singular] = torch::linalg_inv_ex(V);
  const Tensor lengths = W.abs().square().sum(1).sqrt();
  Tensor conditions = singular.item<int>() == 0 ? lengths : torch::full_like(lengths, INFINITY);
  conditions = conditions.nan_to_num(INFINITY, INFINITY);
  const Tensor strengths = W.mm(input).abs().square().sum(1).sqrt() / lengths / size;
  const auto z = [&](int64_t i) { return eigenvalues[i].item<Complex>(); };
  struct Tried {
    Complex at;
    double share;
  };
  std::vector<Tried> tried;
  const auto near = [&](Complex a, Complex b, double share) {
    return std::abs(a - b) <= share * size;
  };
  for (int64_t i = 0; i < n; ++i) {
    Complex at = z(i);
    const double condition = conditions[i].item<double>();
    const double trust = std::clamp(rounding * size * condition, kTrusted, kMistrusted);
    if (at.imag() < 0 || std::abs(at) < 1 - trust) continue;
    bool apart = condition <= kWellConditioned && strengths[i].item<double>() >= kMoved;
    for (int64_t j = 0; j < n && apart; ++j) apart = j == i || !near(at, z(j), kApart);
    if (apart) continue;
    // The share changes by at most the change of z/‖A‖: a cluster of eigenvalues needs one test.
    const double reach = trust / size;
    const auto answers = [&](const Tried& other) {
      return other.share - std::abs(at - other.at) / size - reach > tol::kLostDirection;
    };
    if (std::any_of(tried.begin(), tried.end(), answers)) continue;
    Kept kept = kept_rank(state, input, at, size);
    tried.push_back({at, kept.share});
    if (answers(tried.back())) continue;
    for (int k = 0; k < kSearches && kept.share > rounding; ++k) {
      const Complex better = (kept.u.conj() * state.mv(kept.u)).sum().item<Complex>();
      if (!near(at, better, kMistrusted)) break;  // this is another mode
      const Kept there = kept_rank(state, input, better, size);
      if (!(there.share < kept.share)) break;
      kept = there;
      at = better;
    }
    if (kept.share > tol::kLostDirection) continue;
    const double modulus = std::abs(at);
    if (modulus >= 1 - tol::kUndecayed) return at;
    const Complex on_circle = at / modulus;
    if (kept_rank(state, input, on_circle, size).share <= rounding) return on_circle;
  }
  return std::nullopt;
}

/// "1.2", "-0.5+0.86i"
std::string complex_in_words(Complex z) {
  const double imaginary = std::abs(z.imag()) <= 1e-6 * std::abs(z) ? 0 : z.imag();
  return imaginary == 0 ? c10::str(z.real())
                        : c10::str(z.real(), imaginary > 0 ? "+" : "", imaginary, "i");
}

}  // namespace

void require_solvable(const Tensor& A, const Tensor& B, const Tensor& Q, const Tensor& R) {
  const Tensor factor = torch::linalg_cholesky(R.cpu());
  const Tensor moves =
      torch::linalg_solve_triangular(factor, B.cpu().t(), /*upper=*/false).t();  // BR^−½
  const Tensor d = balancing(A.cpu(), moves.norm(2, {1}), Q.cpu().diagonal().clamp_min(0).sqrt());
  const Tensor state = A.cpu() * d / d.unsqueeze(1);
  if (const auto z = unmoved_mode(state, moves / d.unsqueeze(1))) {
    const bool one = std::abs(*z - 1.0) <= 1e-6;
    throw NotStabilizable(
        c10::str("(A, B) must be stabilizable, but no input moves the mode of A's eigenvalue ",
                 complex_in_words(*z), "; project null modes out first"),
        one ? ", or solve the paper's state [ŷ; 1] with augmented=True (solve_augmented_riccati)"
            : "");
  }
  if (const auto z = unmoved_mode(state.t().contiguous(), Q.cpu() * d * d.unsqueeze(1))) {
    throw NumericalError(c10::str("(A, Q) is not detectable: the mode of A's eigenvalue ",
                                  complex_in_words(*z),
                                  " does not decay and costs nothing; give it weight in Q"));
  }
}

}  // namespace cdt::control
