#include <cdt/core/error.h>
#include <cdt/nn/passes/mlp_stack.h>

#include <algorithm>

namespace cdt::nn {
namespace {

using torch::Tensor;

/// Layers in order from the input: W [K, out, in], b [K, out] or undefined.
struct StackedLayer {
  Tensor weight, bias;
  LayerScaling scaling;
};

struct StackedNetwork {
  std::vector<StackedLayer> layers;
  Activation activation = Activation::kRelu;

  /// Outputs [K, r, n_L] for x [K, r, inputs]; `inputs`, if given, receives those of each layer.
  Tensor forward(Tensor z, std::vector<Tensor>* inputs) const {
    const torch::NoGradGuard no_graph;
    for (const StackedLayer& layer : layers) {
      if (inputs != nullptr) inputs->push_back(z);
      Tensor h = scaled(torch::bmm(z, layer.weight.transpose(1, 2)), layer.scaling.weight_factor);
      // On a GPU a step is 3 to 5 % faster than with baddbmm, which first copies the bias to all
      // rows.
      if (layer.bias.defined()) h.add_(layer.bias.unsqueeze(1), layer.scaling.bias_factor);
      if (&layer == &layers.back()) return h;
      z = activation == Activation::kRelu ? h.relu_() : h.tanh_();
    }
    return z;
  }

  /// The gradient at h, given that at z = φ(h).
  Tensor through_activation(const Tensor& gradient, const Tensor& z) const {
    return activation == Activation::kRelu ? torch::threshold_backward(gradient, z, 0)
                                           : at::tanh_backward(gradient, z);
  }
};

class StackedPass : public kernel::StepPass {
 public:
  StackedPass(const StackedNetwork& network, const Tensor& x)
      : network_(network), outputs_(network.forward(x, &inputs_)) {}

  Tensor outputs() const override { return outputs_; }

  void move(const Tensor& seed, const Tensor& keep) override {
    CDT_REQUIRE(!inputs_.empty(), "a pass moves the parameters once; take another forward pass");
    CDT_REQUIRE(seed.sizes() == outputs_.sizes(), "the seed must have the outputs' shape ",
                outputs_.sizes(), ", got ", seed.sizes());
    const torch::NoGradGuard no_graph;
    Tensor gradient = seed.to(outputs_.scalar_type());
    for (size_t i = network_.layers.size(); i-- > 0;) {
      const StackedLayer& layer = network_.layers[i];
      const Tensor& z = inputs_[i];
      Tensor weight = layer.weight, bias = layer.bias;
      const double weight_factor = layer.scaling.weight_factor;
      Tensor before;  // gradient at the layer's inputs, by its previous weights
      if (i > 0) {
        before = weight.size(1) == 1 ? gradient * weight : torch::bmm(gradient, weight);
        before = network_.through_activation(scaled(before, weight_factor), z);
      }
      if (keep.defined()) weight.mul_(keep);
      weight.baddbmm_(gradient.transpose(1, 2), z, 1, -weight_factor);
      if (bias.defined()) {
        if (keep.defined()) bias.mul_(keep);
        bias.sub_(gradient.sum(1), layer.scaling.bias_factor);
      }
      gradient = before;
    }
    inputs_.clear();
  }

  std::vector<Tensor> gradients(const Tensor&) override {
    throw InvalidArgument("a stack of networks has no gradients to hand out");
  }

 private:
  const StackedNetwork& network_;
  std::vector<Tensor> inputs_;  ///< inputs of each layer
  Tensor outputs_;
};

class StackedEngine : public kernel::StepEngine {
 public:
  explicit StackedEngine(StackedNetwork network) : network_(std::move(network)) {}

  std::unique_ptr<kernel::StepPass> forward(const Tensor& x, kernel::StepUse) override {
    return std::make_unique<StackedPass>(network_, x);
  }
  Tensor evaluate(const Tensor& x) override { return network_.forward(x, nullptr); }
  bool repeatable() const override { return true; }

 private:
  StackedNetwork network_;
};

bool alike(const MlpImpl& a, const MlpImpl& b) {
  if (a.describe() != b.describe() || a.dtype() != b.dtype() || a.device() != b.device() ||
      a.options().activation != b.options().activation || a.options().bias != b.options().bias) {
    return false;
  }
  for (size_t i = 0; i < a.depth(); ++i) {
    if (a.scaling(i).weight_factor != b.scaling(i).weight_factor ||
        a.scaling(i).bias_factor != b.scaling(i).bias_factor) {
      return false;
    }
  }
  const auto parameters = b.parameters();
  return std::all_of(parameters.begin(), parameters.end(),
                     [](const Tensor& each) { return each.requires_grad(); });
}

}  // namespace

std::optional<kernel::Stack> make_stack(std::span<const Network> networks) {
  std::vector<std::shared_ptr<MlpImpl>> mlps;
  for (const Network& network : networks) {
    const auto mlp = network.as<MlpImpl>();
    if (!mlp || !alike(mlps.empty() ? *mlp : *mlps.front(), *mlp)) return std::nullopt;
    mlps.push_back(mlp);
  }
  if (mlps.empty()) return std::nullopt;
  const MlpImpl& first = *mlps.front();
  StackedNetwork network;
  network.activation = first.options().activation;
  if (network.activation != Activation::kRelu && network.activation != Activation::kTanh) {
    return std::nullopt;
  }
  const torch::NoGradGuard no_graph;
  const auto stacked = [&](const auto& of) {
    std::vector<Tensor> each;
    for (const auto& mlp : mlps) each.push_back(of(*mlp));
    return torch::stack(each);
  };
  for (size_t i = 0; i < first.depth(); ++i) {
    StackedLayer layer{
        stacked([&](const MlpImpl& mlp) { return mlp.weight(i); }), {}, first.scaling(i)};
    if (first.options().bias) layer.bias = stacked([&](const MlpImpl& mlp) { return mlp.bias(i); });
    network.layers.push_back(layer);
  }
  kernel::Stack stack;
  for (size_t i = first.depth(); i-- > 0;) {  // in the order of parameters()
    stack.parameters.push_back(network.layers[i].weight);
    if (network.layers[i].bias.defined()) stack.parameters.push_back(network.layers[i].bias);
  }
  stack.engine = std::make_shared<StackedEngine>(std::move(network));
  return stack;
}

}  // namespace cdt::nn
