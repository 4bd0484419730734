#include <cdt/kernel/factor_product.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

Tensor product_by_rows(const Tensor& rows, const Tensor& V, int64_t slice) {
  Tensor product = torch::zeros_like(V);
  const int64_t step = std::max<int64_t>(1, slice / rows.size(0));
  for (const Tensor& columns : rows.split(step, 1)) {
    const Tensor J = columns.to(V.scalar_type());
    product.addmm_(J, J.t().mm(V));
  }
  return product;
}

/// Some samples of a term, widened.
struct TermSlice {
  Tensor A;  ///< [b·T, in], or indices [b·T]
  Tensor G;  ///< [b, c, T·out]
  int64_t positions;
  int64_t out;

  TermSlice(const OuterProduct& term, int64_t first, int64_t count, torch::ScalarType dtype) {
    const Tensor& input = input_of(term);
    const Tensor& gradient = gradient_of(term);
    positions = gradient.size(2);
    out = gradient.size(3);
    A = input.narrow(0, first, count).reshape({-1, input.size(3)});
    A = term.indices > 0 ? A.squeeze(1) : A.to(dtype);
    G = gradient.narrow(0, first, count).reshape({count, gradient.size(1), -1}).to(dtype);
  }

  /// Σ_c v_ic g_ict for k vectors v [b, c, k]: [b·T, k·out].
  Tensor pulled_back(const Tensor& v) const {
    const Tensor sums = G.size(1) == 1 ? v.transpose(1, 2) * G : torch::bmm(v.transpose(1, 2), G);
    if (positions == 1) return sums.view({sums.size(0), -1});
    return sums.view({sums.size(0), sums.size(1), positions, out})
        .transpose(1, 2)
        .reshape({-1, sums.size(1) * out});
  }

  /// Σ_t g_ictᵀ h_itk for h [b·T, k·out]: [b, c, k].
  Tensor pushed_forward(const Tensor& h) const {
    const Tensor by_vector = h.view({G.size(0), positions, -1, out});
    if (G.size(1) == 1) {
      return (by_vector * G.view({G.size(0), positions, 1, out})).sum({1, 3}).unsqueeze(1);
    }
    return torch::bmm(G, by_vector.transpose(2, 3).reshape({G.size(0), positions * out, -1}));
  }
};

}  // namespace

Tensor kernel_product(const FactorGroup& group, const Tensor& V, int64_t slice) {
  if (group.rows.defined()) return product_by_rows(group.rows, V, slice);
  const int64_t samples = group.terms.front().left.size(0);
  const int64_t vectors = V.size(1);
  const Tensor by_sample = V.view({samples, -1, vectors});
  // Calls `add(slice of a term, first sample, samples)`.
  const auto in_slices = [&](const OuterProduct& term, const auto& add) {
    const int64_t sample = gradient_of(term).numel() / samples + input_of(term).numel() / samples +
                           vectors * term.left.size(2) * gradient_of(term).size(3);
    const int64_t step = std::max<int64_t>(1, slice / sample);
    for (int64_t i = 0; i < samples; i += step) {
      const int64_t count = std::min(step, samples - i);
      add(TermSlice(term, i, count, V.scalar_type()), i, count);
    }
  };

  const int64_t d0 = group.terms.front().rows();
  const int64_t d1 = group.terms.front().right.size(3);
  Tensor weights = torch::zeros({vectors, d0, d1}, V.options());  // Jᵀ V
  Tensor biases;                                                  // [k·out], joined ones
  for (const OuterProduct& term : group.terms) {
    in_slices(term, [&](const TermSlice& some, int64_t first, int64_t count) {
      const Tensor w = some.pulled_back(by_sample.narrow(0, first, count));
      if (term.indices > 0) {
        const Tensor by_index = w.view({-1, vectors, d1}).transpose(0, 1);
        weights.index_add_(1, some.A, by_index, term.scale);
      } else if (term.input_is_left) {
        weights.add_(some.A.t().mm(w).view({d0, vectors, d1}).transpose(0, 1), term.scale);
      } else {
        weights.view({vectors * d0, d1}).addmm_(w.t(), some.A, 1, term.scale);
      }
      if (term.bias != 0) {
        const Tensor sum = w.sum(0) * term.bias;
        biases = biases.defined() ? biases + sum : sum;
      }
    });
  }

  Tensor product = torch::zeros_like(by_sample);
  for (const OuterProduct& term : group.terms) {
    const Tensor matrix = term.input_is_left ? weights.transpose(0, 1).reshape({d0, vectors * d1})
                                             : weights.view({vectors * d0, d1}).t();  // [in, k·out]
    in_slices(term, [&](const TermSlice& some, int64_t first, int64_t count) {
      Tensor h = term.indices > 0 ? matrix.index_select(0, some.A) : some.A.mm(matrix);
      h.mul_(term.scale);
      if (term.bias != 0) h.add_(biases, term.bias);
      product.narrow(0, first, count).add_(some.pushed_forward(h));
    });
  }
  return product.view_as(V);
}

}  // namespace cdt::kernel
