/// A gradient step of a ReLU network on the CPU, without LibTorch's graph.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/mlp.h>

#include <vector>

namespace cdt::nn {

/// A forward pass followed by one descent. It computes the same products as the graph, with fewer
/// passes over memory: a bias and its activation are combined, so are their gradients, and a
/// weight's gradient is added directly to the weight. A wide shallow network takes three quarters
/// of the time.
class DescentPass {
 public:
  /// Whether this pass applies: ReLU, weights used without a factor and all trainable, on the CPU,
  /// x [r, inputs] contiguous and of their dtype.
  static bool takes(const Mlp& model, const torch::Tensor& x);

  /// @throws InvalidArgument if it does not apply to the network and x.
  DescentPass(const Mlp& model, const torch::Tensor& x);

  /// Only the outputs, for a network and inputs to which it applies.
  static torch::Tensor evaluate(const Mlp& model, const torch::Tensor& x);

  /// [r, n_L], without a graph
  const torch::Tensor& outputs() const { return outputs_; }

  /// θ ← (1 − shrink) θ − rate·Jᵀ seed, J the Jacobian of the outputs.
  /// @throws InvalidArgument if the seed is not shaped like the outputs, or on a second call.
  void descend(const torch::Tensor& seed, double rate, double shrink = 0);
  /// As kernel::StepPass::move.
  void move(const torch::Tensor& seed, const torch::Tensor& keep) {
    descend(seed, 1, keep.defined() ? 1 - keep.item<double>() : 0);
  }

 private:
  Mlp model_;
  std::vector<torch::Tensor> inputs_;  ///< inputs of each layer
  torch::Tensor outputs_;
};

}  // namespace cdt::nn
