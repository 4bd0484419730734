/// Products of a function of a kernel, known by its modes.
#pragma once

#include <torch/types.h>

namespace cdt::control {

/// V diag(d) Vᵀ + tail·(I − VVᵀ)
inline torch::Tensor matrix_of_modes(const torch::Tensor& V, const torch::Tensor& d, double tail) {
  if (V.size(1) == V.size(0)) return (V * d).mm(V.t());
  return (V * (d - tail)).mm(V.t()).add_(torch::eye(V.size(0), V.options()), tail);
}

/// The same, applied to e. With a tail its part is cleared of V twice: a share of fast modes that
/// was left in it by rounding would be steered as if it were slow.
inline torch::Tensor apply_modes(const torch::Tensor& V, const torch::Tensor& d, double tail,
                                 const torch::Tensor& e) {
  const torch::Tensor modal = V.t().mv(e);
  if (V.size(1) == V.size(0)) return V.mv(modal * d);
  const torch::Tensor rest = e - V.mv(modal);
  const torch::Tensor left = V.t().mv(rest);
  return torch::addmv(tail * (rest - V.mv(left)), V, (modal + left) * d);
}

}  // namespace cdt::control
