#include <cdt/control/finite_horizon.h>
#include <cdt/control/riccati.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>

#include <algorithm>

namespace cdt::control {

using torch::Tensor;

FiniteHorizon solve_finite_horizon(const Tensor& A, const Tensor& B, const Tensor& Q,
                                   const Tensor& R, const Tensor& terminal, int64_t horizon) {
  require_square(A, "A");
  const int64_t n = A.size(0);
  require_shape(B, {n, -1}, "B");
  CDT_REQUIRE(B.scalar_type() == torch::kFloat64, "B must be float64, got ", B.scalar_type());
  require_finite(B, "B");
  CDT_REQUIRE(horizon >= 1, "the horizon must be at least one step, got ", horizon);
  const Tensor state = require_state_weight(Q, n);
  const Tensor input = require_input_weight(R, B.size(1));
  FiniteHorizon result;
  result.P = require_state_weight(terminal, n);
  for (int64_t k = 0; k < horizon; ++k) {
    const Tensor PA = result.P.mm(A);
    const Tensor K = torch::linalg_solve(input + B.t().mm(result.P.mm(B)), B.t().mm(PA));
    const Tensor P = state + PA.t().mm(A - B.mm(K));
    result.P = (P + P.t()) / 2;
    result.gains.push_back(K);
  }
  if (!torch::isfinite(result.P).all().item<bool>()) {
    throw NumericalError(c10::str("the cost to go overflows within a horizon of ", horizon));
  }
  std::reverse(result.gains.begin(), result.gains.end());
  return result;
}

}  // namespace cdt::control
