/// Fully connected networks with the paper's three parametrisations (App. init).
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/nn/architectures.h>

namespace cdt::nn {

struct MlpOptions {
  int64_t inputs = 1;
  std::vector<int64_t> hidden;  ///< base widths; the layers have s times as many units
  int64_t outputs = 1;
  Activation activation = Activation::kRelu;
  Parametrization parametrization = Parametrization::kStandard;
  double sigma_w = 1.0;
  double sigma_b = 0.1;      ///< biases are drawn from N(0, σ_b²)
  int64_t width_factor = 1;  ///< s; never on the input layer
  bool bias = true;

  void fields(Fields& f);  ///< fields of its record in files, docs/formats.md
};

/// h^{l+1} = z^l W^{l+1} + b^{l+1}, z = φ(h), no activation after the last layer. parameters() is
/// the paper's θ = [vec(W^L) b^L … vec(W^1) b^1], from the last layer to the first. Weights are
/// stored [out, in]: row by row, they equal vec of the paper's W [in, out].
class MlpImpl : public NetworkImpl {
 public:
  /// Draws the parameters from their distributions; the same seed gives the same network on every
  /// device.
  /// @throws InvalidArgument if a width or the width factor is below 1, or a σ is negative or not
  ///   finite.
  MlpImpl(MlpOptions options, uint64_t seed, torch::ScalarType dtype = torch::kFloat32);

  /// [r, inputs] → [r, outputs]
  /// @throws InvalidArgument if the last dimension is not `inputs`.
  torch::Tensor forward(torch::Tensor x) override;

  std::string architecture() const override { return "mlp"; }
  std::string record() const override;
  std::vector<int64_t> input_shape() const override { return {options_.inputs}; }
  int64_t output_count() const override { return options_.outputs; }
  Parametrization parametrization() const override { return options_.parametrization; }
  /// "79-500-500-1", with the widened layers
  std::string describe() const override;
  Operations operations_per_sample() const override;
  NamedTensors saved_tensors() const override;

  const MlpOptions& options() const { return options_; }
  size_t depth() const { return weights_.size(); }
  /// Whether a parameter is multiplied by a factor other than 1.
  bool scaled() const;
  /// Layers count from 0 at the input.
  const torch::Tensor& weight(size_t layer) const { return weights_[layer]; }
  const torch::Tensor& bias(size_t layer) const { return biases_[layer]; }
  const LayerScaling& scaling(size_t layer) const { return scalings_[layer]; }

 private:
  MlpOptions options_;
  std::vector<torch::Tensor> weights_;
  std::vector<torch::Tensor> biases_;
  std::vector<LayerScaling> scalings_;
};
TORCH_MODULE(Mlp);

/// Entry of the table of architectures.
Architecture mlp_architecture();

}  // namespace cdt::nn
