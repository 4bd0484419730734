#include <cdt/core/interrupt.h>
#include <cdt/kernel/product/block_product.h>
#include <cdt/kernel/product/tiling.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

Tensor rows_of(const SampleRange& range, const Tensor& rows) {
  const int64_t width = range.factors.width;
  return rows.narrow(0, range.first * width, range.count * width);
}

/// With fewer columns at a time, the sums would pass through memory too often.
constexpr int64_t kWorthwhileColumns = 1024;

/// On a CPU a slice of pairs takes a fraction of a second at most, so that work can be interrupted
/// between slices.
constexpr int64_t kMultiplyAddsOfASlice = int64_t{1} << 32;

SampleRange part_of(const SampleRange& range, int64_t first, int64_t count) {
  return {range.factors, range.first + first, std::min(count, range.count - first)};
}

/// Products of unit vectors given by indices: 1 if equal, else 0.
Tensor same_indices(const Tensor& x, const SampleRange& a, const Tensor& y, const SampleRange& b,
                    torch::ScalarType dtype) {
  const Tensor rows = x.narrow(0, a.first, a.count).reshape({-1, 1});
  const Tensor columns = y.narrow(0, b.first, b.count).reshape({1, -1});
  return (rows == columns).to(dtype).view({a.count, 1, x.size(2), b.count, 1, y.size(2)});
}

/// All dot products of two factors, accumulated in `dtype`: [na, c, T, nb, c′, T′].
Tensor gram(const Tensor& x, const SampleRange& a, const Tensor& y, const SampleRange& b,
            torch::ScalarType dtype) {
  const auto rows_in = [dtype](const Tensor& t, const SampleRange& range) {
    return t.narrow(0, range.first, range.count).reshape({-1, t.size(3)}).to(dtype);
  };
  const Tensor rows = rows_in(x, a);
  const bool same = x.is_same(y) && a.first == b.first && a.count == b.count;
  const Tensor columns = same ? rows : rows_in(y, b);
  return rows.mm(columns.t()).view({a.count, x.size(1), x.size(2), b.count, y.size(1), y.size(2)});
}

/// Σ_{t,t′} (l·l′)(r·r′) for all pairs of samples and outputs: [na, c, nb, c′].
Tensor pair_product(const OuterProduct& s, const OuterProduct& t, const SampleRange& a,
                    const SampleRange& b, torch::ScalarType dtype) {
  Tensor left =
      s.indices > 0 ? same_indices(s.left, a, t.left, b, dtype) : gram(s.left, a, t.left, b, dtype);
  Tensor right = gram(s.right, a, t.right, b, dtype);
  Tensor& input = s.input_is_left ? left : right;
  if (s.scale * t.scale != 1) input.mul_(s.scale * t.scale);
  if (s.bias * t.bias != 0) input.add_(s.bias * t.bias);
  // In place if the gradient's side has the shape of the product; it does not if a weight is used
  // from both sides.
  Tensor& gradient = s.input_is_left ? right : left;
  const bool one_position = gradient.size(2) == 1 && gradient.size(5) == 1;
  if (one_position && s.input_is_left == t.input_is_left)
    return gradient.mul_(input).squeeze(5).squeeze(2);
  return (left * right).sum({2, 5});
}

/// Adds rows·columnsᵀ to a matrix, converting both to its dtype slice by slice, and weight·(…)v_b
/// to `image`.
void add_rows_product(const Tensor& matrix, const Tensor& rows, const Tensor& columns,
                      const Tensor& vb, int64_t slice, double weight, Tensor image) {
  const torch::ScalarType dtype = matrix.scalar_type();
  const Tiling tiling = tiling_for(matrix.device());
  const int64_t height = std::max(rows.size(0), columns.size(0));
  const int64_t in_cache = std::max(tiling.widened_entries / height, kWorthwhileColumns);
  const int64_t step = std::clamp<int64_t>(slice / height, 1, in_cache);
  const bool same = rows.data_ptr() == columns.data_ptr() && rows.sizes() == columns.sizes();
  for (int64_t k = 0; k < rows.size(1); k += step) {
    const int64_t count = std::min(step, rows.size(1) - k);
    const Tensor x = rows.narrow(1, k, count).to(dtype);
    const Tensor y = same ? x : columns.narrow(1, k, count).to(dtype);
    if (same && x.size(0) < std::min(count, tiling.panel_rows)) {
      // Small compared with its factors, so these are not read again for the image.
      const Tensor product = x.mm(x.t());
      matrix.add_(product);
      if (image.defined()) image.addmv_(product, vb, 1, weight);
      interruption_point();
      continue;
    }
    // Panels of a symmetric product, starting at the diagonal.
    const int64_t panel = same ? tiling.panel_rows : x.size(0);
    for (int64_t i = 0; i < x.size(0); i += panel) {
      const int64_t height_of_panel = std::min(panel, x.size(0) - i);
      const int64_t first = same ? i : 0;
      matrix.narrow(0, i, height_of_panel)
          .narrow(1, first, matrix.size(1) - first)
          .addmm_(x.narrow(0, i, height_of_panel), y.narrow(0, first, y.size(0) - first).t());
      interruption_point();
    }
    if (image.defined()) image.addmv_(x, y.t().mv(vb), 1, weight);
  }
}

}  // namespace

Tensor as_matrix(const Tensor& cells) {
  const auto joined = [&](int64_t d) {
    return cells.size(d) == 1 || cells.stride(d) == cells.size(d + 1) * cells.stride(d + 1);
  };
  if (!joined(0) || !joined(2)) return {};
  return cells.view({cells.size(0) * cells.size(1), cells.size(2) * cells.size(3)});
}

void add_product(const Tensor& cells, const SampleRange& a, const SampleRange& b, size_t g,
                 double weight, int64_t slice, const Tensor& image) {
  const torch::ScalarType dtype = cells.scalar_type();
  const int64_t row_outputs = a.factors.width;
  const int64_t column_outputs = b.factors.width;
  // Calls `add(cells, rows, columns)` for slices of the samples; each entry is a product of length
  // `length`.
  const auto in_slices = [&](int64_t entries_of_a_pair, int64_t length, const auto& add) {
    const int64_t entries =
        cells.is_cuda() ? slice : std::min(slice, kMultiplyAddsOfASlice / length);
    const int64_t column_step = std::clamp<int64_t>(entries / entries_of_a_pair, 1, b.count);
    const int64_t step = std::max<int64_t>(1, entries / (entries_of_a_pair * column_step));
    for (int64_t i = 0; i < a.count; i += step) {
      const SampleRange rows = part_of(a, i, step);
      for (int64_t j = 0; j < b.count; j += column_step) {
        const SampleRange columns = part_of(b, j, column_step);
        add(cells.narrow(0, i, rows.count).narrow(2, j, columns.count), rows, columns);
        interruption_point();
      }
    }
  };
  const auto image_of = [&](const SampleRange& rows) {
    return image.defined() ? rows_of(rows, image) : Tensor();
  };
  const auto probe_of = [&](const SampleRange& columns) {
    return image.defined() ? rows_of(columns, b.factors.probe) : Tensor();
  };
  const FactorGroup& left = a.factors.groups[g];
  const FactorGroup& right = b.factors.groups[g];
  if (left.rows.defined()) {
    const auto add_rows = [&](const Tensor& matrix, const SampleRange& rows,
                              const SampleRange& columns) {
      add_rows_product(matrix, rows_of(rows, left.rows), rows_of(columns, right.rows),
                       probe_of(columns), slice, weight, image_of(rows));
    };
    if (const Tensor matrix = as_matrix(cells); matrix.defined()) return add_rows(matrix, a, b);
    in_slices(row_outputs * column_outputs, 1,
              [&](const Tensor& some, const SampleRange& rows, const SampleRange& columns) {
                const Tensor matrix = torch::zeros(
                    {rows.count * row_outputs, columns.count * column_outputs}, cells.options());
                add_rows(matrix, rows, columns);
                some.add_(matrix.view(some.sizes()));
              });
    return;
  }
  for (const OuterProduct& s : left.terms) {
    for (const OuterProduct& t : right.terms) {
      const int64_t outputs =
          std::max(s.left.size(1) * t.left.size(1), s.right.size(1) * t.right.size(1));
      in_slices(outputs * s.left.size(2) * t.left.size(2), s.left.size(3) + s.right.size(3),
                [&](const Tensor& some, const SampleRange& rows, const SampleRange& columns) {
                  const Tensor part = pair_product(s, t, rows, columns, dtype);
                  some.add_(part);
                  if (!image.defined()) return;
                  const Tensor vb = probe_of(columns);
                  image_of(rows).addmv_(part.view({-1, vb.size(0)}), vb, 1, weight);
                });
    }
  }
}

}  // namespace cdt::kernel
