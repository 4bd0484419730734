/// A gradient step of a ReLU network on the CPU, without LibTorch's graph.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/mlp.h>

#include <vector>

namespace cdt::nn {

/// A forward pass that can descend, once. It takes the products that the graph would, and fewer
/// passes over memory around them: a bias and its activation are one, their gradients are one, and
/// a weight's gradient goes straight into the weight. A wide shallow network takes three
/// quarters of the time.
class DescentPass {
 public:
  /// Whether there is such a pass: ReLU, weights used as they are, all of them trainable, on the
  /// CPU, x [r, inputs] contiguous and of their dtype.
  static bool takes(const Mlp& model, const torch::Tensor& x);

  /// @throws InvalidArgument if it does not take the network and x.
  DescentPass(const Mlp& model, const torch::Tensor& x);

  /// The outputs alone, of a network and inputs that it takes: nothing is kept for a descent.
  static torch::Tensor evaluate(const Mlp& model, const torch::Tensor& x);

  /// [r, n_L], without a graph
  const torch::Tensor& outputs() const { return outputs_; }

  /// θ ← (1 − shrink) θ − rate·Jᵀ seed, J the Jacobian of the outputs.
  /// @throws InvalidArgument if the seed is not shaped like the outputs, or at the second call.
  void descend(const torch::Tensor& seed, double rate, double shrink = 0);
  /// As kernel::StepPass::move.
  void move(const torch::Tensor& seed, const torch::Tensor& keep) {
    descend(seed, 1, keep.defined() ? 1 - keep.item<double>() : 0);
  }

 private:
  Mlp model_;
  std::vector<torch::Tensor> inputs_;  ///< of each layer
  torch::Tensor outputs_;
};

}  // namespace cdt::nn
