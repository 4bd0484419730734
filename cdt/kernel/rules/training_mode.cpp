/// Layers that behave differently in training mode: coupled samples, or randomness.
#include <cdt/kernel/rules/table.h>

namespace cdt::kernel::rules {
namespace {

Refusal batch_norm_of(const Call& call) {
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

Refusal batch_norm(const Call& call) { return call.is_true(5) ? batch_norm_of(call) : Refusal{}; }

/// The counter of batches, which such a layer increments before its main operator.
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

/// A call that draws random numbers, directly or inside: dropout of recurrent layers, noise.
Refusal random_numbers(const Call& call) {
  return {c10::str("the model draws random numbers (", call.name(),
                   "), so its outputs are others at each call; call eval() on the model first, or "
                   "draw them outside of its forward pass"),
          {}};
}

/// Recurrent layers: the number before the training flag is their dropout rate. Some draw where the
/// recorder cannot see it.
Refusal recurrent_dropout(const Call& call) {
  for (size_t i = 0; i + 1 < call.size(); ++i) {
    if (call[i].isDouble() && call[i].toDouble() > 0 && call.is_true(i + 1)) {
      return random_numbers(call);
    }
  }
  return {};
}

Refusal attention_dropout(const Call& call) {
  return call.size() > 4 && call[4].isDouble() && call[4].toDouble() > 0 ? random_numbers(call)
                                                                         : Refusal{};
}

}  // namespace

std::vector<Rule> training_mode() {
  return {{{"aten::batch_norm", "aten::native_batch_norm", "aten::_batch_norm_impl_index",
            "aten::_native_batch_norm_legit", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"},
           nullptr,
           nullptr,
           batch_norm},
          {{"aten::_batch_norm_with_update"}, nullptr, nullptr, batch_norm_of},
          {{"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"},
           nullptr,
           nullptr,
           recurrent_dropout},
          {{"aten::scaled_dot_product_attention"}, nullptr, nullptr, attention_dropout},
          {{"aten::bernoulli",
            "aten::bernoulli_",
            "aten::uniform_",
            "aten::normal",
            "aten::normal_",
            "aten::random_",
            "aten::exponential_",
            "aten::cauchy_",
            "aten::log_normal_",
            "aten::geometric_",
            "aten::multinomial",
            "aten::poisson",
            "aten::binomial",
            "aten::randperm",
            "aten::randint",
            "aten::randint_like",
            "aten::rand",
            "aten::rand_like",
            "aten::randn",
            "aten::randn_like",
            "aten::rrelu_with_noise",
            "aten::rrelu_with_noise_",
            "aten::_fused_dropout",
            "aten::_standard_gamma",
            "aten::_sample_dirichlet"},
           nullptr,
           nullptr,
           random_numbers,
           /*within=*/true},
          {{"aten::add_"}, nullptr, nullptr, batch_counter},
          {{"aten::dropout", "aten::dropout_", "aten::native_dropout", "aten::alpha_dropout",
            "aten::alpha_dropout_", "aten::feature_dropout", "aten::feature_dropout_",
            "aten::feature_alpha_dropout", "aten::feature_alpha_dropout_"},
           nullptr,
           nullptr,
           dropout}};
}

}  // namespace cdt::kernel::rules
