#include <cdt/core/interrupt.h>
#include <cdt/kernel/product/factor_product.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Number of the group's columns converted at a time.
int64_t columns_at_a_time(const Tensor& rows, int64_t slice) {
  return std::max<int64_t>(1, slice / rows.size(0));
}

/// Some samples of a term, converted to the accumulation dtype.
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

/// Calls `add(slice of a term, first sample, samples)`.
template <class Add>
void in_slices(const OuterProduct& term, int64_t vectors, int64_t slice, torch::ScalarType dtype,
               const Add& add) {
  const int64_t samples = term.left.size(0);
  const int64_t sample = gradient_of(term).numel() / samples + input_of(term).numel() / samples +
                         vectors * term.left.size(2) * gradient_of(term).size(3);
  const int64_t step = std::max<int64_t>(1, slice / sample);
  for (int64_t i = 0; i < samples; i += step) {
    const int64_t count = std::min(step, samples - i);
    add(TermSlice(term, i, count, dtype), i, count);
    interruption_point();
  }
}

/// Parameter vectors of terms.
struct Pulled {
  Tensor weights;  ///< [k, d₀, d₁]
  Tensor biases;   ///< [k·out], of a joined bias; undefined: none
};

Pulled pull_back(const std::vector<OuterProduct>& terms, const Tensor& V, int64_t slice) {
  const int64_t vectors = V.size(1);
  const Tensor by_sample = V.view({terms.front().left.size(0), -1, vectors});
  const int64_t d0 = terms.front().rows();
  const int64_t d1 = terms.front().right.size(3);
  Pulled pulled{torch::zeros({vectors, d0, d1}, V.options()), {}};
  for (const OuterProduct& term : terms) {
    in_slices(term, vectors, slice, V.scalar_type(),
              [&](const TermSlice& some, int64_t first, int64_t count) {
                const Tensor w = some.pulled_back(by_sample.narrow(0, first, count));
                if (term.indices > 0) {
                  const Tensor by_index = w.view({-1, vectors, d1}).transpose(0, 1);
                  pulled.weights.index_add_(1, some.A, by_index, term.scale);
                } else if (term.input_is_left) {
                  pulled.weights.add_(some.A.t().mm(w).view({d0, vectors, d1}).transpose(0, 1),
                                      term.scale);
                } else {
                  pulled.weights.view({vectors * d0, d1}).addmm_(w.t(), some.A, 1, term.scale);
                }
                if (term.bias != 0) {
                  const Tensor sum = w.sum(0) * term.bias;
                  pulled.biases = pulled.biases.defined() ? pulled.biases + sum : sum;
                }
              });
  }
  return pulled;
}

Tensor push_forward(const std::vector<OuterProduct>& terms, const Pulled& pulled, int64_t slice) {
  const Tensor& weights = pulled.weights;
  const int64_t vectors = weights.size(0), d0 = weights.size(1), d1 = weights.size(2);
  const int64_t samples = terms.front().left.size(0);
  const int64_t outputs = gradient_of(terms.front()).size(1);
  Tensor product = torch::zeros({samples, outputs, vectors}, weights.options());
  for (const OuterProduct& term : terms) {
    const Tensor matrix = term.input_is_left ? weights.transpose(0, 1).reshape({d0, vectors * d1})
                                             : weights.view({vectors * d0, d1}).t();  // [in, k·out]
    in_slices(term, vectors, slice, weights.scalar_type(),
              [&](const TermSlice& some, int64_t first, int64_t count) {
                Tensor h = term.indices > 0 ? matrix.index_select(0, some.A) : some.A.mm(matrix);
                h.mul_(term.scale);
                if (term.bias != 0) h.add_(pulled.biases, term.bias);
                product.narrow(0, first, count).add_(some.pushed_forward(h));
              });
  }
  return product.view({-1, vectors});
}

}  // namespace

Tensor pull_back(const FactorGroup& group, const Tensor& V, int64_t slice) {
  if (group.rows.defined()) {
    std::vector<Tensor> found;
    for (const Tensor& columns : group.rows.split(columns_at_a_time(group.rows, slice), 1)) {
      found.push_back(V.t().mm(columns.to(V.scalar_type())));
      interruption_point();
    }
    return torch::cat(found, 1);
  }
  const Pulled pulled = pull_back(group.terms, V, slice);
  const Tensor weights = pulled.weights.view({V.size(1), -1});
  if (!pulled.biases.defined()) return weights;
  return torch::cat({weights, pulled.biases.view({V.size(1), -1})}, 1);
}

Tensor push_forward(const FactorGroup& group, const Tensor& U, int64_t slice) {
  const int64_t vectors = U.size(0);
  if (group.rows.defined()) {
    Tensor product = torch::zeros({group.rows.size(0), vectors}, U.options());
    int64_t first = 0;
    for (const Tensor& columns : group.rows.split(columns_at_a_time(group.rows, slice), 1)) {
      product.addmm_(columns.to(U.scalar_type()), U.narrow(1, first, columns.size(1)).t());
      first += columns.size(1);
      interruption_point();
    }
    return product;
  }
  const int64_t d0 = group.terms.front().rows();
  const int64_t d1 = group.terms.front().right.size(3);
  Pulled pulled{U.narrow(1, 0, d0 * d1).reshape({vectors, d0, d1}).contiguous(), {}};
  if (U.size(1) > d0 * d1) {
    pulled.biases = U.narrow(1, d0 * d1, U.size(1) - d0 * d1).reshape({-1});
  }
  return push_forward(group.terms, pulled, slice);
}

Tensor kernel_product(const FactorGroup& group, const Tensor& V, int64_t slice) {
  if (group.rows.defined()) {
    Tensor product = torch::zeros_like(V);
    for (const Tensor& columns : group.rows.split(columns_at_a_time(group.rows, slice), 1)) {
      const Tensor J = columns.to(V.scalar_type());
      product.addmm_(J, J.t().mm(V));
      interruption_point();
    }
    return product;
  }
  return push_forward(group.terms, pull_back(group.terms, V, slice), slice).view_as(V);
}

namespace {

/// Offset of each parameter in θ.
std::vector<int64_t> offsets_of(const Model& model) {
  std::vector<int64_t> offsets;
  int64_t next = 0;
  for (const Tensor& p : model.parameters()) {
    offsets.push_back(next);
    next += p.numel();
  }
  return offsets;
}

}  // namespace

void add_pull_back(const Model& model, const std::vector<FactorGroup>& groups, const Tensor& V,
                   int64_t slice, const Tensor& U) {
  const std::vector<int64_t> offsets = offsets_of(model);
  for (const FactorGroup& group : groups) {
    const Tensor found = pull_back(group, V, slice);
    int64_t first = 0;
    for (const size_t p : group.parameters) {
      const int64_t count = model.parameters()[p].numel();
      U.narrow(1, offsets[p], count).add_(found.narrow(1, first, count));
      first += count;
    }
  }
}

void add_push_forward(const Model& model, const std::vector<FactorGroup>& groups, const Tensor& U,
                      int64_t slice, Tensor V) {
  const std::vector<int64_t> offsets = offsets_of(model);
  for (const FactorGroup& group : groups) {
    std::vector<Tensor> parts;
    for (const size_t p : group.parameters) {
      parts.push_back(U.narrow(1, offsets[p], model.parameters()[p].numel()));
    }
    V.add_(push_forward(group, parts.size() == 1 ? parts.front() : torch::cat(parts, 1), slice));
  }
}

}  // namespace cdt::kernel
