/// Safeguards for recording a model without promises of the user: tensors that stay in place,
/// LibTorch's own derivatives only, and a comparison with autograd each time.
#pragma once

#include <cdt/kernel/model.h>
#include <torch/csrc/autograd/function.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace cdt::kernel {

/// Storage of all tensors that a model uses: parameters, buffers, constants. A recording reads them
/// at fixed addresses.
class OutsideTensors {
 public:
  /// The model, modified to hold the tensors of each evaluation while this exists; the result must
  /// not outlive it.
  Model hold_those_of(const Model& model);

 private:
  std::map<const c10::StorageImpl*, c10::Storage> held_;
};

/// Whether the graph of the outputs has only LibTorch's own operators, without hooks; backward
/// functions of others may depend on anything.
bool has_plain_graph(const torch::Tensor& outputs);

/// While it exists, the parameters have new leaf nodes. Those of the user's graphs belong to the
/// stream on which they were made, which a recording must not use.
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

/// Compares two evaluations and their derivatives Jᵀv on the device.
class Comparison {
 public:
  /// Undefined tensors equal only each other.
  Comparison(const std::vector<torch::Tensor>& found, const std::vector<torch::Tensor>& expected);
  /// Whether all agree to rounding (tol::same_function) of their norm. Waits for the device.
  bool agree() const;

 private:
  std::optional<torch::Tensor> norms_;  ///< [2k]: of differences, then of expected tensors
  torch::ScalarType dtype_ = torch::kFloat32;
};

}  // namespace cdt::kernel
