/// Layers that have another function in training mode: samples that depend on each other, or
/// chance.
#include <cdt/kernel/rules/table.h>

namespace cdt::kernel::rules {
namespace {

Refusal batch_norm(const Call& call) {
  if (!call.is_true(5)) return {};
  Refusal refusal;
  refusal.reason =
      "batch norm in training mode couples the samples of a batch, so a sample has no kernel of "
      "its "
      "own; call eval() on the model first, or use group or layer norm";
  for (const size_t statistic : {size_t{3}, size_t{4}}) {
    if (call.is_tensor(statistic)) refusal.moved.push_back(call.tensor(statistic));
  }
  return refusal;
}

/// A counter of batches, which such a layer moves before it is called itself.
Refusal batch_counter(const Call& call) {
  const bool counts = call.is_tensor(0) && call.tensor(0).dim() == 0 &&
                      c10::isIntegralType(call.tensor(0).scalar_type(), /*includeBool=*/false);
  return counts ? Refusal{"", {call.tensor(0)}} : Refusal{};
}

Refusal dropout(const Call& call) {
  if (!call.is_true(2) || !(call.number(1) > 0)) return {};
  return {
      "dropout in training mode makes the outputs random; call eval() on the model first (a "
      "function dropout in its forward pass must be told: training=self.training)",
      {}};
}

}  // namespace

std::vector<Rule> training_mode() {
  return {{{"aten::batch_norm", "aten::native_batch_norm"}, nullptr, nullptr, batch_norm},
          {{"aten::add_"}, nullptr, nullptr, batch_counter},
          {{"aten::dropout", "aten::dropout_", "aten::native_dropout", "aten::alpha_dropout",
            "aten::alpha_dropout_", "aten::feature_dropout", "aten::feature_dropout_",
            "aten::feature_alpha_dropout", "aten::feature_alpha_dropout_"},
           nullptr,
           nullptr,
           dropout}};
}

}  // namespace cdt::kernel::rules
