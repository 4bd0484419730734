/// Convolutional networks for pictures: AlexNet in torchvision's layout and by its names, so that
/// its weights load, and a small one; with the paper's three parametrisations.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/picture_network.h>

#include <array>

namespace cdt::nn {

/// z ↦ pool(φ(W ⋆ z + b))
struct ConvStage {
  std::string name;      ///< of its tensors in files: "features.0"
  int64_t channels = 1;  ///< base width of its output
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;
  int64_t pool = 0;         ///< side of the maximum behind it; 0: none
  int64_t pool_stride = 0;  ///< of it
};

/// A dense layer behind the last stage.
struct DenseStage {
  std::string name;
  int64_t units = 1;
};

struct ConvNetOptions : PictureOptions {
  std::vector<ConvStage> stages;
  int64_t grid = 0;                ///< means over a grid × grid behind the stages; 0: as it is
  std::vector<DenseStage> hidden;  ///< dense layers between, with φ
  std::string head = "classifier.0";
};

/// AlexNet for any size of pictures from 63 × 63 on: five convolutions, means over 6 × 6, two dense
/// layers of 4096. Its dropout is off.
ConvNetOptions alexnet_options(std::vector<int64_t> input_shape, int64_t outputs);
/// A 3 × 3 convolution and a maximum over 2 × 2 for each of `channels`, then the head.
ConvNetOptions cnn_options(std::vector<int64_t> input_shape, const std::vector<int64_t>& channels,
                           int64_t outputs);

class ConvNetImpl : public NetworkImpl {
 public:
  /// The same seed gives the same network on every device.
  /// @throws InvalidArgument if a number is out of its range, pictures are too small for the
  ///   layers, or there is no memory for them.
  ConvNetImpl(ConvNetOptions options, uint64_t seed, torch::ScalarType dtype = torch::kFloat32);

  /// [r, c, h, w] → [r, outputs]
  /// @throws InvalidArgument if x has another shape.
  torch::Tensor forward(torch::Tensor x) override;

  std::string architecture() const override { return options_.architecture; }
  std::string record() const override;
  std::vector<int64_t> input_shape() const override { return options_.input_shape; }
  int64_t output_count() const override { return options_.outputs; }
  Parametrization parametrization() const override { return options_.parametrization; }
  /// "alexnet 3×96×96-2"
  std::string describe() const override;
  Operations operations_per_sample() const override;
  /// By their names in files: features.0.weight, …
  NamedTensors saved_tensors() const override;
  /// The same times the factors of the parametrisation: what a standard layer would have.
  NamedTensors acting_tensors() const;

  const ConvNetOptions& options() const { return options_; }

  size_t depth() const { return layers_.size(); }  ///< stages, dense layers, head
  const torch::Tensor& weight(size_t layer) const { return layers_[layer].weight; }
  const torch::Tensor& bias(size_t layer) const { return layers_[layer].bias; }
  /// Positions of a layer's output, where its weights are used again.
  double positions(size_t layer) const { return layers_[layer].positions; }
  /// Whether a layer multiplies its parameters by a factor other than 1.
  bool scaled() const;
  /// {channels, height, width} of what the stages give.
  std::array<int64_t, 3> extent_behind_stages() const;

 private:
  struct Layer {
    std::string name;
    torch::Tensor weight, bias;
    LayerScaling scaling;
    double positions = 1;
  };

  ConvNetOptions options_;
  std::vector<Layer> layers_;  ///< stages, dense layers, head
};
TORCH_MODULE(ConvNet);

/// Their entries in the table of architectures. `hidden` of NetworkOptions is nothing to AlexNet,
/// and the channels to a cnn (none given: 32, 64).
Architecture alexnet_architecture();
Architecture cnn_architecture();

}  // namespace cdt::nn
