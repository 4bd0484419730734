/// Linear layers h = A·W + b: J_i = Σ_t g_it a_itᵀ, which is never formed if there are few
/// positions. Bilinear layers are linear in all products of their two inputs.
#include <cdt/kernel/model.h>
#include <cdt/kernel/rules/broadcast.h>
#include <cdt/kernel/rules/table.h>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;
using Use = std::optional<ParameterUse>;

class LinearSite : public Site {
 public:
  Use weight;  ///< W [in, out] as multiplied; `transposed` if θ_p is stored [out, in].
  Use bias;
  Tensor other;  ///< second input of a bilinear layer
  int64_t other_version = 0;

  std::string objection(const ParameterUse& use) const override {
    if (other.defined() && version_of(other) != other_version) {
      return "the input of its layer was overwritten";
    }
    const bool is_bias = bias && use.argument == bias->argument;
    return is_bias ? broadcast_objection(use.shape, output_shape.size()) : std::string();
  }
  bool samples_may_lie_along(int64_t dimension) const override {
    const size_t rank = output_shape.size();
    return dimension < static_cast<int64_t>(rank) - 1 &&
           (!bias || broadcast_objection(bias->shape, rank, dimension).empty());
  }

  SiteCost cost(int64_t samples) const override {
    SiteCost cost = Site::cost(samples);
    if (weight) {
      const int64_t in = input.size(-1);
      const int64_t beside = other.defined() ? other.size(-1) : 1;
      cost.shared *= beside;
      cost.terms.push_back(
          {*weight, input.numel() / (in * samples), in * beside, output_shape.back()});
    }
    return cost;
  }

  void factor(FactorBuilder& build) const override {
    const bool has_weight = weight && build.by_rule(*weight);
    const bool has_bias = bias && build.by_rule(*bias);
    // A bias joins its weight if both are used once; one product then serves both.
    const bool joined = has_weight && has_bias && build.used_once(*weight) &&
                        build.used_once(*bias) && bias->numel() == output_shape.back();
    if (joined) {
      build.add_joined(*weight, *bias, outer_product(build, bias->scale));
    } else if (has_weight) {
      build.add(*weight, outer_product(build, 0));
    }
    if (has_bias && !joined) {
      build.add_rows(*bias,
                     broadcast_rows(build.gradient.to(build.accumulate), bias->shape, bias->scale));
    }
  }

 private:
  OuterProduct outer_product(const FactorBuilder& build, double bias_scale) const {
    const Tensor G =
        build.gradient.reshape({build.samples(), build.outputs(), -1, output_shape.back()});
    const Tensor a =
        other.defined() ? (input.unsqueeze(-1) * other.unsqueeze(-2)).flatten(-2) : input;
    const Tensor A = build.samples_first(a).reshape({build.samples(), 1, -1, a.size(-1)});
    if (weight->transposed) return {G, A, false, weight->scale, bias_scale};
    return {A, G, true, weight->scale, bias_scale};
  }
};

std::unique_ptr<Site> layer(const Call& call, size_t input, Use weight, Use bias) {
  if (!call.is_tensor(input)) return nullptr;
  auto site = std::make_unique<LinearSite>();
  const bool of_activations = !call.parameter(input) && call.tensor(input).dim() >= 2;
  if (weight && of_activations && call.tensor(weight->argument).dim() == 2) {
    site->weight = weight;
    site->uses.push_back(*weight);
    site->input = call.tensor(input);
    site->input_version = call.version(input);
  }
  if (bias) {
    site->bias = bias;
    site->uses.push_back(*bias);
  }
  return site->uses.empty() ? nullptr : std::move(site);
}

/// linear(A, Wᵀ, b)
std::unique_ptr<Site> linear_call(const Call& call) {
  const Use stored = call.parameter(1);
  return layer(call, 0, stored ? Use(stored->turned()) : std::nullopt, call.parameter(2));
}

/// bilinear(A, A′, W [out, in, in′], b)
std::unique_ptr<Site> bilinear_call(const Call& call) {
  Use weight = call.parameter(2);
  if (!weight || weight->transposed || weight->shape.size() != 3) return nullptr;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (call.parameter_in(call.tensor(i)) || call.tensor(i).dim() < 2) return nullptr;
  }
  auto site = std::make_unique<LinearSite>();
  weight->shape = {weight->shape[0], weight->shape[1] * weight->shape[2]};
  site->weight = weight->turned();
  site->uses.push_back(*site->weight);
  site->input = call.tensor(0);
  site->input_version = call.version(0);
  site->other = call.tensor(1).detach();
  site->other_version = call.version(1);
  if (const Use bias = call.parameter(3)) {
    site->bias = bias;
    site->uses.push_back(*bias);
  }
  return site;
}

/// matmul(A, W)
std::unique_ptr<Site> product_call(const Call& call) {
  return layer(call, 0, call.parameter(1), std::nullopt);
}

/// addmm(b, A, W, β, α) = βb + αAW
std::unique_ptr<Site> addmm_call(const Call& call) {
  const Use weight = call.parameter(2);
  const Use bias = call.parameter(0);
  return layer(call, 1, weight ? Use(weight->times(call.number(4))) : std::nullopt,
               bias ? Use(bias->times(call.number(3))) : std::nullopt);
}

}  // namespace

std::vector<Rule> linear() {
  return {{{"aten::linear"}, nullptr, linear_call},
          {{"aten::matmul", "aten::mm"}, nullptr, product_call},
          {{"aten::addmm"}, nullptr, addmm_call},
          {{"aten::bilinear"}, nullptr, bilinear_call}};
}

}  // namespace cdt::kernel::rules
