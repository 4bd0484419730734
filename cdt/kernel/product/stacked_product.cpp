#include <cdt/core/interrupt.h>
#include <cdt/kernel/product/stacked_product.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Longer rows give products large enough for separate calls.
constexpr int64_t kShortRows = 4096;

/// Common properties of the groups of a stack.
struct StackShape {
  bool rows = false;
  int64_t length = 0;  ///< length of rows; for layers the number of positions
  torch::ScalarType dtype = torch::kFloat32;

  auto operator<=>(const StackShape& other) const = default;
};

std::optional<StackShape> stack_shape(const FactorGroup& group) {
  if (group.rows.defined()) {
    if (group.rows.size(1) > kShortRows) return std::nullopt;
    return StackShape{true, group.rows.size(1), group.rows.scalar_type()};
  }
  if (group.terms.size() != 1 || group.terms.front().indices > 0) return std::nullopt;
  const Tensor& gradient = gradient_of(group.terms.front());
  return StackShape{false, gradient.size(2), gradient.scalar_type()};
}

/// Widths of a layer, in the order that makes most neighbours equal on either side, since layers of
/// a network follow each other.
std::pair<int64_t, int64_t> widths_of(const FactorGroup& group) {
  if (group.rows.defined()) return {};
  const OuterProduct& term = group.terms.front();
  return {input_of(term).size(3), -gradient_of(term).size(3)};
}

/// Whether a stack made for one block is valid for another.
bool fits(const GroupStack& stack, const Factors& a, const Factors& b) {
  return &a == &b || std::ranges::all_of(stack, [&](size_t g) {
    const FactorGroup& here = a.groups[g];
    const FactorGroup& there = b.groups[g];
    return stack_shape(here) == stack_shape(there) && widths_of(here) == widths_of(there);
  });
}

bool same_range(const SampleRange& a, const SampleRange& b) {
  return &a.factors == &b.factors && a.first == b.first && a.count == b.count;
}

/// Calls `work(first, end)` for runs of equal neighbours.
template <class T, class Work>
void for_runs(const std::vector<T>& values, const Work& work) {
  for (size_t first = 0, end = 0; first < values.size(); first = end) {
    while (end < values.size() && values[end] == values[first]) ++end;
    work(first, end);
  }
}

/// Factors [·, c, T, d] of a range, from `first` on, converted: [k, rows, d].
Tensor widened(const std::vector<Tensor>& factors, size_t first, size_t end,
               const SampleRange& range, torch::ScalarType dtype) {
  std::vector<Tensor> parts;
  for (size_t k = first; k < end; ++k) {
    const Tensor some = factors[k].narrow(0, range.first, range.count);
    parts.push_back(some.reshape({-1, some.size(3)}));
  }
  return (parts.size() == 1 ? parts.front().unsqueeze(0) : torch::stack(parts)).to(dtype);
}

/// All dot products of each pair of factors, into `out` [k, rows, columns]; one batched product for
/// neighbours of one width.
void multiply(const std::vector<Tensor>& x, const SampleRange& a, const std::vector<Tensor>& y,
              const SampleRange& b, const Tensor& out) {
  std::vector<int64_t> widths;
  for (const Tensor& factor : x) widths.push_back(factor.size(3));
  for_runs(widths, [&](size_t first, size_t end) {
    const Tensor rows = widened(x, first, end, a, out.scalar_type());
    const Tensor columns = same_range(a, b) ? rows : widened(y, first, end, b, out.scalar_type());
    Tensor place = out.narrow(0, static_cast<int64_t>(first), static_cast<int64_t>(end - first));
    torch::bmm_out(place, rows, columns.transpose(1, 2));
  });
}

/// The two sides of the layers of a stack, inputs first.
std::vector<Tensor> sides_of(const Factors& factors, const GroupStack& stack) {
  std::vector<Tensor> sides;
  for (const size_t g : stack) sides.push_back(input_of(factors.groups[g].terms.front()));
  for (const size_t g : stack) sides.push_back(gradient_of(factors.groups[g].terms.front()));
  return sides;
}

/// Σ_{t,t′} (σ²A Aᵀ + β²) ∘ (G Gᵀ) of each layer: [k, na, c, nb, c′].
Tensor layer_products(const SampleRange& a, const SampleRange& b, const GroupStack& stack,
                      torch::ScalarType dtype) {
  const auto k = static_cast<int64_t>(stack.size());
  const OuterProduct& first = a.factors.groups[stack.front()].terms.front();
  const int64_t positions = first.left.size(2);
  const int64_t rows = a.count * positions;
  const int64_t columns = b.count * positions;
  const int64_t row_outputs = gradient_of(first).size(1);
  const int64_t column_outputs = gradient_of(b.factors.groups[stack.front()].terms.front()).size(1);
  const auto options = first.left.options().dtype(dtype);
  const std::vector<Tensor> x = sides_of(a.factors, stack);
  const std::vector<Tensor> y = sides_of(b.factors, stack);
  Tensor inputs, gradients;
  if (row_outputs == 1 && column_outputs == 1) {  // both sides have the same form: runs of one
                                                  // width continue across them
    const Tensor all = torch::empty({2 * k, rows, columns}, options);
    multiply(x, a, y, b, all);
    inputs = all.narrow(0, 0, k);
    gradients = all.narrow(0, k, k);
  } else {
    const auto split = [k](const std::vector<Tensor>& sides) {
      return std::pair(std::vector<Tensor>(sides.begin(), sides.begin() + k),
                       std::vector<Tensor>(sides.begin() + k, sides.end()));
    };
    const auto [inputs_a, gradients_a] = split(x);
    const auto [inputs_b, gradients_b] = split(y);
    inputs = torch::empty({k, rows, columns}, options);
    gradients = torch::empty({k, rows * row_outputs, columns * column_outputs}, options);
    multiply(inputs_a, a, inputs_b, b, inputs);
    multiply(gradients_a, a, gradients_b, b, gradients);
  }
  std::vector<std::pair<double, double>> weights;
  for (const size_t g : stack) {
    const OuterProduct& s = a.factors.groups[g].terms.front();
    const OuterProduct& t = b.factors.groups[g].terms.front();
    weights.emplace_back(s.scale * t.scale, s.bias * t.bias);
  }
  for_runs(weights, [&](size_t from, size_t end) {
    const Tensor some =
        inputs.narrow(0, static_cast<int64_t>(from), static_cast<int64_t>(end - from));
    const auto [scale, bias] = weights[from];
    if (scale != 1) some.mul_(scale);
    if (bias != 0) some.add_(bias);
  });
  inputs = inputs.view({k, a.count, 1, positions, b.count, 1, positions});
  gradients =
      gradients.view({k, a.count, row_outputs, positions, b.count, column_outputs, positions});
  gradients.mul_(inputs);
  return positions == 1 ? gradients.squeeze(6).squeeze(3) : gradients.sum({3, 6});
}

void add_layers(const Tensor& cells, const SampleRange& a, const SampleRange& b,
                const GroupStack& stack, double weight, const Tensor& images) {
  const Tensor products = layer_products(a, b, stack, cells.scalar_type());
  cells.add_(products.sum(0));
  if (!images.defined()) return;
  const int64_t outputs = b.factors.width;
  const Tensor v = b.factors.probe.narrow(0, b.first * outputs, b.count * outputs);
  images.add_(products.view({-1, v.size(0)}).mv(v).view(images.sizes()), weight);
}

/// Rows of a range, side by side for all groups, converted: [rows, k·m].
Tensor joined_rows(const SampleRange& range, const GroupStack& stack, torch::ScalarType dtype) {
  const int64_t outputs = range.factors.width;
  std::vector<Tensor> parts;
  for (const size_t g : stack) {
    parts.push_back(
        range.factors.groups[g].rows.narrow(0, range.first * outputs, range.count * outputs));
  }
  return torch::cat(parts, 1).to(dtype);
}

void add_joined_rows(const Tensor& cells, const SampleRange& a, const SampleRange& b,
                     const GroupStack& stack, double weight, const Tensor& images) {
  const Tensor x = joined_rows(a, stack, cells.scalar_type());
  const Tensor y = same_range(a, b) ? x : joined_rows(b, stack, cells.scalar_type());
  if (const Tensor matrix = as_matrix(cells); matrix.defined()) {
    matrix.addmm_(x, y.t());
  } else {
    cells.add_(x.mm(y.t()).view(cells.sizes()));
  }
  if (!images.defined()) return;
  const auto k = static_cast<int64_t>(stack.size());
  const int64_t outputs = b.factors.width;
  const Tensor v = b.factors.probe.narrow(0, b.first * outputs, b.count * outputs);
  const Tensor pulled_back = y.t().mv(v).view({k, -1, 1});
  images.add_(x.view({x.size(0), k, -1}).transpose(0, 1).bmm(pulled_back).squeeze(2), weight);
}

}  // namespace

std::vector<GroupStack> single_stacks(const Factors& factors) {
  std::vector<GroupStack> stacks;
  for (size_t g = 0; g < factors.groups.size(); ++g) stacks.push_back({g});
  return stacks;
}

std::vector<GroupStack> stacks_of(const Factors& factors) {
  std::vector<GroupStack> stacks;
  std::map<StackShape, GroupStack> shared;
  for (size_t g = 0; g < factors.groups.size(); ++g) {
    if (const auto shape = stack_shape(factors.groups[g])) {
      shared[*shape].push_back(g);
    } else {
      stacks.push_back({g});
    }
  }
  for (auto& [shape, stack] : shared) {
    std::ranges::stable_sort(stack, {}, [&](size_t g) { return widths_of(factors.groups[g]); });
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

void add_products(const Tensor& cells, const SampleRange& a, const SampleRange& b,
                  const GroupStack& stack, double weight, int64_t slice, const Tensor& images) {
  const FactorGroup& first = a.factors.groups[stack.front()];
  const bool rows = first.rows.defined();
  const int64_t of_a_group =
      rows ? std::max(a.count * a.factors.width, b.count * b.factors.width) * first.rows.size(1)
           : cells.numel() * first.terms.front().left.size(2) * first.terms.front().left.size(2);
  const auto most = static_cast<size_t>(slice / std::max<int64_t>(1, of_a_group));
  const size_t step = fits(stack, a.factors, b.factors) ? std::max<size_t>(1, most) : 1;
  for (size_t k = 0; k < stack.size(); k += step) {
    const GroupStack some(stack.begin() + static_cast<int64_t>(k),
                          stack.begin() + static_cast<int64_t>(std::min(stack.size(), k + step)));
    const Tensor image = images.defined() ? images.narrow(0, static_cast<int64_t>(k),
                                                          static_cast<int64_t>(some.size()))
                                          : Tensor();
    if (some.size() == 1) {
      add_product(cells, a, b, some.front(), weight, slice, image.defined() ? image[0] : Tensor());
      continue;
    }
    const int64_t outputs = a.factors.width;
    const Tensor here =
        image.defined() ? image.narrow(1, a.first * outputs, a.count * outputs) : Tensor();
    if (rows) {
      add_joined_rows(cells, a, b, some, weight, here);
    } else {
      add_layers(cells, a, b, some, weight, here);
    }
    interruption_point();
  }
}

Tensor by_group(const Tensor& images, const std::vector<GroupStack>& stacks) {
  if (!images.defined()) return images;
  std::vector<Tensor> ordered(static_cast<size_t>(images.size(0)));
  int64_t place = 0;
  bool in_order = true;
  for (const GroupStack& stack : stacks) {
    for (const size_t g : stack) {
      in_order = in_order && static_cast<int64_t>(g) == place;
      ordered[g] = images[place++];
    }
  }
  return in_order ? images : torch::stack(ordered);
}

}  // namespace cdt::kernel
