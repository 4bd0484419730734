#include <cdt/control/augmented_view.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>

namespace cdt::control {
namespace {

using torch::Tensor;

/// [M, −My; −yᵀM, yᵀMy]: the quadratic form eᵀMe in ỹ.
Tensor in_augmented_state(const Tensor& M, const Tensor& y) {
  const Tensor My = M.mm(y);
  return torch::cat({torch::cat({M, -My}, 1), torch::cat({-My.t(), y.t().mm(My)}, 1)}, 0);
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
  CDT_REQUIRE(y.scalar_type() == torch::kFloat64, "y must be float64, not ", y.scalar_type());
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

}  // namespace cdt::control
