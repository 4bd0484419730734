#include <cdt/control/riccati.h>
#include <cdt/control/riccati/doubling.h>
#include <cdt/control/riccati/hautus.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

namespace cdt::control {
namespace {

using torch::Tensor;

/// Directions of [I − A₁; Q₁] below this share are ignored: they have no cost.
constexpr double kRestRank = 1e-13;

/// "[0, 0.3, …]": the first numbers of a row
std::string in_words(const Tensor& row) {
  std::string words = "[";
  for (int64_t i = 0; i < std::min<int64_t>(row.size(0), 4); ++i) {
    words += c10::str(i > 0 ? ", " : "", row[i].item<double>());
  }
  return words + (row.size(0) > 4 ? ", …]" : "]");
}

/// [M, −My; −yᵀM, yᵀMy]: the quadratic form eᵀMe in ỹ.
Tensor in_augmented_state(const Tensor& M, const Tensor& y) {
  const Tensor My = M.mm(y);
  return torch::cat({torch::cat({M, -My}, 1), torch::cat({-My.t(), y.t().mm(My)}, 1)}, 0);
}

/// x with A₁x + a = x and Q̃[x; 1] = 0.
Tensor resting_state(const Tensor& A, const Tensor& Q) {
  const int64_t n = A.size(0) - 1;
  const auto block = [n](const Tensor& M) { return M.narrow(0, 0, n).narrow(1, 0, n); };
  const auto last = [n](const Tensor& M) { return M.select(1, n).narrow(0, 0, n); };
  // [I − A₁, a; Q₁, −q], each half scaled to unit norm.
  const auto half = [](const Tensor& M, const Tensor& right) {
    const double size = M.norm().item<double>();
    return torch::cat({M, right.unsqueeze(1)}, 1) / (size > 0 ? size : 1);
  };
  const Tensor both =
      torch::cat({half(torch::eye(n, A.options()) - block(A), last(A)), half(block(Q), -last(Q))});
  const Tensor left = both.narrow(1, 0, n);
  const Tensor right = both.select(1, n);
  const Tensor x = torch::linalg_pinv(left, kRestRank).mv(right);
  const Tensor open =
      (left.mv(x) - right).abs() - tol::kRest * (left.abs().mv(x.abs()) + right.abs());
  const Tensor at_rest = torch::cat({x, torch::ones({1}, x.options())});
  const double cost = torch::dot(at_rest, Q.mv(at_rest)).item<double>();
  const double terms = torch::dot(at_rest.abs(), Q.abs().mv(at_rest.abs())).item<double>();
  CDT_REQUIRE(
      (open <= 0).all().item<bool>() && std::abs(cost) <= tol::kRest * terms,
      "augmented: no state rests without cost, x = A₁x + a and Q̃[x; 1] = 0, so that every "
      "cost is infinite; expected Q̃ = [Q, −Qy; −yᵀQ, yᵀQy] of the labels y in a = (I − A₁)y");
  return x;
}

}  // namespace

AugmentedView augmented_view(const Tensor& S, const Tensor& K, const Tensor& P, const Tensor& Q,
                             const Tensor& y) {
  require_square(S, "S");
  const int64_t n = S.size(0);
  for (const auto& [matrix, name] : {std::pair{K, "K"}, {P, "P"}, {Q, "Q"}}) {
    require_square(matrix, name);
    require_shape(matrix, {n, n}, name);
  }
  require_shape(y, {n}, "y");
  CDT_REQUIRE(y.scalar_type() == torch::kFloat64, "y must be float64, got ", y.scalar_type());
  require_finite(y, "y");
  const Tensor labels = y.unsqueeze(1);
  const auto options = S.options();
  AugmentedView view;
  const Tensor top = torch::cat({torch::eye(n, options) - S, S.mm(labels)}, 1);
  const Tensor bottom =
      torch::cat({torch::zeros({1, n}, options), torch::ones({1, 1}, options)}, 1);
  view.A = torch::cat({top, bottom}, 0);
  view.B = torch::cat({S, torch::zeros({1, n}, options)}, 0);
  view.Q = in_augmented_state(Q, labels);
  view.K = torch::cat({K, -K.mm(labels)}, 1);
  view.P = in_augmented_state(P, labels);
  view.closed_loop = view.A - view.B.mm(view.K);
  return view;
}

RiccatiSolution solve_augmented_riccati(const Tensor& A, const Tensor& B, const Tensor& Q,
                                        const Tensor& R, const RiccatiOptions& options) {
  require_square(A, "A");
  const int64_t n = A.size(0) - 1;
  CDT_REQUIRE(n >= 1, "augmented: A must be [A₁, a; 0, 1] with a state besides the 1");
  require_shape(B, {n + 1, -1}, "B");
  require_finite(B, "B");
  const Tensor weight = require_state_weight(Q, n + 1);
  Tensor row = A[n].clone();
  row[n] -= 1;
  CDT_REQUIRE((row == 0).all().item<bool>() && (B[n] == 0).all().item<bool>(),
              "augmented: A must be [A₁, a; 0, 1] and B [B₁; 0], but their last rows are ",
              in_words(A[n]), " and ", in_words(B[n]));
  const auto block = [n](const Tensor& M) { return M.narrow(0, 0, n).narrow(1, 0, n); };
  const Tensor state = block(weight).contiguous();
  RiccatiSolution solution;
  try {
    solution =
        solve_riccati(block(A).contiguous(), B.narrow(0, 0, n).contiguous(), state, R, options);
  } catch (const NotStabilizable& error) {
    throw InvalidArgument("augmented, of the blocks A₁ and B₁ beside the 1: " + error.mode());
  }
  solution.equilibrium = resting_state(A, weight);
  const Tensor rest = solution.equilibrium.unsqueeze(1);
  solution.K = torch::cat({solution.K, -solution.K.mm(rest)}, 1);
  solution.P = in_augmented_state(solution.P, rest);
  solution.relative_residual = relative_residual(A, solution.P, weight, A - B.mm(solution.K));
  require_converged(solution);
  return solution;
}

}  // namespace cdt::control
