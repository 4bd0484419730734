/// A gradient step of a ReLU network by few operators on any device, without LibTorch's graph.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/mlp.h>

#include <vector>

namespace cdt::nn {

/// A forward pass that can move the parameters, once; DescentPass is the faster one on the CPU. On
/// a GPU a small network's step takes as long as its operations are many, not as they are large:
/// here gradients go straight into the parameters, a product each, some 20 operations for three
/// hidden layers where the graph has 35. Nothing is read from the device.
class OperatorPass {
 public:
  /// Whether there is such a pass: ReLU, weights used as they are, all of them trainable, x
  /// [r, inputs] of their dtype and device.
  static bool takes(const Mlp& model, const torch::Tensor& x);

  /// @throws InvalidArgument if it does not take the network and x.
  OperatorPass(const Mlp& model, const torch::Tensor& x);

  /// The outputs alone, of a network and inputs that it takes: nothing is kept for a step.
  static torch::Tensor evaluate(const Mlp& model, const torch::Tensor& x);

  /// [r, n_L], without a graph
  const torch::Tensor& outputs() const { return outputs_; }

  /// As kernel::StepPass::move.
  /// @throws InvalidArgument if the seed is not shaped like the outputs, or at the second call.
  void move(const torch::Tensor& seed, const torch::Tensor& keep);

 private:
  Mlp model_;
  std::vector<torch::Tensor> inputs_;  ///< of each layer
  torch::Tensor ones_;                 ///< [r]: sums over samples are products with it
  torch::Tensor outputs_;
};

}  // namespace cdt::nn
