/// What the recording of a model needs that has promised nothing: tensors that stay where they are,
/// derivatives that are LibTorch's own, and a comparison with autograd each time.
#pragma once

#include <cdt/kernel/model.h>
#include <torch/csrc/autograd/function.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace cdt::kernel {

/// The memory of all tensors that a model takes from elsewhere: parameters, buffers, constants. A
/// recording reads them where they were.
class OutsideTensors {
 public:
  /// The model; the tensors of each evaluation are held as long as this lives, which the model must
  /// not outlive.
  Model hold_those_of(const Model& model);

 private:
  std::map<const c10::StorageImpl*, c10::Storage> held_;
};

/// Whether LibTorch's own operators alone, without hooks, will differentiate the outputs: what
/// others do backward may depend on anything.
bool has_plain_graph(const torch::Tensor& outputs);

/// While it lives, the ends of graphs at the parameters are new ones: those of the user's graphs
/// belong to the stream where they were made, which a recording must not touch.
class FreshLeavesScope {
 public:
  explicit FreshLeavesScope(const Model& model);
  ~FreshLeavesScope();
  FreshLeavesScope(const FreshLeavesScope&) = delete;
  FreshLeavesScope& operator=(const FreshLeavesScope&) = delete;

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<std::shared_ptr<torch::autograd::Node>> own_;
};

/// Two evaluations and their derivatives Jᵀv, compared where they are.
class Comparison {
 public:
  /// Undefined tensors are equal to each other alone.
  Comparison(const std::vector<torch::Tensor>& found, const std::vector<torch::Tensor>& expected);
  /// Each to rounding (tol::same_function) of its norm. Waits for the device.
  bool agree() const;

 private:
  std::optional<torch::Tensor> norms_;  ///< [2k]: of differences, then of what was expected
  torch::ScalarType dtype_ = torch::kFloat32;
};

}  // namespace cdt::kernel
