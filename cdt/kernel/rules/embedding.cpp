/// Embeddings, h = rows of W by index: J_i = Σ_t e_it g_itᵀ with unit vectors e, stored as indices.
#include <cdt/kernel/rules/table.h>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;

/// embedding(W, indices, padding index, scaled by frequency, sparse)
class EmbeddingSite : public Site {
 public:
  int64_t padding = -1;  ///< index whose row has no gradient; negative: none

  bool samples_may_lie_along(int64_t dimension) const override {
    return dimension < static_cast<int64_t>(output_shape.size()) - 1;
  }

  SiteCost cost(int64_t samples) const override {
    SiteCost cost = Site::cost(samples);
    SiteCost::Term term;
    term.use = uses.front();
    term.positions = input.numel() / samples;
    term.in = term.use.shape[0];
    term.out = term.use.shape[1];
    term.one_hot = true;
    cost.terms.push_back(term);
    return cost;
  }

  void factor(FactorBuilder& build) const override {
    const ParameterUse& weight = uses.front();
    if (!build.by_rule(weight)) return;
    const Tensor indices =
        build.samples_first(input).reshape({build.samples(), 1, -1, 1}).to(torch::kInt64);
    Tensor G = build.gradient.reshape({build.samples(), build.outputs(), -1, output_shape.back()});
    if (padding >= 0) G = G.masked_fill(indices == padding, 0);
    OuterProduct term{indices, G, /*input_is_left=*/true, weight.scale};
    term.indices = weight.shape[0];
    build.add(weight, term);
  }
};

std::unique_ptr<Site> embedding_call(const Call& call) {
  const auto weight = call.parameter(0);
  if (!weight || weight->transposed || call.tensor(0).dim() != 2 || !call[2].isInt() ||
      call.is_true(3)) {
    return nullptr;
  }
  auto site = std::make_unique<EmbeddingSite>();
  site->uses.push_back(*weight);
  site->input = call.tensor(1);
  site->input_version = call.version(1);
  site->padding = call[2].toInt();
  return site;
}

Refusal scaled_by_frequency(const Call& call) {
  if (!call.is_true(3)) return {};
  return {
      "an embedding that scales its gradients by the frequency of an index in the batch has no "
      "derivative of its own; make it without scale_grad_by_freq",
      {}};
}

}  // namespace

std::vector<Rule> embedding() {
  return {{{"aten::embedding"}, nullptr, embedding_call, scaled_by_frequency}};
}

}  // namespace cdt::kernel::rules
