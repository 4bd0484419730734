#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/train/saved_state.h>

#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

const SavedState::Value& value_of(const SavedState& state, const std::string& name) {
  const auto found = state.values.find(name);
  CDT_REQUIRE(found != state.values.end(), "the checkpoint's state has no '", name, "'");
  return found->second;
}

const Tensor& tensor_of(const SavedState& state, const std::string& name) {
  const auto found = state.tensors.find(name);
  CDT_REQUIRE(found != state.tensors.end(), "the checkpoint has no tensor '", name, "'");
  return found->second;
}

std::string saved_name(const std::string& name) {
  return c10::str("the checkpoint's state '", name, "'");
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

Tensor SavedState::tensor(const std::string& name, c10::IntArrayRef shape) const {
  const Tensor& found = tensor_of(*this, name);
  CDT_REQUIRE(found.scalar_type() == torch::kFloat64, "the checkpoint's tensor '", name,
              "' must be float64, got ", found.scalar_type());
  require_shape(found, shape, c10::str("the checkpoint's tensor '", name, "'"));
  require_finite(found, c10::str("the checkpoint's tensor '", name, "'"));
  return found;
}

Tensor SavedState::tensor_like(const std::string& name, const Tensor& like) const {
  const Tensor& found = tensor_of(*this, name);
  CDT_REQUIRE(found.sizes() == like.sizes() && found.dtype() == like.dtype(),
              "the checkpoint belongs to another model: '", name, "' must be ", like.dtype(), " ",
              like.sizes(), ", got ", found.dtype(), " ", found.sizes());
  return found.to(like.device());
}

std::vector<Tensor> SavedState::tensors_like(const std::string& name,
                                             const std::vector<Tensor>& model) const {
  std::vector<Tensor> found;
  for (const Tensor& like : model) {
    found.push_back(tensor_like(c10::str(name, ".", found.size()), like));
  }
  return found;
}

double SavedState::number(const std::string& name) const {
  const Value& value = value_of(*this, name);
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  CDT_REQUIRE(std::holds_alternative<double>(value), saved_name(name), " must be a number");
  return std::get<double>(value);
}

double SavedState::positive(const std::string& name) const {
  const double value = number(name);
  require_positive(value, saved_name(name));
  return value;
}

double SavedState::non_negative(const std::string& name) const {
  const double value = number(name);
  require_non_negative(value, saved_name(name));
  return value;
}

int64_t SavedState::count(const std::string& name, int64_t least) const {
  const Value& value = value_of(*this, name);
  CDT_REQUIRE(std::holds_alternative<int64_t>(value), saved_name(name), " must be a whole number");
  const int64_t count = std::get<int64_t>(value);
  CDT_REQUIRE(count >= least, saved_name(name), " must be ", least, " or more, got ", count);
  return count;
}

bool SavedState::flag(const std::string& name) const {
  const Value& value = value_of(*this, name);
  CDT_REQUIRE(std::holds_alternative<bool>(value), saved_name(name), " must be true or false");
  return std::get<bool>(value);
}

const std::vector<SavedState>& SavedState::list(const std::string& name) const {
  const auto found = lists.find(name);
  CDT_REQUIRE(found != lists.end(), "the checkpoint's state has no list '", name, "'");
  return found->second;
}

double saved_rate(const SavedState& state) {
  const double rate = state.number("learning_rate");
  return std::isnan(rate) ? rate : state.positive("learning_rate");
}

}  // namespace cdt::train
