/// Elementwise scales h = x ∘ γ: J sums G ∘ x over the dimensions that γ lacks.
#include <cdt/kernel/rules/broadcast.h>
#include <cdt/kernel/rules/table.h>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;

class ScaleSite : public Site {
 public:
  std::string objection(const ParameterUse& use) const override {
    return broadcast_objection(use.shape, output_shape.size());
  }
  bool samples_may_lie_along(int64_t dimension) const override {
    return broadcast_objection(uses.front().shape, output_shape.size(), dimension).empty();
  }
  void factor(FactorBuilder& build) const override {
    const ParameterUse& scale = uses.front();
    if (!build.by_rule(scale)) return;
    const Tensor x = build.samples_first(input.expand(output_shape)).to(build.accumulate);
    std::vector<int64_t> shape = build.gradient.sizes().vec();
    shape[1] = 1;
    build.add_rows(scale, broadcast_rows(build.gradient.to(build.accumulate) * x.reshape(shape),
                                         scale.shape, scale.scale));
  }
};

std::unique_ptr<Site> product(const Call& call) {
  const auto left = call.parameter(0);
  const auto right = call.parameter(1);
  if (left.has_value() == right.has_value()) return nullptr;
  const size_t other = left ? 1 : 0;
  const ParameterUse& scale = left ? *left : *right;
  // A constant factor gives a parameter again, or overwrites one in place.
  if (call.constant(other) || !call.is_tensor(other) || scale.transposed) return nullptr;
  auto site = std::make_unique<ScaleSite>();
  site->uses.push_back(scale);
  site->input = call.tensor(other);
  site->input_version = call.version(other);
  return site;
}

}  // namespace

std::vector<Rule> scale() { return {{{"aten::mul", "aten::mul_"}, nullptr, product}}; }

}  // namespace cdt::kernel::rules
