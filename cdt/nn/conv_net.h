/// Convolutional networks for pictures: AlexNet with torchvision's layout and names, so that its
/// weights load, and a small network; with the paper's three parametrisations.
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/picture_network.h>

#include <array>

namespace cdt::nn {

/// z ↦ pool(φ(W ⋆ z + b))
struct ConvStage {
  std::string name;      ///< name of its tensors in files: "features.0"
  int64_t channels = 1;  ///< base width of its output
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;
  int64_t pool = 0;         ///< side of the max pooling that follows; 0: none
  int64_t pool_stride = 0;  ///< its stride
};

/// A dense layer after the last stage.
struct DenseStage {
  std::string name;
  int64_t units = 1;
};

struct ConvNetOptions : PictureOptions {
  std::vector<ConvStage> stages;
  int64_t grid = 0;                ///< average pooling to grid × grid after the stages; 0: none
  std::vector<DenseStage> hidden;  ///< hidden dense layers, with φ
  std::string head = "classifier.0";
};

/// AlexNet for pictures of at least 63 × 63: five convolutions, average pooling to 6 × 6, two dense
/// layers of 4096 units. No dropout.
ConvNetOptions alexnet_options(std::vector<int64_t> input_shape, int64_t outputs);
/// A 3 × 3 convolution and 2 × 2 max pooling per entry of `channels`, then the head.
ConvNetOptions cnn_options(std::vector<int64_t> input_shape, const std::vector<int64_t>& channels,
                           int64_t outputs);

class ConvNetImpl : public NetworkImpl {
 public:
  /// The same seed gives the same network on every device.
  /// @throws InvalidArgument if a number is out of its range, pictures are too small for the
  ///   layers, or memory is insufficient.
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
  /// With the names in files: features.0.weight, …
  NamedTensors saved_tensors() const override;
  /// The same, multiplied by the factors of the parametrisation: the weights of equivalent standard
  /// layers.
  NamedTensors acting_tensors() const;

  const ConvNetOptions& options() const { return options_; }

  size_t depth() const { return layers_.size(); }  ///< stages, dense layers, head
  const torch::Tensor& weight(size_t layer) const { return layers_[layer].weight; }
  const torch::Tensor& bias(size_t layer) const { return layers_[layer].bias; }
  /// Number of positions of a layer's output, each of which uses the weights.
  double positions(size_t layer) const { return layers_[layer].positions; }
  /// Whether a layer multiplies its parameters by a factor other than 1.
  bool scaled() const;
  /// {channels, height, width} of the output of the last stage.
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

/// Entries of the table of architectures. AlexNet ignores `hidden` of NetworkOptions; cnn reads it
/// as its channels (default: 32, 64).
Architecture alexnet_architecture();
Architecture cnn_architecture();

}  // namespace cdt::nn
