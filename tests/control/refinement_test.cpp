// Weights that see growing modes only together, beside slow ones: where doubling alone loses its
// digits. The oracle is Newton's method in 34 digits.
#include <cdt/core/tolerance.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/plants.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using test::relative_error;
using torch::Tensor;

using test::kDouble;
constexpr double kInputWeight = 0.1;

/// Square matrices as plain as can be; nothing of the library or of LibTorch in them.
__extension__ using Quad = __float128;
struct Matrix {
  size_t n;
  std::vector<Quad> entries = std::vector<Quad>(n * n);

  Quad& at(size_t i, size_t j) { return entries[i * n + j]; }
  Quad at(size_t i, size_t j) const { return entries[i * n + j]; }
};

Matrix identity(size_t n) {
  Matrix result{n};
  for (size_t i = 0; i < n; ++i) result.at(i, i) = 1;
  return result;
}

Matrix from(const Tensor& values) {
  Matrix result{static_cast<size_t>(values.size(0))};
  const Tensor flat = values.contiguous();
  std::copy_n(flat.data_ptr<double>(), result.entries.size(), result.entries.begin());
  return result;
}

Tensor to_tensor(const Matrix& m) {
  const auto n = static_cast<int64_t>(m.n);
  Tensor result = torch::empty({n, n}, kDouble);
  std::transform(m.entries.begin(), m.entries.end(), result.data_ptr<double>(),
                 [](Quad entry) { return static_cast<double>(entry); });
  return result;
}

Matrix combine(const Matrix& a, Quad factor, const Matrix& b) {
  Matrix result = a;
  for (size_t k = 0; k < a.entries.size(); ++k) result.entries[k] += factor * b.entries[k];
  return result;
}

Matrix transpose(const Matrix& a) {
  Matrix result{a.n};
  for (size_t i = 0; i < a.n; ++i) {
    for (size_t j = 0; j < a.n; ++j) result.at(i, j) = a.at(j, i);
  }
  return result;
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix result{a.n};
  for (size_t i = 0; i < a.n; ++i) {
    for (size_t k = 0; k < a.n; ++k) {
      for (size_t j = 0; j < a.n; ++j) result.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return result;
}

Quad size_of(Quad value) { return value < 0 ? -value : value; }

/// a⁻¹b by Gauss and Jordan with pivots.
Matrix solve(Matrix a, Matrix b) {
  const size_t n = a.n;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (size_of(a.at(i, k)) > size_of(a.at(pivot, k))) pivot = i;
    }
    for (size_t j = 0; j < n; ++j) {
      std::swap(a.at(k, j), a.at(pivot, j));
      std::swap(b.at(k, j), b.at(pivot, j));
    }
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const Quad factor = a.at(i, k) / a.at(k, k);
      for (size_t j = 0; j < n; ++j) {
        a.at(i, j) -= factor * a.at(k, j);
        b.at(i, j) -= factor * b.at(k, j);
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) b.at(i, j) /= a.at(i, i);
  }
  return b;
}

/// The largest change of a diagonal entry, relative to it.
double change(const Matrix& before, const Matrix& after) {
  double largest = 0;
  for (size_t i = 0; i < after.n; ++i) {
    const Quad gap = size_of(after.at(i, i) - before.at(i, i)) / after.at(i, i);
    largest = std::max(largest, static_cast<double>(gap));
  }
  return largest;
}

/// P of step S and weights Q, R, from any gain K that makes the loop stable: the cost of the gain,
/// then the best gain for that cost, until nothing changes.
Matrix exact_cost(const Matrix& S, const Matrix& Q, const Matrix& R, Matrix K) {
  const Matrix I = identity(S.n);
  Matrix P{S.n};
  double moved = 1;
  for (int k = 0; k < 60 && moved > 1e-25; ++k) {
    const Matrix A = combine(I, -1, S);
    Matrix F = combine(A, -1, S * K);
    Matrix next = combine(Q, 1, transpose(K) * (R * K));
    for (double more = 1; more > 1e-30;) {
      const Matrix longer = combine(next, 1, transpose(F) * (next * F));
      more = change(next, longer);
      next = longer;
      F = F * F;
    }
    moved = k == 0 ? 1 : change(P, next);
    P = next;
    K = solve(combine(S * (P * S), 1, R), S * (P * A));
  }
  EXPECT_LE(moved, 1e-25) << "the oracle did not converge";
  return P;
}

struct Case {
  int slowest, fastest;  ///< log₄ of the steps
  int64_t rank;          ///< of Q
  bool refined;          ///< whether doubling alone is not enough on any machine
};

/// Powers of four and odd numbers: the problem itself is free of rounding, and its condition in
/// each mode is about 1 (a relative change of a step or of R changes each cost by no more than some
/// three times as much), so an exact algorithm owes every digit. After Newton's method each mode
/// has the rounding of sums of n terms that do not cancel, over 2 × 30 doublings: 60·nε = 3·10⁻¹³
/// for n = 21, on any IEEE machine; ten times that are allowed. Where doubling was enough, each
/// mode's equation holds to kModesRefined of its terms; the slowest modes of the closed loop may be
/// slower than any of these by their coupling, here up to a thousand times, and err so much more.
void expect_exact(const Case& c, const Tensor& R) {
  const int64_t n = c.fastest - c.slowest + 1;
  torch::manual_seed(static_cast<uint64_t>(n));
  const Tensor S = torch::diag(torch::pow(4.0, torch::arange(c.slowest, c.fastest + 1, kDouble)));
  const Tensor M = 2 * torch::randint(0, 4, {n, c.rank}, kDouble) - 3;
  const Tensor Q = M.mm(M.t());
  const auto found = test::gain_of(dynamics::decompose(S, 1e-15), 1.0, Q, R);
  const Tensor exact = to_tensor(exact_cost(from(S), from(Q), from(R), from(found.gain)));
  const Tensor gaps = (found.cost.diagonal() / exact.diagonal() - 1).abs();
  const double tolerance = c.refined ? 3e-12 : 1e3 * tol::kModesRefined;
  EXPECT_LE(gaps.max().item<double>(), tolerance) << gaps;
  const Tensor A = torch::eye(n, kDouble) - S;
  const Matrix cost = from(S) * (from(exact) * from(S));
  const Tensor K = to_tensor(solve(combine(cost, 1, from(R)), from(S) * (from(exact) * from(A))));
  EXPECT_LE(relative_error(found.gain, K), 1e-6);
  EXPECT_LE(found.residual, test::tol::kRiccati);
}

TEST(Refinement, EveryModeIsExactHoweverSmallItsCost) {
  for (const Case& c : {Case{-7, 10, 1, true},
                        {-13, 7, 3, true},
                        {-13, 7, 1, true},
                        {-16, 7, 2, true},
                        {-10, 3, 1, false},
                        {-10, 3, 14, false}}) {
    SCOPED_TRACE(testing::Message() << "steps from 4^" << c.slowest << " to 4^" << c.fastest
                                    << ", Q of rank " << c.rank);
    expect_exact(c, torch::diag(torch::full({c.fastest - c.slowest + 1}, kInputWeight, kDouble)));
  }
}

TEST(Refinement, WeightsOfTheInputMayMixTheModes) {
  for (const Case& c : {Case{-7, 10, 1, true}, {-13, 7, 1, true}}) {
    SCOPED_TRACE(testing::Message() << "steps from 4^" << c.slowest << " to 4^" << c.fastest);
    const int64_t n = c.fastest - c.slowest + 1;
    torch::manual_seed(3);
    const Tensor mixed = torch::randint(-3, 4, {n, n}, kDouble);
    // Diagonally dominant, with entries that are exact.
    const Tensor R =
        (mixed + mixed.t() + 8.0 * static_cast<double>(n) * torch::eye(n, kDouble)) / 1024;
    expect_exact(c, R);
  }
}

}  // namespace
}  // namespace cdt
