/// Operators of samples and parameters without a rule: J of the parameters from the operator
/// itself, called on all samples at once, each with its own copy of the parameters.
///
/// With h_i = f(x_i, W) for every sample and G the gradient at h, row i of J is Gᵢᵀ ∂f(x_i, W)/∂W:
/// the gradient of Σ_i Gᵢᵀf(x_i, W_i) at W_i. One batched call of f on copies W_i = W gives all of
/// them, so the network is evaluated once for all samples, not once per sample.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/accumulate.h>
#include <cdt/core/interrupt.h>
#include <cdt/kernel/factor/batching.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/rules/table.h>

#include <algorithm>
#include <array>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;

/// Operators whose batched form is wrong. LibTorch batches embeddings as one table with the rows of
/// all, in which only one row is padding.
constexpr std::array<std::string_view, 1> kNotBatched{"aten::embedding"};

/// A tensor argument of the operator, or an entry of a list argument.
struct Operand {
  size_t argument = 0;
  int64_t element = -1;    ///< index in a list; −1: not a list
  Tensor value;            ///< without a graph
  int64_t version = 0;     ///< when used
  bool by_sample = false;  ///< [b·T, …]; otherwise shared by all
  std::optional<ParameterUse> use;
};

/// Calls `work(tensor, argument, element)` for each tensor among the arguments.
template <class Work>
void for_each_operand(const Call& call, const Work& work) {
  for (size_t i = 0; i < call.size(); ++i) {
    if (call.is_tensor(i)) work(call.tensor(i), i, int64_t{-1});
    if (!call[i].isList()) continue;
    const auto list = call[i].toListRef();
    for (size_t k = 0; k < list.size(); ++k) {
      if (list[k].isTensor() && list[k].toTensor().defined()) {
        work(list[k].toTensor(), i, static_cast<int64_t>(k));
      }
    }
  }
}

class OperatorSite : public Site {
 public:
  OperatorSite(const c10::OperatorHandle& op, const Call& call)
      : op_(op),
        can_be_batched_(std::ranges::find(kNotBatched, call.name()) == kNotBatched.end()),
        samples_(call.samples()) {
    for (size_t i = 0; i < call.size(); ++i) arguments_.push_back(call[i]);
  }

  void add(Operand operand) { operands_.push_back(std::move(operand)); }
  /// Sets whether broadcast copies of a parameter are per sample, or shared by all. False if there
  /// are none.
  bool take_copies(bool by_sample) {
    bool any = false;
    for (Operand& operand : operands_) {
      if (!operand.use || !operand.use->copied) continue;
      operand.by_sample = by_sample;
      any = true;
    }
    return any;
  }

  /// Whether h of the first sample alone has the same shape as among the others.
  bool takes_samples_alone(const Tensor& h) const {
    const torch::NoGradGuard no_graph;
    try {
      const Tensor alone = call([&](const Operand& operand) { return of_sample(operand, 0); });
      std::vector<int64_t> shape = h.sizes().vec();
      shape[0] /= samples_;
      return alone.sizes() == shape;
    } catch (const c10::Error&) {
      return false;
    }
  }

  std::string objection(const ParameterUse& /*use*/) const override {
    for (const Operand& operand : operands_) {
      if (version_of(operand.value) != operand.version) {
        return "what its operator takes was overwritten";
      }
    }
    return {};
  }

  bool may_feed_operands_often() const override { return true; }

  SiteCost cost(int64_t samples) const override {
    SiteCost cost;
    cost.passing = c10::multiply_integers(output_shape);
    for (const ParameterUse& use : uses) cost.per_output += samples * use.numel();
    return cost;
  }

  void factor(FactorBuilder& build) const override;

 private:
  /// Calls the operator with other tensors instead of its own.
  template <class Tensors>
  Tensor call(const Tensors& tensor_for) const;
  int64_t positions(const Operand& operand) const { return operand.value.size(0) / samples_; }
  Tensor of_sample(const Operand& operand, int64_t i) const {
    if (!operand.by_sample) return operand.value;
    const int64_t T = positions(operand);
    return operand.value.narrow(0, i * T, T);
  }
  /// [count, …]: the operand for each of some samples.
  Tensor stacked(const Operand& operand, int64_t first, int64_t count) const {
    std::vector<int64_t> shape = operand.value.sizes().vec();
    if (operand.by_sample) shape[0] = positions(operand);
    shape.insert(shape.begin(), count);
    if (!operand.by_sample) return operand.value.expand(shape);
    return operand.value.narrow(0, first * shape[1], count * shape[1]).reshape(shape);
  }
  /// Number of samples whose parameters, inputs and outputs have at most this many entries.
  int64_t samples_at_a_time(int64_t entries) const;

  /// h [count, T, …] of some samples, with a graph to `leaves`, copies [count, …] of the wanted
  /// operands. Undefined if LibTorch cannot batch it.
  Tensor together(int64_t first, int64_t count, const std::vector<size_t>& wanted,
                  std::vector<Tensor>& leaves) const;
  /// The same for one sample, without batching.
  Tensor alone(int64_t sample, const std::vector<size_t>& wanted,
               std::vector<Tensor>& leaves) const;

  c10::OperatorHandle op_;
  bool can_be_batched_;
  int64_t samples_;
  std::vector<c10::IValue> arguments_;
  std::vector<Operand> operands_;
};

template <class Tensors>
Tensor OperatorSite::call(const Tensors& tensor_for) const {
  std::vector<c10::IValue> stack = arguments_;
  for (size_t k = 0; k < operands_.size();) {
    const size_t i = operands_[k].argument;
    if (operands_[k].element < 0) {
      stack[i] = tensor_for(operands_[k++]);
      continue;
    }
    const bool optional = arguments_[i].isOptionalTensorList();
    c10::List<Tensor> tensors;
    c10::List<c10::optional<Tensor>> optionals;
    int64_t element = 0;
    for (const c10::IValue& each : arguments_[i].toListRef()) {
      c10::optional<Tensor> tensor;
      if (k < operands_.size() && operands_[k].argument == i && operands_[k].element == element) {
        tensor = tensor_for(operands_[k++]);
      } else if (each.isTensor()) {
        tensor = each.toTensor();
      }
      ++element;
      if (optional) {
        optionals.push_back(tensor);
      } else {
        tensors.push_back(tensor.value());
      }
    }
    stack[i] = optional ? c10::IValue(optionals) : c10::IValue(tensors);
  }
  op_.callBoxed(stack);
  return stack.front().toTensor();
}

int64_t OperatorSite::samples_at_a_time(int64_t entries) const {
  int64_t parameters = 0;
  int64_t others = c10::multiply_integers(output_shape);
  for (const Operand& operand : operands_) {
    (operand.use && !operand.by_sample ? parameters : others) += operand.value.numel();
  }
  const int64_t of_a_sample = std::max({int64_t{1}, parameters, others / samples_});
  return std::clamp<int64_t>(entries / of_a_sample, 1, samples_);
}

Tensor OperatorSite::together(int64_t first, int64_t count, const std::vector<size_t>& wanted,
                              std::vector<Tensor>& leaves) const {
  leaves.clear();
  const BatchingScope batch(count);
  std::vector<Tensor> tensors;
  for (const Operand& operand : operands_) {
    tensors.push_back(operand.by_sample ? batch.wrap(stacked(operand, first, count))
                                        : operand.value);
  }
  for (const size_t k : wanted) {
    leaves.push_back(stacked(operands_[k], first, count).detach().requires_grad_());
    tensors[k] = batch.wrap(leaves.back());
  }
  try {
    const Tensor h = batch.unwrap(
        call([&](const Operand& operand) { return tensors[&operand - &operands_[0]]; }));
    return batch.one_by_one() ? Tensor() : h;
  } catch (const std::exception&) {
    return {};
  }
}

Tensor OperatorSite::alone(int64_t sample, const std::vector<size_t>& wanted,
                           std::vector<Tensor>& leaves) const {
  leaves.clear();
  std::vector<Tensor> tensors;
  for (const Operand& operand : operands_) tensors.push_back(of_sample(operand, sample));
  for (const size_t k : wanted) {
    leaves.push_back(stacked(operands_[k], sample, 1).detach().requires_grad_());
    tensors[k] = leaves.back().squeeze(0);
  }
  const Tensor h = call([&](const Operand& operand) { return tensors[&operand - &operands_[0]]; });
  return h.unsqueeze(0);
}

/// Sums the gradient [count, …] of broadcast copies to that of their original.
Tensor of_originals(const ParameterUse& use, const Tensor& gradient) {
  if (!use.copied) return gradient;
  std::vector<int64_t> shape = use.shape;
  if (use.transposed) std::swap(shape[0], shape[1]);
  shape.insert(shape.begin(), static_cast<size_t>(gradient.dim()) - 1 - shape.size(), 1);
  shape.insert(shape.begin(), gradient.size(0));
  return gradient.sum_to_size(shape);
}

void OperatorSite::factor(FactorBuilder& build) const {
  const Tensor& G = build.gradient;  // [b, c, T, d…]
  const int64_t outputs = build.outputs();
  std::vector<size_t> wanted;
  std::vector<Tensor> rows;
  for (size_t k = 0; k < operands_.size(); ++k) {
    const Operand& operand = operands_[k];
    if (!operand.use || !build.by_rule(*operand.use)) continue;
    wanted.push_back(k);
    rows.push_back(
        torch::zeros({samples_, outputs, operand.use->numel()}, operand.value.options()));
  }
  const auto add_rows = [&](int64_t first, int64_t count, const Tensor& h,
                            const std::vector<Tensor>& leaves) {
    if (!h.requires_grad()) return;
    const Tensor seeds = G.narrow(0, first, count);
    for (int64_t c = 0; c < outputs; ++c) {
      const auto gradients =
          torch::autograd::grad({h}, leaves, {seeds.select(1, c).reshape(h.sizes())},
                                /*retain_graph=*/c + 1 < outputs, /*create_graph=*/false,
                                /*allow_unused=*/true);
      for (size_t k = 0; k < leaves.size(); ++k) {
        if (!gradients[k].defined()) continue;
        const Tensor found = of_originals(*operands_[wanted[k]].use, gradients[k]);
        rows[k].narrow(0, first, count).select(1, c).copy_(found.reshape({count, -1}));
      }
    }
  };
  const int64_t step = samples_at_a_time(build.slice);
  bool batched = step > 1 && can_be_batched_;
  std::vector<Tensor> leaves;
  for (int64_t i = 0; i < samples_; i += step) {
    const int64_t count = std::min(step, samples_ - i);
    if (batched) {
      const Tensor h = together(i, count, wanted, leaves);
      batched = h.defined();
      if (batched) add_rows(i, count, h, leaves);
    }
    for (int64_t k = i; !batched && k < i + count; ++k) {
      const Tensor h = alone(k, wanted, leaves);
      add_rows(k, 1, h, leaves);
      interruption_point();
    }
    interruption_point();
  }
  for (size_t k = 0; k < wanted.size(); ++k) {
    const ParameterUse& use = *operands_[wanted[k]].use;
    Tensor found = rows[k].view({samples_ * outputs, -1});
    if (use.transposed) {
      found = found.view({found.size(0), use.shape[1], use.shape[0]}).transpose(1, 2).flatten(1);
    }
    build.add_rows(use, use.scale == 1 ? found : found * use.scale);
  }
}

}  // namespace

std::unique_ptr<Site> any_operator(const Call& call) {
  bool has_parameter = false;
  for_each_operand(call, [&](const Tensor& tensor, size_t, int64_t) {
    has_parameter = has_parameter || (tensor.requires_grad() && call.parameter_in(tensor));
  });
  if (!has_parameter) return nullptr;
  const int64_t b = call.samples();
  const Tensor& h = call.output();
  const auto op = call.handle();
  if (!op || h.dim() == 0 || h.size(0) % b != 0) return nullptr;
  const c10::FunctionSchema& schema = op->schema();
  if (schema.is_mutable() || schema.returns().size() != 1 ||
      schema.arguments().size() != call.size() ||
      schema.returns().front().type()->kind() != c10::TypeKind::TensorType) {
    return nullptr;
  }
  auto site = std::make_unique<OperatorSite>(*op, call);
  bool known = true;
  for_each_operand(call, [&](const Tensor& tensor, size_t i, int64_t element) {
    Operand operand;
    operand.argument = i;
    operand.element = element;
    operand.value = tensor.detach();
    operand.version = version_of(tensor);
    operand.use = tensor.requires_grad() ? call.parameter_in(tensor) : std::nullopt;
    if (operand.use) {
      operand.use->argument = i;
      operand.use->element = element;
      site->uses.push_back(*operand.use);
    } else if (call.depends_on_inputs(tensor)) {
      operand.by_sample = true;
      known = known && tensor.dim() > 0 && tensor.size(0) > 0 && tensor.size(0) % b == 0;
    } else {
      known = known && !tensor.requires_grad();
    }
    site->add(std::move(operand));
  });
  if (!known) return nullptr;
  if (site->takes_samples_alone(h)) return site;
  return site->take_copies(/*by_sample=*/true) && site->takes_samples_alone(h) ? std::move(site)
                                                                               : nullptr;
}

}  // namespace cdt::kernel::rules
