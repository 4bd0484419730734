/// Separately added biases, h = … ± αb: J sums G over the dimensions that b lacks.
#include <cdt/kernel/rules/broadcast.h>
#include <cdt/kernel/rules/table.h>

namespace cdt::kernel::rules {
namespace {

class AdditionSite : public Site {
 public:
  std::string objection(const ParameterUse& use) const override {
    return broadcast_objection(use.shape, output_shape.size());
  }
  bool samples_may_lie_along(int64_t dimension) const override {
    return broadcast_objection(uses.front().shape, output_shape.size(), dimension).empty();
  }
  void factor(FactorBuilder& build) const override {
    const ParameterUse& bias = uses.front();
    if (!build.by_rule(bias)) return;
    build.add_rows(bias,
                   broadcast_rows(build.gradient.to(build.accumulate), bias.shape, bias.scale));
  }
};

std::unique_ptr<Site> sum(const Call& call, double sign) {
  const auto left = call.parameter(0);
  const auto right = call.parameter(1);
  if (left.has_value() == right.has_value() || !call.is_tensor(0) || !call.is_tensor(1)) {
    return nullptr;
  }
  const double alpha = call.size() > 2 ? call.number(2) : 1.0;
  const ParameterUse bias = left ? *left : right->times(sign * alpha);
  if (bias.transposed) return nullptr;
  auto site = std::make_unique<AdditionSite>();
  site->uses.push_back(bias);
  return site;
}

}  // namespace

std::vector<Rule> addition() {
  return {{{"aten::add", "aten::add_"}, nullptr, [](const Call& call) { return sum(call, 1); }},
          {{"aten::sub", "aten::sub_"}, nullptr, [](const Call& call) { return sum(call, -1); }}};
}

}  // namespace cdt::kernel::rules
