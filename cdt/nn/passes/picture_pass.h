/// A gradient step of a convolutional ReLU network by matrix products, without LibTorch's graph.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/conv_net.h>

#include <vector>

namespace cdt::nn {

/// A forward pass followed by one step. Convolutions are products with patches, unfolded once and
/// reused for the weights' gradients, which are added directly to the weights: on a GPU faster than
/// cuDNN in full precision, and deterministic. If the pooling grid is finer than the feature maps,
/// so that it copies pixels, the following weights are summed over the copies instead. Nothing is
/// read from the device.
class PicturePass {
 public:
  /// Whether this pass applies: ReLU, weights used without a factor and all trainable, x [r, c, h,
  /// w] of their dtype and device, strides only in the first layer, a grid of single pixels or
  /// copies of them, and memory for the patches.
  static bool takes(const ConvNet& model, const torch::Tensor& x);

  /// @throws InvalidArgument if it does not apply to the network and x.
  PicturePass(const ConvNet& model, const torch::Tensor& x);

  /// Only the outputs, for a network and inputs to which it applies.
  static torch::Tensor evaluate(const ConvNet& model, const torch::Tensor& x);

  /// [r, n_L], without a graph
  const torch::Tensor& outputs() const { return outputs_; }

  /// As kernel::StepPass::move.
  /// @throws InvalidArgument if the seed is not shaped like the outputs, or on a second call.
  void move(const torch::Tensor& seed, const torch::Tensor& keep);

 private:
  /// State of a convolution. Channels come first: [c, r, h, w].
  struct Stage {
    torch::Tensor patches;   ///< [c·k·k, r·positions]
    torch::Tensor response;  ///< output before pooling, if max pooling follows
    torch::Tensor maxima;    ///< indices of the maxima
    torch::Tensor outputs;
    torch::Tensor turned;  ///< the weights for backpropagation
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
  torch::Tensor folded_;                     ///< [units, c·h·w]: weights summed over a grid's
                                             ///< copies
  torch::Tensor outputs_;
};

}  // namespace cdt::nn
