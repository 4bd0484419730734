#include <cdt/kernel/block_product.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Entries of a temporary; larger ones are cut into slices.
constexpr int64_t kSliceEntries = int64_t{1} << 23;

/// Some samples of a block.
struct Slice {
  const Factors& factors;
  int64_t first;
  int64_t count;
  int64_t width() const { return factors.outputs.size(1); }
  Tensor of_rows(const Tensor& rows) const {
    return rows.narrow(0, first * width(), count * width());
  }
  Tensor of_samples(const Tensor& t) const { return t.narrow(0, first, count); }
};

/// All dot products of two factors, accumulated in `dtype`: [na, c, T, nb, c′, T′].
Tensor gram(const Tensor& x, const Slice& a, const Tensor& y, const Slice& b,
            torch::ScalarType dtype) {
  const Tensor rows = a.of_samples(x).reshape({-1, x.size(3)}).to(dtype);
  const bool same = x.is_same(y) && a.first == b.first && a.count == b.count;
  const Tensor columns = same ? rows : b.of_samples(y).reshape({-1, y.size(3)}).to(dtype);
  return rows.mm(columns.t()).view({a.count, x.size(1), x.size(2), b.count, y.size(1), y.size(2)});
}

/// Σ_{t,t′} (l·l′)(r·r′) for all pairs of samples and outputs: [na, n_L, nb, n_L].
Tensor pair_product(const OuterProduct& s, const OuterProduct& t, const Slice& a, const Slice& b,
                    torch::ScalarType dtype) {
  Tensor left = gram(s.left, a, t.left, b, dtype);
  Tensor right = gram(s.right, a, t.right, b, dtype);
  Tensor& input = s.input_is_left ? left : right;
  if (s.scale * t.scale != 1) input.mul_(s.scale * t.scale);
  if (s.bias * t.bias != 0) input.add_(s.bias * t.bias);
  // In place where the gradient's side has the shape of the product; it has not where a weight is
  // used from both sides.
  Tensor& gradient = s.input_is_left ? right : left;
  const bool one_position = gradient.size(2) == 1 && gradient.size(5) == 1;
  if (one_position && s.input_is_left == t.input_is_left)
    return gradient.mul_(input).squeeze(5).squeeze(2);
  return (left * right).sum({2, 5});
}

}  // namespace

void add_product(const Tensor& theta, const Factors& a, int64_t i, int64_t ni, const Factors& b,
                 int64_t j, int64_t nj, double weight, std::vector<double>& probes) {
  const Slice rows{a, i, ni};
  const Slice columns{b, j, nj};
  const Tensor va = rows.of_rows(a.probe);
  const Tensor vb = columns.of_rows(b.probe);
  const torch::ScalarType dtype = theta.scalar_type();
  for (size_t g = 0; g < a.groups.size(); ++g) {
    const FactorGroup& left = a.groups[g];
    const FactorGroup& right = b.groups[g];
    if (left.rows.defined()) {
      const Tensor x = rows.of_rows(left.rows);
      const Tensor y = columns.of_rows(right.rows);
      // Columns in slices: a float32 Jacobian is widened piece by piece.
      const int64_t step = std::max<int64_t>(1, kSliceEntries / std::max(x.size(0), y.size(0)));
      for (int64_t k = 0; k < x.size(1); k += step) {
        const int64_t count = std::min(step, x.size(1) - k);
        const Tensor xk = x.narrow(1, k, count).to(dtype);
        const Tensor yk = y.narrow(1, k, count).to(dtype);
        theta.addmm_(xk, yk.t());
        probes[g] += weight * torch::dot(xk.t().mv(va), yk.t().mv(vb)).item<double>();
      }
      continue;
    }
    for (const OuterProduct& s : left.terms) {
      for (const OuterProduct& t : right.terms) {
        const int64_t outputs =
            std::max(s.left.size(1) * t.left.size(1), s.right.size(1) * t.right.size(1));
        const int64_t per_sample = nj * outputs * s.left.size(2) * t.left.size(2);
        const int64_t step = std::max<int64_t>(1, kSliceEntries / per_sample);
        for (int64_t k = 0; k < ni; k += step) {
          const Slice some{a, i + k, std::min(step, ni - k)};
          const int64_t n = some.count * some.width();
          const Tensor part = pair_product(s, t, some, columns, dtype).view({n, -1});
          theta.narrow(0, k * some.width(), n).add_(part);
          probes[g] += weight * torch::dot(some.of_rows(a.probe), part.mv(vb)).item<double>();
        }
      }
    }
  }
}

}  // namespace cdt::kernel
