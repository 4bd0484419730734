#include <ATen/record_function.h>
#include <cdt/core/error.h>
#include <cdt/kernel/check/pending_checks.h>
#include <cdt/kernel/playback.h>
#include <cdt/kernel/record/kept_states.h>
#include <cdt/kernel/record/random_state.h>
#include <cdt/kernel/record/recorder.h>
#include <cdt/kernel/rules/table.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

namespace cdt::kernel {
namespace {

using torch::Tensor;
using torch::autograd::Edge;
using torch::autograd::Node;

/// A comparable place in the autograd graph: input `number` of `node`.
using Port = std::pair<const Node*, uint32_t>;

/// An operand made from a single parameter, and the place where its gradient arrives.
struct Expression {
  ParameterUse use;
  /// The expression from which it was made; none for the parameter itself, or a computed operand.
  std::optional<Port> parent;
};

Port port_at(const Tensor& tensor) {
  const Edge edge = torch::autograd::impl::gradient_edge(tensor);
  return {edge.function.get(), edge.input_nr};
}

/// Calls `work` for each tensor of an argument or list.
template <class Work>
void for_each_tensor(const c10::IValue& value, const Work& work) {
  if (value.isTensor() && value.toTensor().defined()) work(value.toTensor());
  if (!value.isList()) return;
  for (const c10::IValue& each : value.toListRef()) {
    if (each.isTensor() && each.toTensor().defined()) work(each.toTensor());
  }
}

/// Tensors that depend on the inputs, by their storage. Entries keep the address of a freed
/// storage, without its memory, so that it cannot be reused for another.
class Dependents {
 public:
  void add(const Tensor& tensor) {
    if (!tensor.has_storage() || has(tensor)) return;
    storages_.insert(tensor.storage().unsafeGetStorageImpl());
    keep_alive_.push_back(tensor.storage().getWeakStorageImpl());
  }
  bool has(const Tensor& tensor) const {
    return tensor.has_storage() && storages_.count(tensor.storage().unsafeGetStorageImpl()) > 0;
  }

 private:
  std::unordered_set<const c10::StorageImpl*> storages_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> keep_alive_;
};

class Recorder : public Call {
 public:
  Recorder(const Model& model, const Tensor& x)
      : parameters_(model.parameters().size()),
        samples_(x.defined() && x.dim() > 0 ? x.size(0) : 1) {
    require_trainable(model);
    if (!recording_here()) random_.emplace(model.device());
    for (size_t i = 0; i < parameters_; ++i) {
      const Edge edge = torch::autograd::impl::gradient_edge(model.parameters()[i]);
      keep_alive_.push_back(edge.function);
      ParameterUse whole;
      whole.parameter = i;
      whole.shape = model.parameters()[i].sizes().vec();
      expressions_[{edge.function.get(), edge.input_nr}] = {whole, std::nullopt};
    }
  }

  void start(const at::RecordFunction& fn) {
    // Composite operators report their parts too; only the outermost counts.
    if (++depth_ > 1) return look_within(fn);
    const auto inputs = fn.inputs();
    name_ = fn.name();
    rules_ = &rules_for(name_);
    arguments_.assign(inputs.begin(), inputs.end());
    first_version_ = is_tensor(0) ? version_of(tensor(0)) : 0;
    output_ = Tensor();
    for (const Rule& rule : *rules_) {
      if (rule.refuse != nullptr) note(rule.refuse(*this));
    }
    states_.look(fn);
  }

  void end(const at::RecordFunction& fn) {
    if (--depth_ > 0) return;
    ++depth_;  // reading a scalar operand calls operators, which are not the model's
    depends_on_inputs_ = false;
    for (const c10::IValue& argument : arguments_) {
      for_each_tensor(argument, [&](const Tensor& t) {
        depends_on_inputs_ = depends_on_inputs_ || dependents_.has(t);
      });
    }
    function_ = &fn;
    const auto& outputs = fn.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      for_each_tensor(outputs[i], [&](const Tensor& output) {
        states_.made(output, arguments_);
        refuse_rounding(output);
        if (depends_on_inputs_) dependents_.add(output);
        if (i == 0) take(output);
      });
    }
    --depth_;
    function_ = nullptr;
    arguments_.clear();
    output_ = Tensor();
  }

  std::optional<ParameterUse> parameter(size_t i) const override {
    auto use = is_tensor(i) ? parameter_in(tensor(i)) : std::nullopt;
    if (use && use->copied) return std::nullopt;
    if (use) use->argument = i;
    return use;
  }

  std::optional<ParameterUse> parameter_in(const Tensor& t) const override {
    if (!t.requires_grad()) return std::nullopt;
    const auto it = expressions_.find(port_at(t));
    return it == expressions_.end() ? std::nullopt : std::optional(it->second.use);
  }

  /// Only checks; does not record where parameters enter.
  void only_refuse() { only_refuses_ = true; }

  bool depends_on_inputs(const Tensor& t) const override { return dependents_.has(t); }
  int64_t samples() const override { return samples_; }

  std::optional<c10::OperatorHandle> handle() const override {
    const auto name = function_->operator_name();
    if (!name) return std::nullopt;
    const auto found = c10::Dispatcher::singleton().findSchema(*name);
    return found ? std::optional<c10::OperatorHandle>(*found) : std::nullopt;
  }

  /// Runs any pass and checks it; keeps nothing.
  void refuse(const std::function<void()>& pass);

  /// Runs a pass that may be refused later, and restores states.
  Tensor peek(const std::function<Tensor()>& pass);

  /// Runs and records a forward pass.
  /// @throws InvalidArgument if a layer was in training mode; its statistics are restored.
  Tensor watch(const Model& model, const Tensor& x, PendingChecks& checks);

  /// Keeps the sites that influence the outputs, and determines which parameters they cover.
  void finish(Recording& recording);

 private:
  struct Found {
    std::unique_ptr<Site> site;
    std::vector<Port> operands;
    std::set<Port> arguments;  ///< of operators that may use an operand several times
  };

  /// Processes an output of the call, the first or one of a list.
  void take(const Tensor& output) {
    output_ = output;
    new_bytes_ = is_view_of_an_argument() ? 0 : static_cast<int64_t>(output_.nbytes());
    if (!only_refuses_ && !is_complex()) apply_rules();
    activation_bytes_ += new_bytes_;
  }

  /// Complex numbers have no rules: their parameters use Jacobian rows.
  bool is_complex() const {
    bool found = output_.is_complex();
    for (const c10::IValue& argument : arguments_) {
      for_each_tensor(argument, [&](const Tensor& t) { found = found || t.is_complex(); });
    }
    return found;
  }

  /// Where the gradient of an argument arrives; none if it has none.
  std::optional<Port> port_of(size_t i) const {
    if (!is_tensor(i) || !tensor(i).requires_grad()) return std::nullopt;
    return port_at(tensor(i));
  }

  const Tensor& operand_of(const ParameterUse& use) const {
    const c10::IValue& argument = arguments_[use.argument];
    return use.element < 0 ? argument.toTensor()
                           : argument.toListRef()[static_cast<size_t>(use.element)].toTensor();
  }

  bool is_view_of_an_argument() const {
    for (size_t i = 0; i < size(); ++i) {
      if (is_tensor(i) && output_.is_alias_of(tensor(i))) return true;
    }
    return false;
  }

  void apply_rules() {
    if (!output_.requires_grad() || output_.is_leaf()) return;
    // Outputs that do not depend on inputs, such as a table read at fixed places, may still have a
    // row per sample.
    const bool has_samples =
        depends_on_inputs_ || (output_.dim() > 0 && output_.size(0) % samples_ == 0);
    for (const Rule& rule : *rules_) {
      if (rule.follow != nullptr) {
        if (const auto use = rule.follow(*this)) return derive(*use);
      }
      if (rule.recognise != nullptr && has_samples) {
        if (auto site = rule.recognise(*this)) return keep(std::move(site));
      }
    }
    if (!depends_on_inputs_) return compute();
    if (auto site = rules::any_operator(*this)) keep(std::move(site));
  }

  /// For an operator without a rule: its output becomes an operand if it depends on parameters
  /// only.
  void compute() {
    bool alone = !depends_on_inputs_ && name_.back() != '_';
    for (const c10::IValue& argument : arguments_) {
      for_each_tensor(argument, [&](const Tensor& t) {
        alone = alone && (!t.requires_grad() || expressions_.count(port_at(t)) > 0);
      });
    }
    const Edge edge = torch::autograd::impl::gradient_edge(output_);
    const Port port{edge.function.get(), edge.input_nr};
    if (!alone || expressions_.count(port) > 0) return;
    new_bytes_ = 0;  // belongs to parameters, not a sample
    ParameterUse use;
    use.parameter = parameters_ + computed_.size();
    use.shape = output_.sizes().vec();
    keep_alive_.push_back(edge.function);
    expressions_[port] = {use, std::nullopt};
    computed_.push_back({output_, {}});
  }

  void note(const Refusal& refusal) {
    if (refusal_.empty()) refusal_ = refusal.reason;
    for (const Tensor& state : refusal.moved) states_.keep(state);
  }

  void look_within(const at::RecordFunction& fn) {
    if (function_ != nullptr) return;  // not the model's
    for (const Rule& rule : rules_for(fn.name())) {
      if (rule.within) note(rule.refuse(*this));
    }
  }

  /// Derivatives in such a dtype are too imprecise.
  void refuse_rounding(const Tensor& output) {
    const auto dtype = output.scalar_type();
    if (dtype != torch::kBFloat16 && dtype != torch::kHalf) return;
    note({c10::str("the model computes in ", dtype, " (", name_,
                   "), as under autocast: its derivatives have too few digits for a kernel. Leave "
                   "autocast out of the forward pass, or switch it off there: "
                   "torch.autocast(device, enabled=False)"),
          {}});
  }

  /// Call after a pass: restores the model's states.
  void restore() {
    const std::string by = states_.restore();
    if (!refusal_.empty() && random_) random_->restore();
    if (by.empty() || !refusal_.empty()) return;
    refusal_ = c10::str("the model reads a tensor that its forward pass writes to (", by,
                        "), so its outputs are others at each call: running statistics, or a "
                        "spectral norm in training mode? Call eval() on the model first");
  }

  void derive(const ParameterUse& use) {
    new_bytes_ = 0;  // belongs to parameters, not a sample
    const Edge edge = torch::autograd::impl::gradient_edge(output_);
    const Port port{edge.function.get(), edge.input_nr};
    if (port_of(use.argument) == port) return;  // the operand itself was returned
    keep_alive_.push_back(edge.function);
    expressions_[port] = {use, port_of(use.argument)};
  }

  void keep(std::unique_ptr<Site> site) {
    const Tensor& h = output_;
    const bool in_place = name_.back() == '_';
    // If written through a view, h shares its gradient with the rest of its base.
    if (in_place && h.is_view()) return;
    // A composite operator may return a reshaped view of its result; an in-place activation would
    // replace the view's place in the graph, not that of its base.
    const bool reshaped = h.is_view() && h._base().numel() == h.numel() && h.is_contiguous() &&
                          h._base().is_contiguous();
    site->edge = torch::autograd::impl::gradient_edge(reshaped ? Tensor(h._base()) : h);
    site->output_shape = h.sizes().vec();
    if (site->input.defined()) site->input = site->input.detach();
    std::vector<Port> operands;
    for (const ParameterUse& use : site->uses) operands.push_back(port_at(operand_of(use)));
    std::set<Port> arguments;
    if (site->may_feed_operands_often()) {
      for (const c10::IValue& argument : arguments_) {
        for_each_tensor(argument, [&](const Tensor& t) {
          if (t.requires_grad()) arguments.insert(port_at(t));
        });
      }
    }
    found_.push_back({std::move(site), std::move(operands), std::move(arguments)});
  }

  size_t parameters_;
  int64_t samples_;
  bool only_refuses_ = false;
  int depth_ = 0;
  const at::RecordFunction* function_ = nullptr;  ///< call that has returned
  const std::vector<Rule>* rules_ = nullptr;      ///< rules of the call in progress
  Dependents dependents_;
  bool depends_on_inputs_ = false;  ///< whether the call in progress does
  std::vector<Computed> computed_;
  int64_t activation_bytes_ = 0;
  int64_t new_bytes_ = 0;  ///< bytes of the call in progress
  std::string refusal_;
  std::optional<RandomState> random_;  ///< changed by a refused pass
  KeptStates states_;                  ///< changed by the pass
  std::map<Port, Expression> expressions_;
  std::vector<Found> found_;
  std::vector<std::shared_ptr<Node>> keep_alive_;  ///< ports are compared by address
};

using Feeds = std::map<Port, int64_t>;

/// Counts how often each port is fed from nodes reachable from `root`, without entering those
/// behind a port that `stops`. Does not count nodes entered before.
template <class Stops>
void count_feeds(const Node* root, const Stops& stops, std::unordered_set<const Node*>& entered,
                 Feeds& feeds) {
  std::vector<const Node*> pending;
  if (root != nullptr && entered.insert(root).second) pending.push_back(root);
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    for (const Edge& next : node->next_edges()) {
      if (!next.is_valid()) continue;
      const Port port{next.function.get(), next.input_nr};
      ++feeds[port];
      if (!stops(port) && entered.insert(port.first).second) pending.push_back(port.first);
    }
  }
}

void Recorder::finish(Recording& recording) {
  // Counts over the graph on which the outputs depend.
  std::unordered_set<const Node*> reachable;
  Feeds feeds;
  count_feeds(
      recording.outputs.grad_fn().get(), [](const Port&) { return false; }, reachable, feeds);
  ++feeds[port_at(recording.outputs)];  // by their differentiation

  // Of these, count those explained: a use at a site, or one expression made from another,
  Feeds explained;
  for (Found& found : found_) {
    if (!reachable.count(found.site->edge.function.get())) continue;
    if (found.arguments.empty()) {
      for (const Port& port : found.operands) ++explained[port];
    } else {
      std::unordered_set<const Node*> within;
      Feeds inside;
      count_feeds(
          found.site->edge.function.get(),
          [&](const Port& port) { return found.arguments.count(port) > 0; }, within, inside);
      for (const Port& port : std::set<Port>(found.operands.begin(), found.operands.end())) {
        explained[port] += inside[port];
      }
    }
    recording.sites.push_back(std::move(found.site));
  }
  // (parts of a parameter may come from one node)
  std::set<std::pair<const Node*, Port>> steps;
  for (const auto& [port, expression] : expressions_) {
    if (expression.parent && reachable.count(port.first)) {
      steps.insert({port.first, *expression.parent});
    }
  }
  for (const auto& [node, parent] : steps) ++explained[parent];
  // … or an operator between a computed operand and the expressions from which it was made.
  // Anything else fed there (a second result of the same operator) is unexplained.
  std::unordered_set<const Node*> counted;
  std::vector<Feeds> behind(computed_.size());
  std::vector<std::unordered_set<const Node*>> within(computed_.size());
  for (size_t k = 0; k < computed_.size(); ++k) {
    const Node* root = port_at(computed_[k].value).first;
    if (!reachable.count(root)) continue;
    const auto stops = [&](const Port& port) { return expressions_.count(port) > 0; };
    count_feeds(root, stops, counted, explained);
    count_feeds(root, stops, within[k], behind[k]);
    std::set<size_t> made_from;
    for (const auto& [port, count] : behind[k]) {
      const auto it = expressions_.find(port);
      if (it == expressions_.end()) continue;
      const size_t p = it->second.use.parameter;
      if (p < parameters_) made_from.insert(p);
      if (p >= parameters_) {
        const auto& earlier = computed_[p - parameters_].parameters;
        made_from.insert(earlier.begin(), earlier.end());
      }
    }
    computed_[k].parameters.assign(made_from.begin(), made_from.end());
  }

  recording.used.assign(parameters_, false);
  recording.covered.assign(parameters_, true);
  const auto uncover = [&](size_t p) {
    if (p < parameters_) {
      recording.covered[p] = false;
    } else {
      for (const size_t each : computed_[p - parameters_].parameters) {
        recording.covered[each] = false;
      }
    }
  };
  for (const auto& [port, expression] : expressions_) {
    if (!reachable.count(port.first)) continue;
    const size_t p = expression.use.parameter;
    if (p < parameters_) recording.used[p] = true;
    if (feeds[port] != explained[port]) uncover(p);
  }
  for (const auto& [port, count] : feeds) {
    if (expressions_.count(port) > 0 || explained[port] == count) continue;
    for (size_t k = 0; k < computed_.size(); ++k) {
      if (within[k].count(port.first) > 0) uncover(parameters_ + k);
    }
  }
  recording.computed = std::move(computed_);
  recording.activation_bytes = activation_bytes_;
}

/// RecordFunction takes plain function pointers, hence a thread-local recorder of the current
/// forward pass.
thread_local Recorder* active = nullptr;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  if (active != nullptr) active->start(fn);
  return nullptr;
}

void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  if (active != nullptr) active->end(fn);
}

/// Installs callbacks for this thread while it exists.
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

void Recorder::refuse(const std::function<void()>& pass) {
  try {
    const Watch watch(*this);
    pass();
  } catch (const c10::Error&) {
    restore();
    CDT_REQUIRE(refusal_.empty(), refusal_);  // more informative
    throw;
  } catch (...) {
    restore();
    throw;
  }
  restore();
  CDT_REQUIRE(refusal_.empty(), refusal_);
}

Tensor Recorder::peek(const std::function<Tensor()>& pass) {
  Tensor outputs;
  try {
    const Watch watch(*this);
    outputs = pass();
  } catch (...) {
    restore();
    throw;
  }
  restore();
  return outputs;
}

Tensor Recorder::watch(const Model& model, const Tensor& x, PendingChecks& checks) {
  Tensor outputs;
  dependents_.add(x);
  refuse([&] { outputs = evaluate(model, x, checks); });
  require_influence(outputs.requires_grad());
  return outputs;
}

}  // namespace

void watch(const Model& model, const std::function<void()>& pass) {
  Recorder recorder(model, {});
  recorder.only_refuse();
  recorder.refuse(pass);
}

int64_t outputs_per_sample(const Model& model, const Tensor& x) {
  const torch::NoGradGuard no_graph;
  return on_few_samples(x, [&](const Tensor& few) {
    Recorder recorder(model, {});
    recorder.only_refuse();
    return recorder.peek([&] { return model.forward(few); }).numel() / few.size(0);
  });
}

Recording record(const Model& model, const Tensor& x, PendingChecks& checks) {
  Recorder recorder(model, x);
  Recording recording;
  recording.outputs = recorder.watch(model, x, checks);
  recorder.finish(recording);
  const auto& used = recording.used;
  require_influence(std::find(used.begin(), used.end(), true) != used.end());
  return recording;
}

Tensor differentiable_outputs(const Model& model, const Tensor& x) {
  PendingChecks checks;
  const Tensor outputs = differentiable_outputs(model, x, checks);
  checks.settle();
  return outputs;
}

Tensor differentiable_outputs(const Model& model, const Tensor& x, PendingChecks& checks) {
  Recorder recorder(model, x);
  recorder.only_refuse();
  return recorder.watch(model, x, checks);
}

}  // namespace cdt::kernel
