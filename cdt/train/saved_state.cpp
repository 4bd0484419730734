#include <cdt/core/error.h>
#include <cdt/train/saved_state.h>

namespace cdt::train {
namespace {

using torch::Tensor;

const SavedState::Value& value_of(const SavedState& state, const std::string& name) {
  const auto found = state.values.find(name);
  CDT_REQUIRE(found != state.values.end(), "the checkpoint's state has no '", name, "'");
  return found->second;
}

}  // namespace

void SavedState::put(const std::string& name, const std::vector<Tensor>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    tensors[c10::str(name, ".", i)] = values[i].detach().clone();
  }
}

void SavedState::take_tensors(const std::string& name, SavedState& part) {
  for (auto& [key, tensor] : part.tensors) tensors[c10::str(name, ".", key)] = std::move(tensor);
  part.tensors.clear();
}

std::map<std::string, Tensor> SavedState::tensors_of(const std::string& name) const {
  const std::string prefix = name + ".";
  std::map<std::string, Tensor> found;
  for (auto it = tensors.lower_bound(prefix); it != tensors.end() && it->first.starts_with(prefix);
       ++it) {
    found[it->first.substr(prefix.size())] = it->second;
  }
  return found;
}

const Tensor& SavedState::tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  CDT_REQUIRE(found != tensors.end(), "the checkpoint has no tensor '", name, "'");
  return found->second;
}

std::vector<Tensor> SavedState::tensors_like(const std::string& name,
                                             const std::vector<Tensor>& model) const {
  std::vector<Tensor> found;
  for (const Tensor& like : model) {
    const Tensor& saved = tensor(c10::str(name, ".", found.size()));
    CDT_REQUIRE(saved.sizes() == like.sizes() && saved.dtype() == like.dtype(),
                "the checkpoint is of another model: a parameter must be ", like.dtype(), " ",
                like.sizes(), ", not ", saved.dtype(), " ", saved.sizes());
    found.push_back(saved.to(like.device()));
  }
  return found;
}

double SavedState::number(const std::string& name) const {
  const Value& value = value_of(*this, name);
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  CDT_REQUIRE(std::holds_alternative<double>(value), "the checkpoint's state '", name,
              "' must be a number");
  return std::get<double>(value);
}

int64_t SavedState::count(const std::string& name) const {
  const Value& value = value_of(*this, name);
  CDT_REQUIRE(std::holds_alternative<int64_t>(value), "the checkpoint's state '", name,
              "' must be a whole number");
  return std::get<int64_t>(value);
}

bool SavedState::flag(const std::string& name) const {
  const Value& value = value_of(*this, name);
  CDT_REQUIRE(std::holds_alternative<bool>(value), "the checkpoint's state '", name,
              "' must be true or false");
  return std::get<bool>(value);
}

}  // namespace cdt::train
