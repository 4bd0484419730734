#include <cdt/nn/curvature_bound.h>

namespace cdt::nn {
namespace {

using torch::Tensor;

/// φ, and the maximum of |φ'| and |φ''| for each sample [r].
struct Activated {
  Tensor h, slope, bend;
};

Activated activated(Activation activation, const Tensor& z) {
  const torch::AutoGradMode with_graph(true);
  const Tensor at = z.detach().requires_grad_();
  const Tensor h = activate(activation, at);
  const Tensor slope = torch::autograd::grad({h.sum()}, {at}, {}, true, true)[0];
  const Tensor bend = torch::autograd::grad({slope.sum()}, {at})[0];
  return {h.detach(), slope.detach().abs().amax(1), bend.abs().amax(1)};
}

}  // namespace

std::optional<double> curvature_bound(const Mlp& network, const Tensor& x) {
  const Activation activation = network->options().activation;
  if (network->depth() > 1 && activation == Activation::kRelu) return std::nullopt;
  // Bounds for each sample: ‖∂h/∂θ[u]‖ ≤ first, ‖∂²h/∂θ²[u, v]‖ ≤ second for unit u, v.
  Tensor h = x.detach().to(torch::kFloat64);
  Tensor first = torch::zeros({h.size(0)}, h.options()), second = first;
  for (size_t layer = 0; layer < network->depth(); ++layer) {
    if (layer > 0) {
      const Activated next = activated(activation, h);
      second = next.bend * first.square() + next.slope * second;
      first = next.slope * first;
      h = next.h;
    }
    const LayerScaling& scaling = network->scaling(layer);
    const Tensor W = network->weight(layer).detach().to(torch::kFloat64) * scaling.weight_factor;
    const double norm = torch::linalg_matrix_norm(W, 2).item<double>();
    const bool biased = network->options().bias;
    // A direction has parts in the layers below, in W and in b. [[a, b], [b, 0]] bounds the form in
    // the first two: ∂²(Wh)[u, v] = W∂²h[u, v] + u_W∂h[v] + v_W∂h[u].
    const Tensor a = norm * second, b = scaling.weight_factor * first;
    second = (a + (a.square() + 4 * b.square()).sqrt()) / 2;
    const Tensor inputs = scaling.weight_factor * h.norm(2, 1);
    const double of_bias = biased ? scaling.bias_factor * scaling.bias_factor : 0;
    first = ((norm * first).square() + inputs.square() + of_bias).sqrt();
    h = torch::linear(h, W);
    if (biased) {
      h = h + network->bias(layer).detach().to(torch::kFloat64) * scaling.bias_factor;
    }
  }
  return second.norm().item<double>();
}

}  // namespace cdt::nn
