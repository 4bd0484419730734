#include <cdt/kernel/record/own_memory.h>
#include <cdt/kernel/record/parameter_scope.h>

namespace cdt::kernel {

using torch::Tensor;

ParameterCopyScope::ParameterCopyScope(const Model& model, const std::vector<Tensor>& values)
    : parameters_(model.parameters()) {
  require_own_memory(model);
  for (const Tensor& parameter : parameters_) own_.push_back(parameter.data().clone());
  try {
    for (size_t k = 0; k < values.size(); ++k) parameters_[k].data().copy_(values[k]);
  } catch (...) {
    put_back(parameters_, own_);
    throw;
  }
}

void ParameterCopyScope::put_back(const std::vector<Tensor>& parameters,
                                  const std::vector<Tensor>& values) noexcept {
  for (size_t k = 0; k < values.size(); ++k) {
    try {
      Tensor parameter = parameters[k];
      if (parameter.sizes() == values[k].sizes() && !entries_share_memory(parameter)) {
        parameter.data().copy_(values[k]);
      } else {
        parameter.set_data(values[k].clone());
      }
    } catch (...) {
    }
  }
}

}  // namespace cdt::kernel
