#include <cdt/kernel/factor/factor_group.h>
#include <cdt/kernel/product/sizes.h>

#include <algorithm>
#include <cmath>

namespace cdt::kernel {

using torch::Tensor;

const Tensor& input_of(const OuterProduct& term) {
  return term.input_is_left ? term.left : term.right;
}
const Tensor& gradient_of(const OuterProduct& term) {
  return term.input_is_left ? term.right : term.left;
}

void place(OuterProduct& term, int64_t first, int64_t rows) {
  if (term.indices > 0) {
    term.left = term.left + first;
    term.indices = rows;
  } else {
    term.left = torch::constant_pad_nd(term.left, {first, rows - first - term.left.size(3)});
  }
}

namespace {

/// Sum over t of the gradients at each index: [b, c, d₀, d₁].
Tensor gathered(const OuterProduct& term) {
  const Tensor& G = term.right;
  const Tensor rows = torch::zeros({G.size(0), G.size(1), term.indices, G.size(3)}, G.options());
  return rows.scatter_add_(2, term.left.expand(G.sizes()), term.scale == 1 ? G : G * term.scale);
}

}  // namespace

Tensor to_rows(const std::vector<OuterProduct>& terms) {
  Tensor rows, biases;
  const auto add = [&](const Tensor& product) {  // [b, c, d₀, d₁]
    const Tensor flat = product.reshape({product.size(0) * product.size(1), -1});
    rows = rows.defined() ? rows + flat : flat;
  };
  for (const auto& term : terms) {
    if (term.indices > 0) {
      add(gathered(term));
      continue;
    }
    const Tensor& G = gradient_of(term);
    Tensor input = input_of(term);
    if (term.scale != 1) input = input * term.scale;
    // Combines the network's outputs with those of the layer: one product per sample.
    const int64_t b = G.size(0);
    const Tensor by_sample = G.transpose(2, 3).reshape({b, G.size(1) * G.size(3), G.size(2)});
    const Tensor product = by_sample.bmm(input.squeeze(1)).view({b, G.size(1), G.size(3), -1});
    add(term.input_is_left ? product.transpose(2, 3) : product);
    if (term.bias != 0) {
      const Tensor sum = G.sum(2).mul_(term.bias);
      biases = biases.defined() ? biases + sum : sum;
    }
  }
  if (!biases.defined()) return rows;
  return torch::cat({rows, biases.reshape({rows.size(0), -1})}, 1);
}

namespace {

/// Entries converted to float64 at a time.
constexpr int64_t kWidenedEntries = int64_t{1} << 20;

double sum_of_squares(const Tensor& rows) {
  const int64_t step = std::max<int64_t>(1, kWidenedEntries / rows.size(1));
  double sum = 0;
  for (const Tensor& some : rows.split(step)) {
    sum += some.to(torch::kFloat64).square().sum().item<double>();
  }
  return sum;
}

/// To the precision of the rows' dtype; converts to float64 only if the squares overflow or
/// underflow.
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

double SquareSum::value(const double* sizes) const {
  double sum = 0;
  for (const auto& [weight, size] : parts) sum += weight * std::pow(*sizes++, 2);
  return sum;
}

SquareSum trace_bound(const FactorGroup& group) {
  SquareSum bound;
  if (group.rows.defined()) {
    // On a CPU reading is free, and multiplying is faster than a norm.
    const Tensor size =
        group.rows.is_cuda()
            ? size_of(group.rows)
            : torch::tensor(std::sqrt(about_sum_of_squares(group.rows)), torch::kFloat64);
    bound.parts.emplace_back(1.0, size);
    return bound;
  }
  int64_t positions = 0;
  for (const auto& term : group.terms) {
    const Tensor gradients = sizes_along_last(gradient_of(term));
    const double scale = term.scale * term.scale;
    if (term.indices > 0) {
      bound.parts.emplace_back(scale, size_of(gradients));  // unit vectors have norm 1
    } else {
      bound.parts.emplace_back(scale, size_of(sizes_along_last(input_of(term)) * gradients));
    }
    if (term.bias != 0) bound.parts.emplace_back(term.bias * term.bias, size_of(gradients));
    positions += term.left.size(2);
  }
  for (auto& part : bound.parts) part.first *= static_cast<double>(positions);
  return bound;
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
    Tensor left = s.indices > 0
                      ? (s.left.narrow(0, i, count) == t.left.narrow(0, i, count).transpose(-1, -2))
                            .to(torch::kFloat64)
                      : gram(s.left, t.left);
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
