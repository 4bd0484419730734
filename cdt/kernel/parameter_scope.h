/// A model at other parameters for a while.
#pragma once

#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// For as long as it lives, the model's parameters have the data of `values`; then their own again,
/// bit by bit. Their storage is exchanged, not copied. Not between a forward pass and its backward
/// pass.
class ParameterScope {
 public:
  ParameterScope(const Model& model, const std::vector<torch::Tensor>& values)
      : parameters_(model.parameters()) {
    for (size_t k = 0; k < parameters_.size(); ++k) {
      own_.push_back(parameters_[k].data());
      parameters_[k].set_data(values[k]);
    }
  }
  ~ParameterScope() {
    for (size_t k = 0; k < parameters_.size(); ++k) parameters_[k].set_data(own_[k]);
  }
  ParameterScope(const ParameterScope&) = delete;
  ParameterScope& operator=(const ParameterScope&) = delete;

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> own_;
};

/// The same by copies, through data(), which does not count as a change: the graph of a pass that
/// has yet to go backward stays valid.
class ParameterCopyScope {
 public:
  ParameterCopyScope(const Model& model, const std::vector<torch::Tensor>& values)
      : parameters_(model.parameters()) {
    for (const torch::Tensor& parameter : parameters_) own_.push_back(parameter.data().clone());
    set(values);
  }
  ~ParameterCopyScope() { set(own_); }
  ParameterCopyScope(const ParameterCopyScope&) = delete;
  ParameterCopyScope& operator=(const ParameterCopyScope&) = delete;

 private:
  void set(const std::vector<torch::Tensor>& values) {
    for (size_t k = 0; k < values.size(); ++k) parameters_[k].data().copy_(values[k]);
  }

  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> own_;
};

}  // namespace cdt::kernel
