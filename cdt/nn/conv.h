/// Convolutional layers with the paper's three parametrisations (App. init).
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/parametrization.h>
#include <torch/expanding_array.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace cdt::nn {

struct Conv2dOptions {
  int64_t in_channels = 1;   ///< n_l, base width of the input
  int64_t out_channels = 1;  ///< base width of the output
  torch::ExpandingArray<2> kernel_size =
      3;  ///< one number, or {height, width}; n_m is their product
  torch::ExpandingArray<2> stride = 1;
  torch::ExpandingArray<2> padding = 0;  ///< zeros on each side
  bool bias = true;
  Parametrization parametrization = Parametrization::kStandard;
  double sigma_w = 1.0;
  double sigma_b = 0.1;          ///< biases are drawn from N(0, σ_b²)
  int64_t width_factor_in = 1;   ///< s; 1 for the network's input
  int64_t width_factor_out = 1;  ///< 1 for the network's output
};

/// h = W ⋆ z + b, one layer without its activation; the weight is stored
/// [out, in, height, width], widened. parameters() gives the weight, then the bias. In a network,
/// register the last layer first to have θ in the paper's order, as Mlp has it.
class Conv2dImpl : public torch::nn::Module {
 public:
  /// Draws the parameters from their distributions, reproducibly: the same seed gives the same
  /// layer on every device.
  /// @throws InvalidArgument if channels, kernel size, stride or a width factor is below 1, padding
  /// is negative, or a σ is negative or not finite.
  Conv2dImpl(Conv2dOptions options, uint64_t seed, torch::ScalarType dtype = torch::kFloat32);
  /// The same, from the CPU generator that the layers of one network share.
  Conv2dImpl(Conv2dOptions options, const at::Generator& generator,
             torch::ScalarType dtype = torch::kFloat32);

  /// [r, c, h, w] → [r, c′, h′, w′] with c = s·in_channels
  /// @throws InvalidArgument if x has another rank or number of channels, or is smaller than the
  /// kernel.
  torch::Tensor forward(const torch::Tensor& x);

  const Conv2dOptions& options() const { return options_; }
  const torch::Tensor& weight() const { return weight_; }
  const torch::Tensor& bias() const { return bias_; }  ///< undefined where there is none

 private:
  Conv2dOptions options_;
  LayerScaling scaling_;
  torch::Tensor weight_;
  torch::Tensor bias_;
};
TORCH_MODULE(Conv2d);

}  // namespace cdt::nn
