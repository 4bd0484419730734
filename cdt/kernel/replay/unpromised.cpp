#include <ATen/record_function.h>
#include <c10/util/Type.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/replay/unpromised.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

namespace cdt::kernel {
namespace {

using torch::Tensor;
using torch::autograd::Edge;
using torch::autograd::Node;

using Storages = std::map<const c10::StorageImpl*, c10::Storage>;

/// Calls `work` for each storage of an argument or list.
template <class Work>
void for_each_storage(const c10::IValue& value, const Work& work) {
  const auto look = [&](const c10::IValue& each) {
    if (each.isTensor() && each.toTensor().defined() && each.toTensor().has_storage()) {
      work(each.toTensor().storage());
    }
  };
  look(value);
  if (!value.isList()) return;
  for (const c10::IValue& each : value.toListRef()) look(each);
}

/// Storages that the operators of one evaluation use but did not create.
struct Outsiders {
  explicit Outsiders(Storages& storages) : held(storages) {}

  void start(const at::RecordFunction& call) {
    if (++depth > 1) return;  // what a composite operator creates inside is its own
    for (const c10::IValue& argument : call.inputs()) {
      for_each_storage(argument, [&](const c10::Storage& storage) {
        if (made.count(storage.unsafeGetStorageImpl()) == 0) {
          held.emplace(storage.unsafeGetStorageImpl(), storage);
        }
      });
    }
  }
  void end(const at::RecordFunction& call) {
    if (--depth > 0) return;
    for (const c10::IValue& output : call.outputs()) {
      for_each_storage(output, [&](const c10::Storage& storage) {
        const auto* address = storage.unsafeGetStorageImpl();
        // (A weak pointer, so that the address is not reused for another storage.)
        if (held.count(address) == 0) made.try_emplace(address, storage.getWeakStorageImpl());
      });
    }
  }

  Storages& held;
  std::map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> made;
  int64_t depth = 0;
};

/// RecordFunction takes plain function pointers, hence a thread-local object for the current
/// evaluation.
thread_local Outsiders* looking = nullptr;

std::unique_ptr<at::ObserverContext> look_at_start(const at::RecordFunction& call) {
  if (looking != nullptr) looking->start(call);
  return nullptr;
}

void look_at_end(const at::RecordFunction& call, at::ObserverContext*) {
  if (looking != nullptr) looking->end(call);
}

class LookScope {
 public:
  explicit LookScope(Outsiders& outsiders) : before_(std::exchange(looking, &outsiders)) {
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&look_at_start, &look_at_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~LookScope() {
    at::removeCallback(handle_);
    looking = before_;
  }
  LookScope(const LookScope&) = delete;
  LookScope& operator=(const LookScope&) = delete;

 private:
  Outsiders* before_;
  at::CallbackHandle handle_;
  at::RecordFunctionGuard enabled_{true};
};

bool is_libtorch_s(const Node& node) {
  if (dynamic_cast<const torch::autograd::AccumulateGrad*>(&node) != nullptr ||
      dynamic_cast<const torch::autograd::CopySlices*>(&node) != nullptr ||
      dynamic_cast<const torch::autograd::CopyBackwards*>(&node) != nullptr) {
    return true;
  }
  return c10::demangle(typeid(node).name()).rfind("torch::autograd::generated::", 0) == 0;
}

bool has_hooks(Node& node) {
#if TORCH_VERSION_MAJOR >= 2
  if (!node.tensor_pre_hooks().empty()) return true;
#endif
  return !node.pre_hooks().empty() || !node.post_hooks().empty();
}

}  // namespace

Model OutsideTensors::hold_those_of(const Model& model) {
  const auto forward = [this, plain = model.without_plans()](const Tensor& x) {
    Outsiders outsiders(held_);
    const LookScope scope(outsiders);
    return plain.forward(x);
  };
  return {forward, model.parameters()};
}

bool has_plain_graph(const Tensor& outputs) {
  std::vector<Node*> pending{torch::autograd::impl::gradient_edge(outputs).function.get()};
  std::unordered_set<const Node*> seen(pending.begin(), pending.end());
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    if (!is_libtorch_s(*node) || has_hooks(*node)) return false;
    for (const Edge& next : node->next_edges()) {
      if (next.is_valid() && seen.insert(next.function.get()).second) {
        pending.push_back(next.function.get());
      }
    }
  }
  return true;
}

FreshLeavesScope::FreshLeavesScope(const Model& model) : parameters_(model.parameters()) {
  for (const Tensor& p : parameters_) {
    own_.push_back(torch::autograd::impl::try_get_grad_accumulator(p));
    torch::autograd::impl::set_grad_accumulator(p, {});
  }
}

FreshLeavesScope::~FreshLeavesScope() {
  for (size_t k = 0; k < parameters_.size(); ++k) {
    torch::autograd::impl::set_grad_accumulator(parameters_[k], own_[k]);
  }
}

Comparison::Comparison(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  std::vector<Tensor> a, b;
  for (size_t k = 0; k < expected.size(); ++k) {
    if (found[k].defined() != expected[k].defined()) return;
    if (!found[k].defined()) continue;
    if (found[k].sizes() != expected[k].sizes()) return;
    a.push_back(found[k].detach());
    b.push_back(expected[k]);
  }
  dtype_ = b.front().scalar_type();
  std::vector<Tensor> norms = at::_foreach_norm(at::_foreach_sub(a, b));
  const std::vector<Tensor> sizes = at::_foreach_norm(b);
  norms.insert(norms.end(), sizes.begin(), sizes.end());
  norms_ = torch::stack(norms);
}

bool Comparison::agree() const {
  if (!norms_) return false;
  const Tensor read = norms_->cpu().to(torch::kFloat64);
  const double* gap = read.data_ptr<double>();
  const int64_t count = read.size(0) / 2;
  const double tolerance = tol::same_function(dtype_);
  return std::all_of(gap, gap + count,
                     [&](const double& g) { return g <= tolerance * (&g)[count]; });
}

}  // namespace cdt::kernel
