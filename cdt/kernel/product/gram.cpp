#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/product/gram.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Size of a block's factors; larger ones gain nothing.
constexpr int64_t kBlockBytes = int64_t{1} << 28;
/// Columns of the sum multiplied at a time, starting at the diagonal.
constexpr int64_t kPanel = 256;

/// Adds rowsᵀ·rows to the lower triangle of `sum`; the upper one is undefined.
void add_square(const Tensor& sum, const Tensor& rows) {
  const int64_t P = sum.size(0);
  for (int64_t c = 0; c < P; c += kPanel) {
    const int64_t width = std::min(kPanel, P - c);
    sum.narrow(0, c, P - c)
        .narrow(1, c, width)
        .add_(rows.narrow(1, c, P - c).t().mm(rows.narrow(1, c, width)));
  }
}

/// Samples `first` to `first + count` of an outer product.
OuterProduct narrowed(const OuterProduct& term, int64_t first, int64_t count) {
  OuterProduct some = term;
  some.left = term.left.narrow(0, first, count);
  some.right = term.right.narrow(0, first, count);
  return some;
}

/// Rows [count·n_L, P] of J for some samples of a block, at the columns of their parameters.
Tensor jacobian_of(const Factors& factors, const Model& model, const std::vector<int64_t>& offsets,
                   int64_t first, int64_t count) {
  const int64_t width = factors.width;
  Tensor J = torch::zeros({count * width, model.parameter_count()},
                          factors.probe.options());  // the accumulation dtype
  for (const FactorGroup& group : factors.groups) {
    Tensor rows;
    if (group.rows.defined()) {
      rows = group.rows.narrow(0, first * width, count * width);
    } else {
      std::vector<OuterProduct> terms;
      for (const OuterProduct& term : group.terms) terms.push_back(narrowed(term, first, count));
      rows = to_rows(terms);
    }
    int64_t column = 0;
    for (const size_t p : group.parameters) {
      const int64_t entries = model.parameters()[p].numel();
      J.narrow(1, offsets[p], entries).copy_(rows.narrow(1, column, entries));
      column += entries;
    }
  }
  return J;
}

}  // namespace

Tensor parameter_gram(const Model& model, const Tensor& x, const Tensor& S,
                      const NtkOptions& given) {
  NtkOptions options = given;
  options.memory_bytes = std::min(given.memory_bytes, kBlockBytes);
  options.trusted = false;
  require_samples(x);
  const int64_t samples = x.size(0);
  CDT_REQUIRE(
      S.defined() && S.dim() == 3 && S.size(0) == samples && S.scalar_type() == torch::kFloat64,
      "S must have a float64 block for each of ", samples, " samples, [", samples,
      ", outputs, k], got ", S.defined() ? S.sizes() : torch::IntArrayRef());
  const int64_t P = model.parameter_count();
  std::vector<int64_t> offsets{0};
  for (const Tensor& p : model.parameters()) offsets.push_back(offsets.back() + p.numel());
  return with_fallback(model, options, [&](CheckedFactors& source) {
    BlockPlan plan = source.plan(x, samples, 1);
    const int64_t width = source.width();
    CDT_REQUIRE(S.size(1) == width, "S must have ", width,
                " rows a sample, as many as outputs, got ", S.size(1));
    // Blocks have all outputs of a sample, since S mixes them.
    plan.samples = std::max<int64_t>(1, plan.samples * plan.outputs / width);
    plan.outputs = width;
    const int64_t at_a_time =
        std::max<int64_t>(1, slice_entries(options.memory_bytes, model.device()) / (P * width));
    const Tensor sum = torch::zeros({P, P}, S.options());
    int64_t done = 0;
    for (const Block& block : plan.blocks(samples, width)) {
      const Factors factors = source.factors_of(x, block);
      source.check(factors);
      for (int64_t i = 0; i < block.samples; i += at_a_time) {
        const int64_t count = std::min(at_a_time, block.samples - i);
        const Tensor J = jacobian_of(factors, model, offsets, i, count).view({count, width, P});
        const Tensor root = S.narrow(0, block.first + i, count).transpose(1, 2).to(J.scalar_type());
        const Tensor rows =
            (width == 1 && root.size(1) == 1 ? J * root : root.bmm(J)).view({-1, P});
        add_square(sum, rows);
        interruption_point();
      }
      done += block.samples;
      if (options.progress) options.progress(done, samples);
    }
    if (!sum.sum().isfinite().item<bool>()) throw NumericalError(kKernelOverflow);
    return sum.tril() + sum.tril(-1).t();
  });
}

}  // namespace cdt::kernel
