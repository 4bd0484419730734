#include <c10/util/accumulate.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/rules/rule.h>

namespace cdt::kernel {

using torch::Tensor;

std::optional<double> Call::constant(size_t i) const {
  if (i >= size()) return std::nullopt;
  if (arguments_[i].isScalar()) return number(i);
  if (is_tensor(i) && tensor(i).dim() == 0 && !tensor(i).requires_grad()) {
    return tensor(i).item<double>();
  }
  return std::nullopt;
}

int64_t Call::version(size_t i) const { return i == 0 ? first_version_ : version_of(tensor(i)); }

ParameterUse ParameterUse::times(double factor) const {
  ParameterUse use = *this;
  use.scale *= factor;
  return use;
}

ParameterUse ParameterUse::turned() const {
  ParameterUse use = *this;
  use.transposed = !transposed;
  return use;
}

int64_t ParameterUse::numel() const { return c10::multiply_integers(shape); }

std::string Site::objection(const ParameterUse& /*use*/) const { return {}; }

SiteCost Site::cost(int64_t /*samples*/) const {
  SiteCost cost;
  cost.per_output = 1;
  for (const int64_t size : output_shape) cost.per_output *= size;
  if (input.defined()) cost.shared = input.numel();
  return cost;
}

}  // namespace cdt::kernel
