#include <cdt/core/error.h>
#include <cdt/core/machine/streams.h>
#include <cdt/nn/passes/operator_pass.h>

#include <algorithm>

namespace cdt::nn {
namespace {

using torch::Tensor;

/// Stream number (core/machine/streams.h): parameters are updated while gradients of earlier layers
/// are computed.
constexpr size_t kMoves = 1;

/// A layer, followed by ReLU unless it is the last. ReLU is not fused with the product, since a
/// library's fused ReLU may turn NaN into 0 and so hide divergence.
Tensor layer_outputs(const Mlp& model, size_t layer, const Tensor& z) {
  const Tensor W = model->weight(layer).t();
  Tensor h = model->options().bias ? torch::addmm(model->bias(layer), z, W) : torch::mm(z, W);
  return layer + 1 == model->depth() ? h : h.relu_();
}

void require_taken(const Mlp& model, const Tensor& x) {
  CDT_REQUIRE(OperatorPass::takes(model, x),
              "a pass by operators needs a ReLU network without scaled or frozen weights and "
              "inputs [r, ",
              model->options().inputs, "] of its dtype and device; the inputs have shape ",
              x.sizes());
}

/// Computes the outputs; `inputs`, if given, receives those of each layer.
Tensor forward_by_operators(const Mlp& model, Tensor z, std::vector<Tensor>* inputs) {
  const torch::NoGradGuard no_graph;
  for (size_t layer = 0; layer < model->depth(); ++layer) {
    if (inputs != nullptr) inputs->push_back(z);
    z = layer_outputs(model, layer, z);
  }
  return z;
}

}  // namespace

bool OperatorPass::takes(const Mlp& model, const Tensor& x) {
  const MlpOptions& options = model->options();
  if (options.activation != Activation::kRelu || model->scaled() || x.dim() != 2 ||
      x.size(1) != options.inputs) {
    return false;
  }
  const auto parameters = model->parameters();
  return std::all_of(parameters.begin(), parameters.end(), [&](const Tensor& parameter) {
    return parameter.requires_grad() && parameter.device() == x.device() &&
           parameter.scalar_type() == x.scalar_type();
  });
}

Tensor OperatorPass::evaluate(const Mlp& model, const Tensor& x) {
  require_taken(model, x);
  return forward_by_operators(model, x, nullptr);
}

OperatorPass::OperatorPass(const Mlp& model, const Tensor& x) : model_(model) {
  require_taken(model_, x);
  Aside aside(x.device(), kMoves);
  aside.run([&] { ones_ = torch::ones({x.size(0)}, x.options()); });
  outputs_ = forward_by_operators(model_, x, &inputs_);
}

void OperatorPass::move(const Tensor& seed, const Tensor& keep) {
  CDT_REQUIRE(!inputs_.empty(), "a pass moves the parameters once; take another forward pass");
  CDT_REQUIRE(seed.sizes() == outputs_.sizes(), "the seed must have the outputs' shape ",
              outputs_.sizes(), ", got ", seed.sizes());
  const torch::NoGradGuard no_graph;
  Tensor gradient = seed.to(outputs_.scalar_type());
  std::vector<Tensor> in_use;
  Aside aside(seed.device(), kMoves);
  for (size_t layer = inputs_.size(); layer-- > 0;) {
    const Tensor& z = inputs_[layer];
    Tensor weight = model_->weight(layer);
    Tensor before;  // gradient at the layer's inputs, by its previous weights
    if (layer > 0) {
      before = weight.size(0) == 1 ? gradient * weight : torch::mm(gradient, weight);
      before = torch::threshold_backward(before, z, 0);
    }
    const auto move_layer = [&] {
      if (keep.defined()) weight.mul_(keep);
      weight.addmm_(gradient.t(), z, 1, -1);
      if (!model_->options().bias) return;
      Tensor bias = model_->bias(layer);
      if (keep.defined()) bias.mul_(keep);
      bias.addmv_(gradient.t(), ones_, 1, -1);  // sums over samples
    };
    if (layer > 0) {
      aside.run(move_layer);  // concurrently with the layers before it
    } else {
      move_layer();
    }
    in_use.push_back(gradient);
    gradient = before;
  }
  aside.join();
  inputs_.clear();
}

}  // namespace cdt::nn
