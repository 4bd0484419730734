/// Networks of convolutions put together at random, in one to three dimensions. The same seed gives
/// the same network; rules cover every parameter of it.
#pragma once

#include "kernel/random_network.h"

namespace cdt::test {

/// A parameter, scaled or not.
inline Tensor scaled_parameter(Draws& draw, const std::vector<int64_t>& shape) {
  const Tensor p = draw.parameter(shape);
  return draw.coin() ? p : p * draw.factor();
}

/// W ⋆ h + b under one of the names that LibTorch has for it. `wide`: with many channels.
inline Tensor random_convolution(Draws& draw, const Tensor& h, bool wide = false) {
  const auto d = static_cast<size_t>(h.dim() - 2);
  const int64_t in = h.size(1);
  const int64_t groups = wide || draw.coin() ? 1 : (in % 2 == 0 && draw.coin() ? 2 : in);
  const int64_t out = groups * (1 + static_cast<int64_t>(draw.below(3))) * (wide ? 12 : 1);
  const bool transposed = draw.below(4) == 0;
  const bool same = !transposed && draw.below(4) == 0;
  std::vector<int64_t> kernel, stride, padding, dilation, extra;
  for (size_t i = 0; i < d; ++i) {
    const int64_t size = h.size(2 + static_cast<int64_t>(i));
    kernel.push_back(1 + static_cast<int64_t>(draw.below(3)));
    dilation.push_back(1 + static_cast<int64_t>(draw.below(2)));
    stride.push_back(same || (transposed && size > 3) ? 1
                                                      : 1 + static_cast<int64_t>(draw.below(2)));
    padding.push_back(wide ? 0 : static_cast<int64_t>(draw.below(3)));
    extra.push_back(transposed && stride[i] == 2 ? static_cast<int64_t>(draw.below(2)) : 0);
    const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
    const int64_t room = transposed ? (size - 1) * stride[i] + reach - 2 * padding[i]
                                    : size + 2 * padding[i] - reach + 1;
    if (room < 1) kernel[i] = 1;
    if (room < 1 || (transposed && size == 1)) padding[i] = 0;
  }
  std::vector<int64_t> shape{transposed ? in : out, (transposed ? out : in) / groups};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  const Tensor w = scaled_parameter(draw, shape);
  const Tensor b = draw.coin() ? scaled_parameter(draw, {out}) : Tensor();
  const bool general = !same && draw.below(4) == 0;
  if (general) {
    return torch::convolution(h, w, b, stride, padding, dilation, transposed, extra, groups);
  }
  switch (d) {
    case 1:
      if (same) return torch::conv1d(h, w, b, stride, "same", dilation, groups);
      return transposed ? torch::conv_transpose1d(h, w, b, stride, padding, extra, groups, dilation)
                        : torch::conv1d(h, w, b, stride, padding, dilation, groups);
    case 2:
      if (same) return torch::conv2d(h, w, b, stride, "same", dilation, groups);
      return transposed ? torch::conv_transpose2d(h, w, b, stride, padding, extra, groups, dilation)
                        : torch::conv2d(h, w, b, stride, padding, dilation, groups);
    default:
      if (same) return torch::conv3d(h, w, b, stride, "same", dilation, groups);
      return transposed ? torch::conv_transpose3d(h, w, b, stride, padding, extra, groups, dilation)
                        : torch::conv3d(h, w, b, stride, padding, dilation, groups);
  }
}

inline Tensor random_image_layer(Draws& draw, const Tensor& h) {
  std::vector<int64_t> per_channel(static_cast<size_t>(h.dim() - 1), 1);
  per_channel[0] = h.size(1);
  const int64_t C = h.size(1);
  switch (draw.below(16)) {
    case 12: {  // batch norm in evaluation mode
      const auto constant = h.options().requires_grad(false);
      const Tensor mean = torch::linspace(-0.3, 0.4, C, constant);
      const Tensor variance = torch::linspace(0.5, 1.5, C, constant);
      return torch::batch_norm(h, scaled_parameter(draw, {C}), scaled_parameter(draw, {C}), mean,
                               variance, /*training=*/false, 0.1, 1e-5, /*cudnn_enabled=*/true)
          .relu_();
    }
    case 13:
      return torch::group_norm(h, C % 2 == 0 && draw.coin() ? 2 : 1, scaled_parameter(draw, {C}),
                               scaled_parameter(draw, {C}), 1e-2);
    case 14:  // of a few entries: the variance may vanish, ε is large; of one it always does
      if (h.size(0) * C == h.numel()) return h.relu();
      // (Flattened: LibTorch 1.13 has wrong gradients of one picture if those that come back have
      // their channels last.)
      return torch::instance_norm(h, scaled_parameter(draw, {C}), scaled_parameter(draw, {C}), {},
                                  {}, /*use_input_stats=*/true, 0.1, 0.5, true)
          .flatten(1)
          .view_as(h);
    case 15: {  // per channel, seen as pictures
      const Tensor g = h * draw.parameter({C}).view(per_channel);
      return g + scaled_parameter(draw, {C}).view(per_channel);
    }
    case 0: {
      Tensor g = random_convolution(draw, h);
      return draw.coin() ? g.relu_() : g.tanh();
    }
    case 1:
      return h * scaled_parameter(draw, per_channel);
    case 2:
      return torch::add(h, scaled_parameter(draw, per_channel), draw.factor());
    case 3: {  // halves of the channels as images of their own
      if (h.size(1) % 2 != 0) return h.tanh();
      std::vector<int64_t> halves = h.sizes().vec();
      halves[0] *= 2;
      halves[1] /= 2;
      const Tensor g = random_convolution(draw, h.reshape(halves));
      std::vector<int64_t> whole = g.sizes().vec();
      whole[0] /= 2;
      whole[1] *= 2;
      return g.reshape(whole);
    }
    case 4:
      return h.dim() == 4 ? h.contiguous(torch::MemoryFormat::ChannelsLast) : h.tanh();
    case 5: {  // one kernel at two places
      const Tensor w = draw.parameter({h.size(1), h.size(1), 1});
      const Tensor g = h.flatten(2);
      return (torch::conv1d(g, w).tanh() + torch::conv_transpose1d(g, w)).view_as(h);
    }
    case 6:
    case 7:
    case 8: {  // at so few positions pairs of them take fewer operations than rows
      Tensor g = h.narrow(2, 0, std::min<int64_t>(h.size(2), 2));
      for (int64_t i = 3; i < h.dim(); ++i) g = g.narrow(i, 0, 1);
      g = random_convolution(draw, g, /*wide=*/true).tanh();
      return random_convolution(draw, g, /*wide=*/true);
    }
    default:
      return random_convolution(draw, h);
  }
}

inline Network random_convolution_network(uint64_t seed, const torch::TensorOptions& options) {
  Network net;
  net.name = c10::str("random convolutions ", seed);
  std::mt19937_64 random(seed);
  const size_t dimensions = 1 + random() % 3;
  net.input_shape = {1 + static_cast<int64_t>(random() % 4)};
  for (size_t i = 0; i < dimensions; ++i) {
    net.input_shape.push_back(2 + static_cast<int64_t>(random() % (dimensions == 3 ? 2 : 4)));
  }
  std::vector<size_t> chosen;
  const auto run = [seed, options](std::vector<Tensor>& pool, std::vector<size_t>& choices,
                                   bool making, const Tensor& x) {
    Draws draw(seed, pool, choices, making, options);
    Tensor h = random_convolution(draw, x);
    const size_t layers = 1 + draw.below(4);
    for (size_t i = 0; i < layers; ++i) h = random_image_layer(draw, h);
    return torch::linear(h.flatten(1).tanh(), draw.parameter({2, h.flatten(1).size(1)}));
  };
  run(net.parameters, chosen, /*making=*/true, inputs(2, net, options));
  net.forward = [run, chosen](const std::vector<Tensor>& w, const Tensor& x) {
    std::vector<Tensor> pool = w;
    std::vector<size_t> choices = chosen;
    return run(pool, choices, /*making=*/false, x);
  };
  return net;
}

}  // namespace cdt::test
