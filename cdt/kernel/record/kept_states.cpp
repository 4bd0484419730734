#include <cdt/kernel/record/kept_states.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

const c10::StorageImpl* storage_of(const Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                  : nullptr;
}

template <class Work>
void for_each_in(const c10::IValue& value, const Work& work) {
  if (value.isTensor() && value.toTensor().defined()) work(value.toTensor());
  if (!value.isTensorList()) return;
  for (const Tensor& each : value.toTensorVector()) {
    if (each.defined()) work(each);
  }
}

/// Range of the arguments that an operator writes to.
std::pair<size_t, size_t> written_by(const at::RecordFunction& call, size_t arguments) {
  const std::string_view name = call.name();
  if (!name.empty() && name.back() == '_') return {0, 1};
  const auto full = call.operator_name();
  const bool out = full && full->overload_name.find("out") != std::string::npos;
  if (!out) return {0, 0};
  const size_t results = std::min(arguments, std::max<size_t>(1, call.num_outputs()));
  return {arguments - results, arguments};
}

}  // namespace

void KeptStates::look(const at::RecordFunction& call) {
  const auto arguments = call.inputs();
  const auto [first, last] = written_by(call, arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool written = i >= first && i < last;
    for_each_in(arguments[i], [&](const Tensor& tensor) {
      const c10::StorageImpl* storage = storage_of(tensor);
      if (storage == nullptr || made_.count(storage) > 0) return;
      if (written) {
        keep(tensor, call.name());
      } else {
        read_.insert(storage);
      }
    });
  }
}

void KeptStates::made(const Tensor& output, const std::vector<c10::IValue>& arguments) {
  const c10::StorageImpl* storage = storage_of(output);
  if (storage == nullptr || made_.count(storage) > 0) return;
  bool argument = false;
  for (const c10::IValue& value : arguments) {
    for_each_in(
        value, [&](const Tensor& tensor) { argument = argument || storage_of(tensor) == storage; });
  }
  if (!argument) made_.try_emplace(storage, output.storage().getWeakStorageImpl());
}

void KeptStates::keep(const Tensor& state, const std::string& by) {
  const bool known = std::ranges::any_of(kept_, [&](const Kept& kept) {
    return kept.state.is_same(state) ||
           (storage_of(kept.state) == storage_of(state) && kept.state.sizes() == state.sizes() &&
            kept.state.strides() == state.strides() &&
            kept.state.storage_offset() == state.storage_offset());
  });
  if (!known) kept_.push_back({state, state.detach().clone(), by});
}

std::string KeptStates::restore() {
  const torch::NoGradGuard no_graph;
  std::string by;
  for (const Kept& kept : kept_) {
    const bool gone = kept.state.use_count() == 1 && kept.state.storage().use_count() == 1;
    if (gone || kept.state.detach().equal(kept.before)) continue;
    kept.state.detach().copy_(kept.before);
    if (kept.state.is_floating_point() && read_.count(storage_of(kept.state)) > 0) by = kept.by;
  }
  kept_.clear();
  return by;
}

}  // namespace cdt::kernel
