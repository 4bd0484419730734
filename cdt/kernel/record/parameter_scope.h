/// Temporarily sets other parameters in a model.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// While it exists, the model's parameters have the data of `values`; then they are restored bit by
/// bit. Exchanges storage without copying. Do not use between a forward pass and its backward pass.
class ParameterScope {
 public:
  ParameterScope(const Model& model, const std::vector<torch::Tensor>& values)
      : parameters_(model.parameters()) {
    for (const torch::Tensor& parameter : parameters_) own_.push_back(parameter.data());
    try {
      for (size_t k = 0; k < parameters_.size(); ++k) parameters_[k].set_data(values[k]);
    } catch (...) {
      restore();
      throw;
    }
  }
  ~ParameterScope() { restore(); }
  ParameterScope(const ParameterScope&) = delete;
  ParameterScope& operator=(const ParameterScope&) = delete;

 private:
  /// Ignores failures, since a destructor must not throw.
  void restore() noexcept {
    for (size_t k = 0; k < parameters_.size(); ++k) {
      try {
        parameters_[k].set_data(own_[k]);
      } catch (...) {
      }
    }
  }

  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> own_;
};

/// The same by copying through data(), which does not count as a change, so that the graph of a
/// pending backward pass stays valid.
/// @throws InvalidArgument if entries of a parameter share memory.
class ParameterCopyScope {
 public:
  ParameterCopyScope(const Model& model, const std::vector<torch::Tensor>& values);
  ~ParameterCopyScope() { put_back(parameters_, own_); }
  ParameterCopyScope(const ParameterCopyScope&) = delete;
  ParameterCopyScope& operator=(const ParameterCopyScope&) = delete;

  /// Copies values to parameters, or exchanges the storage of those whose shape has changed. For
  /// destructors: ignores failures.
  static void put_back(const std::vector<torch::Tensor>& parameters,
                       const std::vector<torch::Tensor>& values) noexcept;

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> own_;
};

}  // namespace cdt::kernel
