#include <cdt/control/riccati.h>
#include <cdt/control/riccati/doubling.h>
#include <cdt/control/riccati/hautus.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

#include <cmath>
#include <limits>
#include <utility>

namespace cdt::control {
namespace {

using torch::Tensor;

constexpr int kSquarings = 52;

Tensor weight_matrix(const Tensor& W, int64_t n, std::string_view name) {
  require_floating(W, name);
  CDT_REQUIRE(W.scalar_type() == torch::kFloat64, name, " must be float64, got ", W.scalar_type());
  require_finite(W, name);
  if (W.dim() == 1) {
    require_shape(W, {n}, name);
    return torch::diag(W);
  }
  require_shape(W, {n, n}, name);
  require_symmetric(W, name, tol::symmetry(torch::kFloat64));
  return W;
}

/// Smallest eigenvalue and largest absolute eigenvalue of a symmetric matrix or a diagonal.
std::pair<double, double> smallest_eigenvalue(const Tensor& W) {
  const Tensor values = W.dim() == 1 ? W : torch::linalg_eigvalsh(W);
  return {values.min().item<double>(), values.abs().max().item<double>()};
}

}  // namespace

Tensor require_state_weight(const Tensor& Q, int64_t n) {
  Tensor W = weight_matrix(Q, n, "Q");
  const auto [lowest, size] = smallest_eigenvalue(Q);
  const double slack = static_cast<double>(n) * tol::kEpsilon64 * size;
  CDT_REQUIRE(lowest >= (Q.dim() == 1 ? 0.0 : -slack),
              "Q must be positive semidefinite; its smallest eigenvalue is ", lowest);
  return W;
}

Tensor require_input_weight(const Tensor& R, int64_t m) {
  Tensor W = weight_matrix(R, m, "R");
  const double lowest = smallest_eigenvalue(R).first;
  CDT_REQUIRE(lowest > 0, "R must be positive definite; its smallest eigenvalue is ", lowest);
  return W;
}

double spectral_radius(const Tensor& M) {
  require_square(M, "M");
  Tensor power = M;  // M^(2^k), divided by its accumulated norm
  double size = 0;   // log ‖M^(2^k)‖
  double steps = 1;  // 2^k
  for (int k = 0; k <= kSquarings; ++k) {
    const double norm = power.norm().item<double>();
    if (norm == 0) return 0;
    size = 2 * size + std::log(norm);
    if (k == kSquarings) break;
    power = power / norm;
    power = power.mm(power);
    steps *= 2;
  }
  return std::exp(size / steps);
}

Tensor solve_or_nan(const Tensor& M, const Tensor& X) {
  const auto [solution, failed] = torch::linalg_solve_ex(M, X);
  return failed.item<int>() == 0 ? solution : torch::full_like(solution, NAN);
}

Doubled double_riccati(const Tensor& A0, const Tensor& G0, const Tensor& H0,
                       const RiccatiOptions& options) {
  Tensor A = A0;
  Tensor G = G0;
  Tensor H = H0;
  const Tensor identity = torch::eye(A.size(0), A.options());
  for (int64_t k = 1; k <= options.max_iterations; ++k) {
    // [A, G] ← (I + GH)⁻¹[A, G], one factorisation for both.
    const Tensor solved = solve_or_nan(torch::addmm(identity, G, H), torch::cat({A, G}, 1));
    const Tensor WA = solved.narrow(1, 0, A.size(1));
    const Tensor WG = solved.narrow(1, A.size(1), G.size(1));
    const Tensor step = A.t().mm(H.mm(WA));
    G = G + A.mm(WG).mm(A.t());
    G = (G + G.t()) / 2;
    H = H + (step + step.t()) / 2;
    A = A.mm(WA);
    const double remaining = A.norm().item<double>();
    if (!std::isfinite(remaining) || !std::isfinite(H.norm().item<double>())) return {H, k, false};
    // Compare each entry of the diagonal, which bounds the rest: small weights must converge as
    // well as large ones. A state that costs nothing at first may do so later, so the closed loop
    // must have decayed as well.
    const bool settled = (step.diagonal() <= tol::kDoubling * H.diagonal()).all().item<bool>();
    if (settled && remaining <= tol::kDiedDown) return {H, k, true};
  }
  return {H, options.max_iterations, false};
}

RiccatiSolution solve_riccati(const Tensor& A, const Tensor& B, const Tensor& Q, const Tensor& R,
                              const RiccatiOptions& options) {
  require_square(A, "A");
  const int64_t n = A.size(0);
  require_shape(B, {n, -1}, "B");
  CDT_REQUIRE(B.scalar_type() == torch::kFloat64, "B must be float64, got ", B.scalar_type());
  require_finite(B, "B");
  const Tensor state = require_state_weight(Q, n);
  const Tensor input = require_input_weight(R, B.size(1));
  const Tensor effect = B.mm(torch::cholesky_solve(B.t(), torch::linalg_cholesky(input)));
  require_solvable(A, B, state, input);
  const Doubled doubled =
      refine_riccati(A, effect, state, double_riccati(A, effect, state, options), options);
  if (!doubled.converged) {
    throw NumericalError(
        c10::str("the Riccati iteration did not converge in ", doubled.iterations, " iterations"));
  }
  RiccatiSolution solution;
  solution.P = doubled.P;
  solution.iterations = doubled.iterations;
  const Tensor PA = solution.P.mm(A);
  solution.K = torch::linalg_solve(input + B.t().mm(solution.P.mm(B)), B.t().mm(PA));
  solution.relative_residual = relative_residual(A, solution.P, state, doubled.closed);
  solution.closed_loop_radius = spectral_radius(doubled.closed);
  require_converged(solution);
  return solution;
}

double RiccatiSolution::optimal_cost(const Tensor& x) const {
  require_floating(x, "x");
  require_shape(x, {P.size(0)}, "x");
  CDT_REQUIRE(x.scalar_type() == torch::kFloat64, "x must be float64, got ", x.scalar_type());
  require_finite(x, "x");
  if (!equilibrium.defined()) return 0.5 * torch::dot(x, P.mv(x)).item<double>();
  const int64_t n = equilibrium.size(0);
  const Tensor error = x.narrow(0, 0, n) - x[n] * equilibrium;
  return 0.5 * torch::dot(error, P.narrow(0, 0, n).narrow(1, 0, n).mv(error)).item<double>();
}

double relative_residual(const Tensor& A, const Tensor& P, const Tensor& Q, const Tensor& closed) {
  const double size = P.norm().item<double>();
  return size == 0 ? 0 : (P - Q - A.t().mm(P.mm(closed))).norm().item<double>() / size;
}

void require_converged(const RiccatiSolution& solution) {
  if (!(solution.relative_residual <= tol::kRiccatiResidual)) {
    throw NumericalError(c10::str("the Riccati solution has a relative residual of ",
                                  solution.relative_residual, " after ", solution.iterations,
                                  " iterations; the problem is too ill-conditioned"));
  }
  if (!(solution.closed_loop_radius <= 1 - tol::kUndecayed)) {
    throw NumericalError(c10::str(
        "the closed loop's spectral radius, 1 ", solution.closed_loop_radius < 1 ? "− " : "+ ",
        std::abs(solution.closed_loop_radius - 1), ", cannot be told from 1: some mode ",
        "hardly decays, and its cost would have no right digits. Give it weight in Q"));
  }
}

}  // namespace cdt::control
