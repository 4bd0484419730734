/// ResNet-18 for pictures of any size, with torchvision's layout and names, so that its weights
/// load; with the paper's three parametrisations.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/picture_network.h>

namespace cdt::nn {

/// Batch norm always runs in evaluation mode: an affine map by running statistics, which are part
/// of the network and its files but never updated. By default they are 0 and 1.
///
/// The shifts of the norms serve as biases of the preceding convolutions, which have none: they are
/// drawn and scaled as the parametrisation says. The norms' scales start at 1.
class ResNet18Impl : public NetworkImpl {
 public:
  /// The same seed gives the same network on every device.
  /// @throws InvalidArgument if a number is out of its range, or memory is insufficient.
  ResNet18Impl(PictureOptions options, uint64_t seed, torch::ScalarType dtype = torch::kFloat32);

  /// [r, c, h, w] → [r, outputs]
  /// @throws InvalidArgument if x has another shape.
  torch::Tensor forward(torch::Tensor x) override;

  std::string architecture() const override { return options_.architecture; }
  std::string record() const override;
  std::vector<int64_t> input_shape() const override { return options_.input_shape; }
  int64_t output_count() const override { return options_.outputs; }
  Parametrization parametrization() const override { return options_.parametrization; }
  /// "resnet18 3×96×96-2"
  std::string describe() const override;
  Operations operations_per_sample() const override;
  /// With the names in files: conv1.weight, bn1.running_mean, …
  NamedTensors saved_tensors() const override { return tensors_; }
  /// The same, multiplied by the factors of the parametrisation: the weights of equivalent standard
  /// layers.
  NamedTensors acting_tensors() const;

  const PictureOptions& options() const { return options_; }

 private:
  /// A convolution and the norm that follows.
  struct Unit {
    std::string conv, norm;  ///< names
    int64_t stride = 1;
    int64_t padding = 0;
    double positions = 1;  ///< positions of its output
    LayerScaling scaling;
  };
  torch::Tensor apply(const Unit& unit, const torch::Tensor& x) const;
  const torch::Tensor& tensor(const std::string& layer, const char* part) const;

  PictureOptions options_;
  std::vector<Unit> units_;  ///< in the order of the forward pass
  LayerScaling head_;
  NamedTensors tensors_;  ///< parameters and statistics
};
TORCH_MODULE(ResNet18);

/// ResNet-18 for pictures [channels, height, width].
PictureOptions resnet18_options(std::vector<int64_t> input_shape, int64_t outputs);

/// Entry of the table of architectures. Ignores `hidden` of NetworkOptions.
Architecture resnet18_architecture();

}  // namespace cdt::nn
