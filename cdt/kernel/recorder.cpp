#include <ATen/record_function.h>
#include <cdt/core/error.h>
#include <cdt/kernel/recorder.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>

namespace cdt::kernel {
namespace {

using c10::IValue;
using torch::Tensor;
using torch::autograd::Edge;
using torch::autograd::Node;

/// A place in the autograd graph, comparable: the input `number` of `node`.
using Port = std::pair<const Node*, uint32_t>;

/// An operand made of one parameter alone, and the place where its gradient arrives.
struct Expression {
  ParameterUse use;
  std::optional<Port> parent;  ///< the expression it was made from; none for the parameter itself.
};

class Recorder {
 public:
  explicit Recorder(const Model& model) {
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const Edge edge = torch::autograd::impl::gradient_edge(model.parameters()[i]);
      keep_alive_.push_back(edge.function);
      expressions_[{edge.function.get(), edge.input_nr}] = {{i, 1.0, false}, std::nullopt};
    }
  }

  void start(const at::RecordFunction& fn) {
    if (++depth_ > 1) return;  // composite operators report their parts too: the outermost counts
    const auto inputs = fn.inputs();
    name_ = fn.name();
    arguments_.assign(inputs.begin(), inputs.end());
    version_ = is_tensor(0) ? version_of(tensor(0)) : 0;
    refuse_training_mode();
  }

  void end(const at::RecordFunction& fn) {
    if (--depth_ > 0) return;
    const auto& outputs = fn.outputs();
    if (!outputs.empty() && outputs[0].isTensor()) {
      const Tensor& h = outputs[0].toTensor();
      if (h.defined()) {
        activation_bytes_ += static_cast<int64_t>(h.nbytes());
        ++depth_;  // reading a scalar operand calls operators: not the model's
        note(h);
        --depth_;
      }
    }
    arguments_.clear();
  }

  /// A forward pass under this recorder's eyes.
  /// @throws InvalidArgument if a layer was in training mode; its statistics are as before, then.
  Tensor watch(const Model& model, const Tensor& x);

  /// Keeps the sites that the outputs depend on, and says which parameters they account for.
  void finish(Recording& recording, size_t parameters);

 private:
  /// What an operand's gradient port was when it was used, if it is an expression.
  struct Operand {
    Port port;
    ParameterUse use;
  };
  struct Found {
    Site site;
    std::vector<Port> operands;
  };

  static int64_t version_of(const Tensor& t) {
    return t.defined() && !t.is_inference() ? static_cast<int64_t>(t._version()) : 0;
  }

  const Tensor& tensor(size_t i) const { return arguments_[i].toTensor(); }
  bool is_tensor(size_t i) const {
    return i < arguments_.size() && arguments_[i].isTensor() && arguments_[i].toTensor().defined();
  }
  double number(size_t i) const { return arguments_[i].toScalar().toDouble(); }

  std::optional<Operand> operand(size_t i) const {
    if (!is_tensor(i) || !tensor(i).requires_grad()) return std::nullopt;
    const Edge edge = torch::autograd::impl::gradient_edge(tensor(i));
    const Port port{edge.function.get(), edge.input_nr};
    const auto it = expressions_.find(port);
    if (it == expressions_.end()) return std::nullopt;
    return Operand{port, it->second.use};
  }

  void note(const Tensor& h) {
    if (!h.requires_grad() || h.is_leaf()) return;
    if (name_ == "aten::t" || name_ == "aten::transpose" || name_ == "aten::numpy_T" ||
        name_ == "aten::mT") {
      const auto source = operand(0);
      const bool swaps =
          name_ != "aten::transpose" || (arguments_[1].toInt() - arguments_[2].toInt()) % 2 != 0;
      if (source && tensor(0).dim() == 2 && swaps) {
        derive(h, *source, 1.0, !source->use.transposed);
      }
    } else if (name_ == "aten::neg") {
      if (const auto source = operand(0)) derive(h, *source, -1.0, source->use.transposed);
    } else if (name_ == "aten::mul" || name_ == "aten::mul_") {
      multiply(h);
    } else if (name_ == "aten::div") {
      const auto source = operand(0);
      const auto divisor = constant(1);
      if (source && divisor && arguments_.size() == 2) {
        derive(h, *source, 1.0 / *divisor, source->use.transposed);
      }
    } else if (name_ == "aten::add" || name_ == "aten::add_" || name_ == "aten::sub" ||
               name_ == "aten::sub_") {
      add(h);
    } else if (name_ == "aten::linear") {
      linear(h, 0, 1, 2, 1.0, 1.0, /*weight_stored_transposed=*/true);
    } else if (name_ == "aten::matmul" || name_ == "aten::mm") {
      linear(h, 0, 1, std::nullopt, 1.0, 1.0, false);
    } else if (name_ == "aten::addmm") {
      linear(h, 1, 2, 0, number(4), number(3), false);
    }
  }

  /// Of a layer that is used twice, the state before the first time.
  void remember(const Tensor& state) {
    const bool known = std::any_of(states_.begin(), states_.end(),
                                   [&](const auto& entry) { return entry.first.is_same(state); });
    if (!known) states_.emplace_back(state, state.detach().clone());
  }

  /// After a refused pass: what its layers have moved goes back.
  void restore() {
    if (refusal_.empty()) return;
    const torch::NoGradGuard no_graph;
    for (const auto& [state, before] : states_) state.copy_(before);
  }

  void refuse_training_mode() {
    // A counter of batches.
    if (name_ == "aten::add_" && is_tensor(0) && tensor(0).dim() == 0 &&
        c10::isIntegralType(tensor(0).scalar_type(), /*includeBool=*/false)) {
      remember(tensor(0));
    }
    if (name_ == "aten::batch_norm" || name_ == "aten::native_batch_norm") {
      if (arguments_.size() > 5 && arguments_[5].isBool() && arguments_[5].toBool()) {
        for (const size_t statistic : {size_t{3}, size_t{4}}) {
          if (is_tensor(statistic)) remember(tensor(statistic));
        }
        refusal_ =
            "batch norm in training mode couples the samples of a batch, so a sample has no kernel "
            "of its own; "
            "call eval() on the model first, or use group or layer norm";
      }
    } else if (name_.find("dropout") != std::string::npos && arguments_.size() > 2 &&
               arguments_[2].isBool() && arguments_[2].toBool() && number(1) > 0) {
      refusal_ =
          "dropout in training mode makes the outputs random; call eval() on the model first";
    }
  }

  /// A number, or a zero-dimensional tensor that no gradient flows to.
  std::optional<double> constant(size_t i) const {
    if (i >= arguments_.size()) return std::nullopt;
    if (arguments_[i].isScalar()) return number(i);
    if (is_tensor(i) && tensor(i).dim() == 0 && !tensor(i).requires_grad()) {
      return tensor(i).item<double>();
    }
    return std::nullopt;
  }

  void derive(const Tensor& h, const Operand& source, double factor, bool transposed) {
    const Edge edge = torch::autograd::impl::gradient_edge(h);
    keep_alive_.push_back(edge.function);
    expressions_[{edge.function.get(), edge.input_nr}] = {
        {source.use.parameter, source.use.scale * factor, transposed}, source.port};
  }

  void multiply(const Tensor& h) {
    const auto left = operand(0);
    const auto right = operand(1);
    if (left && right) return;
    if (left || right) {
      const size_t other = left ? 1 : 0;
      const Operand& source = left ? *left : *right;
      if (const auto factor = constant(other)) {
        if (name_ == "aten::mul") derive(h, source, *factor, source.use.transposed);
      } else if (is_tensor(other) && !source.use.transposed) {
        Site site;
        site.scale = source.use;
        site.input = tensor(other);
        // The version is that of the first argument, which an in-place product has overwritten.
        site.input_version = other == 0 ? version_ : version_of(tensor(other));
        keep(h, std::move(site), {source.port});
      }
    }
  }

  void add(const Tensor& h) {
    const auto left = operand(0);
    const auto right = operand(1);
    if (left.has_value() == right.has_value() || !is_tensor(0) || !is_tensor(1)) return;
    const Operand& source = left ? *left : *right;
    if (source.use.transposed) return;
    const double alpha = arguments_.size() > 2 ? number(2) : 1.0;
    const double sign = name_.compare(0, 9, "aten::sub") == 0 ? -1.0 : 1.0;
    Site site;
    site.bias = source.use;
    if (right) site.bias->scale *= sign * alpha;
    keep(h, std::move(site), {source.port});
  }

  void linear(const Tensor& h, size_t input, size_t weight, std::optional<size_t> bias,
              double alpha, double beta, bool weight_stored_transposed) {
    if (!is_tensor(input)) return;
    const auto w = operand(weight);
    const auto b = bias ? operand(*bias) : std::nullopt;
    Site site;
    std::vector<Port> operands;
    if (w && !operand(input) && tensor(input).dim() >= 2 && tensor(weight).dim() == 2) {
      site.weight = w->use;
      site.weight->scale *= alpha;
      if (weight_stored_transposed) site.weight->transposed = !site.weight->transposed;
      site.input = tensor(input);
      site.input_version = version_of(tensor(input));
      operands.push_back(w->port);
    }
    if (b) {
      site.bias = b->use;
      site.bias->scale *= beta;
      operands.push_back(b->port);
    }
    if (!operands.empty()) keep(h, std::move(site), std::move(operands));
  }

  void keep(const Tensor& h, Site site, std::vector<Port> operands) {
    const bool in_place = name_.back() == '_';
    // Written through a view, h shares its gradient with the rest of its base.
    if (in_place && h.is_view()) return;
    // A composite operator may return a reshaped view of what it computed; an in-place activation
    // would replace the view's place in the graph, not its base's.
    const bool reshaped = h.is_view() && h._base().numel() == h.numel() && h.is_contiguous() &&
                          h._base().is_contiguous();
    site.edge = torch::autograd::impl::gradient_edge(reshaped ? Tensor(h._base()) : h);
    site.output_shape = h.sizes().vec();
    site.input = site.input.defined() ? site.input.detach() : site.input;
    found_.push_back({std::move(site), std::move(operands)});
  }

  int depth_ = 0;
  std::string name_;
  std::vector<IValue> arguments_;
  int64_t version_ = 0;
  int64_t activation_bytes_ = 0;
  std::string refusal_;
  std::vector<std::pair<Tensor, Tensor>> states_;  ///< that training mode moves, and their values
  std::map<Port, Expression> expressions_;
  std::vector<Found> found_;
  std::vector<std::shared_ptr<Node>> keep_alive_;  ///< ports are compared by address
};

void Recorder::finish(Recording& recording, size_t parameters) {
  // How often each port is fed, counted over the graph that the outputs depend on.
  std::unordered_set<const Node*> reachable;
  std::map<Port, int64_t> feeds;
  std::vector<Node*> pending;
  if (Node* root = recording.outputs.grad_fn().get()) {
    reachable.insert(root);
    pending.push_back(root);
  }
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    for (const Edge& next : node->next_edges()) {
      if (!next.is_valid()) continue;
      ++feeds[{next.function.get(), next.input_nr}];
      if (reachable.insert(next.function.get()).second) pending.push_back(next.function.get());
    }
  }

  // Of those, how many we can explain: a use at a site, or one expression made from another.
  std::map<Port, int64_t> explained;
  for (Found& found : found_) {
    if (!reachable.count(found.site.edge.function.get())) continue;
    for (const Port& port : found.operands) ++explained[port];
    recording.sites.push_back(std::move(found.site));
  }
  for (const auto& [port, expression] : expressions_) {
    if (expression.parent && reachable.count(port.first)) ++explained[*expression.parent];
  }

  recording.used.assign(parameters, false);
  recording.covered.assign(parameters, true);
  for (const auto& [port, expression] : expressions_) {
    if (!reachable.count(port.first)) continue;
    const size_t p = expression.use.parameter;
    recording.used[p] = true;
    if (feeds[port] != explained[port]) recording.covered[p] = false;
  }
  recording.activation_bytes = activation_bytes_;
}

/// RecordFunction takes plain function pointers: the recorder of this thread's forward pass.
thread_local Recorder* active = nullptr;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  if (active != nullptr) active->start(fn);
  return nullptr;
}

void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  if (active != nullptr) active->end(fn);
}

/// Callbacks of this thread for as long as it lives.
class Watch {
 public:
  explicit Watch(Recorder& recorder) : before_(active) {
    active = &recorder;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_start, &on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Watch() {
    at::removeCallback(handle_);
    active = before_;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Recorder* before_;
  at::CallbackHandle handle_;
  at::RecordFunctionGuard enabled_{true};
};

Tensor Recorder::watch(const Model& model, const Tensor& x) {
  Tensor outputs;
  try {
    const Watch watch(*this);
    outputs = evaluate(model, x);
  } catch (...) {
    restore();
    throw;
  }
  restore();
  CDT_REQUIRE(refusal_.empty(), refusal_);
  require_influence(outputs.requires_grad());
  return outputs;
}

}  // namespace

Recording record(const Model& model, const Tensor& x) {
  Recorder recorder(model);
  Recording recording;
  recording.outputs = recorder.watch(model, x);
  recorder.finish(recording, model.parameters().size());
  const auto& used = recording.used;
  require_influence(std::find(used.begin(), used.end(), true) != used.end());
  return recording;
}

Tensor differentiable_outputs(const Model& model, const Tensor& x) {
  return Recorder(model).watch(model, x);
}

}  // namespace cdt::kernel
