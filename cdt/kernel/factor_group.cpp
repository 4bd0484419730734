#include <cdt/kernel/factor_group.h>

namespace cdt::kernel {

using torch::Tensor;

Tensor to_rows(const std::vector<OuterProduct>& terms, torch::ScalarType dtype) {
  Tensor rows;
  for (const auto& term : terms) {
    Tensor left = term.left.to(dtype);
    Tensor right = term.right.to(dtype);
    Tensor& input = term.input_is_left ? left : right;
    input = input * term.scale;
    if (term.bias != 0) {
      std::vector<int64_t> shape = input.sizes().vec();
      shape.back() = 1;
      input = torch::cat({input, torch::full(shape, term.bias, input.options())}, -1);
    }
    const Tensor product = left.transpose(-1, -2).matmul(right);  // [b, n_L, d₀, d₁]
    rows = rows.defined() ? rows.add_(product) : product;
  }
  return rows.reshape({rows.size(0) * rows.size(1), -1});
}

double trace_bound(const FactorGroup& group) {
  if (group.rows.defined()) return group.rows.square().sum().item<double>();
  double bound = 0;
  int64_t positions = 0;
  for (const auto& term : group.terms) {
    const Tensor& input = term.input_is_left ? term.left : term.right;
    const Tensor& gradient = term.input_is_left ? term.right : term.left;
    const Tensor sizes = input.square().sum(-1) * (term.scale * term.scale) + term.bias * term.bias;
    bound += (sizes * gradient.square().sum(-1)).sum().item<double>();
    positions += term.left.size(2);
  }
  return static_cast<double>(positions) * bound;
}

}  // namespace cdt::kernel
