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

Tensor to_rows(const std::vector<OuterProduct>& terms) {
  Tensor rows;
  for (const auto& term : terms) {
    const Tensor& G = gradient_of(term);
    Tensor input = input_of(term);
    if (term.scale != 1) input = input * term.scale;
    if (term.bias != 0) {
      std::vector<int64_t> shape = input.sizes().vec();
      shape.back() = 1;
      input = torch::cat({input, torch::full(shape, term.bias, input.options())}, -1);
    }
    // The outputs of the network beside those of the layer: one product a sample.
    const int64_t b = G.size(0);
    const Tensor by_sample = G.transpose(2, 3).reshape({b, G.size(1) * G.size(3), G.size(2)});
    Tensor product = by_sample.bmm(input.squeeze(1)).view({b, G.size(1), G.size(3), -1});
    if (term.input_is_left) product = product.transpose(2, 3);
    rows = rows.defined() ? rows + product : product;
  }
  return rows.reshape({rows.size(0) * rows.size(1), -1});
}

namespace {

/// Entries that are widened at a time.
constexpr int64_t kWidenedEntries = int64_t{1} << 20;

double sum_of_squares(const Tensor& rows) {
  const int64_t step = std::max<int64_t>(1, kWidenedEntries / rows.size(1));
  double sum = 0;
  for (const Tensor& some : rows.split(step)) {
    sum += some.to(torch::kFloat64).square().sum().item<double>();
  }
  return sum;
}

/// To the digits of the rows' own precision: nothing is widened unless the squares overflow or
/// vanish in it.
double about_sum_of_squares(const Tensor& rows) {
  constexpr double kLeast = 1e-30;
  constexpr double kLargest = 1e30;
  if (!rows.is_contiguous()) return sum_of_squares(rows);
  double sum = 0;
  for (const Tensor& some : rows.view({-1}).split(kWidenedEntries)) {
    sum += torch::dot(some, some).item<double>();
  }
  return sum > kLeast && sum < kLargest ? sum : sum_of_squares(rows);
}

}  // namespace

double trace_bound(const FactorGroup& group) {
  if (group.rows.defined()) return about_sum_of_squares(group.rows);
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
  double trace = group.rows.defined() ? sum_of_squares(group.rows) : 0;
  for (const OuterProduct& s : group.terms) {
    for (const OuterProduct& t : group.terms) trace += dot(s, t);
  }
  return trace;
}

}  // namespace cdt::kernel
