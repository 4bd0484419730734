/// A gradient step of a ReLU network with few operators on any device, without LibTorch's graph.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/mlp.h>

#include <vector>

namespace cdt::nn {

/// A forward pass followed by one step; on the CPU DescentPass is faster. On a GPU the time of a
/// small network's step depends on the number of operations, not their size. Here gradients are
/// added directly to the parameters, by one product each: about 20 operations for three hidden
/// layers, where the graph has 35. Nothing is read from the device.
class OperatorPass {
 public:
  /// Whether this pass applies: ReLU, weights used without a factor and all trainable, x [r,
  /// inputs] of their dtype and device.
  static bool takes(const Mlp& model, const torch::Tensor& x);

  /// @throws InvalidArgument if it does not apply to the network and x.
  OperatorPass(const Mlp& model, const torch::Tensor& x);

  /// Only the outputs, for a network and inputs to which it applies.
  static torch::Tensor evaluate(const Mlp& model, const torch::Tensor& x);

  /// [r, n_L], without a graph
  const torch::Tensor& outputs() const { return outputs_; }

  /// As kernel::StepPass::move.
  /// @throws InvalidArgument if the seed is not shaped like the outputs, or on a second call.
  void move(const torch::Tensor& seed, const torch::Tensor& keep);

 private:
  Mlp model_;
  std::vector<torch::Tensor> inputs_;  ///< inputs of each layer
  torch::Tensor ones_;                 ///< [r]: products with it are sums over samples
  torch::Tensor outputs_;
};

}  // namespace cdt::nn
