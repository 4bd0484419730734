#include <cdt/kernel/factor_group.h>

#include <algorithm>

namespace cdt::kernel {

using torch::Tensor;

const Tensor& input_of(const OuterProduct& term) {
  return term.input_is_left ? term.left : term.right;
}
const Tensor& gradient_of(const OuterProduct& term) {
  return term.input_is_left ? term.right : term.left;
}

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
    const Tensor& input = input_of(term);
    const Tensor& gradient = gradient_of(term);
    const Tensor sizes = input.square().sum(-1) * (term.scale * term.scale) + term.bias * term.bias;
    bound += (sizes * gradient.square().sum(-1)).sum().item<double>();
    positions += term.left.size(2);
  }
  return static_cast<double>(positions) * bound;
}

namespace {

/// Entries that are widened at a time.
constexpr int64_t kWidenedEntries = int64_t{1} << 20;

/// Σ_i Σ_c Σ_{t,t′} (l·l′)(r·r′): the dot product of two terms' parts of J.
double dot(const OuterProduct& s, const OuterProduct& t) {
  const int64_t samples = s.left.size(0);
  const int64_t per_sample =
      (s.left.numel() + s.right.numel() + t.left.numel() + t.right.numel()) / samples +
      gradient_of(s).size(1) * s.left.size(2) * t.left.size(2);
  const int64_t step = std::max<int64_t>(1, kWidenedEntries / per_sample);
  double sum = 0;
  for (int64_t i = 0; i < samples; i += step) {
    const int64_t count = std::min(step, samples - i);
    const auto gram = [&](const Tensor& x, const Tensor& y) {  // [b, c, T, T′]
      const Tensor rows = x.narrow(0, i, count).to(torch::kFloat64);
      return rows.matmul(y.narrow(0, i, count).to(torch::kFloat64).transpose(-1, -2));
    };
    Tensor left = gram(s.left, t.left);
    Tensor right = gram(s.right, t.right);
    Tensor& input = s.input_is_left ? left : right;
    input.mul_(s.scale * t.scale);
    if (s.bias * t.bias != 0) input.add_(s.bias * t.bias);
    sum += (left * right).sum().item<double>();
  }
  return sum;
}

}  // namespace

double exact_trace(const FactorGroup& group) {
  double trace = 0;
  if (group.rows.defined()) {
    const int64_t step = std::max<int64_t>(1, kWidenedEntries / group.rows.size(1));
    for (const Tensor& rows : group.rows.split(step)) {
      trace += rows.to(torch::kFloat64).square().sum().item<double>();
    }
  }
  for (const OuterProduct& s : group.terms) {
    for (const OuterProduct& t : group.terms) trace += dot(s, t);
  }
  return trace;
}

}  // namespace cdt::kernel
