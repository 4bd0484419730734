/// A gradient step of a ReLU network of convolutions by matrix products, without LibTorch's graph.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/conv_net.h>

#include <vector>

namespace cdt::nn {

/// A forward pass that can move the parameters, once. Convolutions are products with patches that
/// are cut once and serve the weights' gradients too, which go straight into the weights: on a GPU
/// faster than cuDNN in full precision and in one order. Where a grid is finer than its pictures
/// and copies their pixels, the weights behind it are summed over the copies instead. Nothing is
/// read from the device.
class PicturePass {
 public:
  /// Whether there is such a pass: ReLU, weights used as they are, all of them trainable, x
  /// [r, c, h, w] of their dtype and device, gaps between positions in the first layer alone, a
  /// grid of pixels or copies of them, and room for the patches.
  static bool takes(const ConvNet& model, const torch::Tensor& x);

  /// @throws InvalidArgument if it does not take the network and x.
  PicturePass(const ConvNet& model, const torch::Tensor& x);

  /// The outputs alone, of a network and inputs that it takes: nothing is kept for a step.
  static torch::Tensor evaluate(const ConvNet& model, const torch::Tensor& x);

  /// [r, n_L], without a graph
  const torch::Tensor& outputs() const { return outputs_; }

  /// As kernel::StepPass::move.
  /// @throws InvalidArgument if the seed is not shaped like the outputs, or at the second call.
  void move(const torch::Tensor& seed, const torch::Tensor& keep);

 private:
  /// Of a convolution. Channels come first: [c, r, h, w].
  struct Stage {
    torch::Tensor patches;   ///< [c·k·k, r·positions]
    torch::Tensor response;  ///< of the weights, where a maximum follows
    torch::Tensor maxima;    ///< their places
    torch::Tensor outputs;
    torch::Tensor turned;  ///< the weights as they take gradients back
  };

  PicturePass(const ConvNet& model, const torch::Tensor& x, bool to_move);
  void add_stage(size_t number, const torch::Tensor& z);
  torch::Tensor back_through(size_t number, const torch::Tensor& gradient) const;
  const torch::Tensor& acting_weight(size_t layer) const;
  void move_dense(size_t layer, const torch::Tensor& gradient, const torch::Tensor& z,
                  const torch::Tensor& keep) const;

  ConvNet model_;
  std::vector<Stage> stages_;
  std::vector<torch::Tensor> dense_inputs_;  ///< [r, units]
  torch::Tensor folded_;                     ///< [units, c·h·w]: summed over a grid's copies
  torch::Tensor outputs_;
};

}  // namespace cdt::nn
