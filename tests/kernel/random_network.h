/// Networks put together at random: layers in any order, parameters shared, scaled, transposed and
/// computed before use. The same seed gives the same network.
#pragma once

#include <random>

#include "kernel/networks.h"

namespace cdt::test {

/// The draws behind one network. The first pass makes its parameters; later ones find them again.
class Draws {
 public:
  Draws(uint64_t seed, std::vector<Tensor>& pool, std::vector<size_t>& chosen, bool making,
        const torch::TensorOptions& options)
      : random_(seed), pool_(pool), chosen_(chosen), making_(making), options_(options) {}

  size_t below(size_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }
  double factor() { return 0.5 + static_cast<double>(below(1000)) / 1000; }
  int64_t width() { return 1 + static_cast<int64_t>(below(5)); }

  /// A new one, or one of this shape that is in use already.
  Tensor parameter(const std::vector<int64_t>& shape) {
    const size_t draw = below(100);
    if (making_) {
      std::vector<size_t> same;
      for (size_t i = 0; i < pool_.size(); ++i) {
        if (pool_[i].sizes().vec() == shape) same.push_back(i);
      }
      const bool shared = draw < 40 && !same.empty();
      if (!shared) pool_.push_back(test::parameter(shape, options_));
      chosen_.push_back(shared ? same[draw % same.size()] : pool_.size() - 1);
    }
    return pool_[chosen_[next_++]];
  }

  /// Of this shape, made from parameters.
  Tensor operand(const std::vector<int64_t>& shape) {
    const std::vector<int64_t> turned(shape.rbegin(), shape.rend());
    std::vector<int64_t> taller = shape;
    ++taller[0];
    switch (below(16)) {
      case 0:
        return parameter(shape) * factor();
      case 1:
        return parameter(shape) / factor();
      case 2:
        return -parameter(shape);
      case 3:
        return parameter(shape).exp() * 0.3;
      case 4:
        return parameter(shape) * parameter(shape);
      case 5:
        return parameter(shape) + parameter(shape);
      case 6:
        return parameter(taller).narrow(0, 1, shape[0]);
      case 7:
        return parameter(shape).clone().mul_(factor());
      case 8:
      case 9:
        return shape.size() == 2 ? parameter(turned).t() : parameter(shape);
      case 10:
        return shape.size() == 2 ? factor() * parameter(turned).transpose(-1, 0).neg()
                                 : parameter(shape);
      default:
        return parameter(shape);
    }
  }

 private:
  std::mt19937_64 random_;
  std::vector<Tensor>& pool_;
  std::vector<size_t>& chosen_;
  bool making_;
  torch::TensorOptions options_;
  size_t next_ = 0;
};

Tensor random_layer(Draws& draw, const Tensor& h, int depth);

/// Layers that read the last dimension, whatever stands before it: h [b, d] or [b, T, d].
inline Tensor feature_layer(Draws& draw, const Tensor& h, int depth) {
  const int64_t d = h.size(-1);
  const int64_t out = draw.width();
  switch (draw.below(25)) {
    case 20:  // RMS norm, composed
      return h * torch::rsqrt(h.square().mean(-1, true) + 1e-3) * draw.operand({d});
    case 21: {  // by the sign of each feature
      const Tensor rows = torch::embedding(
          draw.operand({2, out}), (h.detach() > 0).to(torch::kInt64), draw.coin() ? 0 : -1);
      return rows.sum(-2) + h.sum(-1, true);
    }
    case 22: {  // projections that are parts of one parameter
      const auto parts = draw.parameter({3 * out, d}).chunk(3);
      const auto biases = draw.parameter({3 * out}).split(out);
      return torch::linear(h, parts[0], biases[2]) *
             torch::linear(h, parts[draw.below(3)], biases[0]).sigmoid();
    }
    case 23: {  // a layer's parameters in one vector, aligned or not
      const int64_t first = draw.coin() ? d : 1;
      const Tensor all = draw.parameter({first + (out + 1) * d + out});
      return torch::linear(h, all.narrow(0, first, out * d).view({out, d}),
                           all.narrow(0, first + out * d, out))
                 .tanh() +
             (h * all.slice(0, first + out * d + out)).sum(-1, true);
    }
    case 24: {
      const Tensor w = draw.parameter({d});
      return torch::layer_norm(h, {d}, w * draw.factor(), draw.operand({d})) + h * w.view({1, d});
    }
    case 0:
      return torch::linear(h, draw.operand({out, d}), draw.operand({out}));
    case 1:
      return torch::linear(h, draw.operand({out, d}));
    case 2:
      return h.matmul(draw.operand({d, out}));
    case 3:
      return torch::einsum("...i,io->...o", {h, draw.operand({d, out})});
    case 4:
      return torch::add(h, draw.operand({d}), draw.factor());
    case 5:
      return torch::sub(draw.operand({d}), h, draw.factor());
    case 6:
      return draw.operand({d}) * h;
    case 7:
      return (h * 1.0).mul_(draw.operand({d}));
    case 8:
      return h / (draw.operand({d}).square() + 1);
    case 9:
      return torch::layer_norm(h, {d}, draw.parameter({d}), draw.parameter({d}));
    case 10: {
      const Tensor gate = draw.parameter({});
      return draw.coin() ? h * gate : gate * h;
    }
    case 11: {  // one weight on both sides
      const Tensor w = draw.operand({d, out});
      return h.matmul(w).tanh().matmul(w.t());
    }
    case 12: {  // activation, scale and bias in place
      Tensor g = torch::linear(h, draw.operand({d, d}), draw.operand({d}));
      g.relu_();
      g = g * 1.0;
      return g.mul_(draw.operand({d})).add_(draw.operand({d}), draw.factor());
    }
    case 13: {  // written through a view
      Tensor g = h * 1.0;
      g.narrow(-1, 0, 1).add_(draw.operand({1}));
      g.narrow(-1, d - 1, 1).mul_(draw.operand({1}));
      return g;
    }
    case 14: {  // written into a buffer
      std::vector<int64_t> shape = h.sizes().vec();
      shape.back() = out + 1;
      Tensor buffer = torch::zeros(shape, h.options().requires_grad(false));
      buffer.narrow(-1, 0, out).copy_(torch::linear(h, draw.operand({out, d})));
      Tensor last = buffer.narrow(-1, out, 1);
      last.copy_(draw.operand({1}).expand_as(last));
      return buffer;
    }
    case 15: {
      const auto halves = h.matmul(draw.operand({d, 2 * out})).chunk(2, -1);
      return halves[0].sigmoid() * halves[1];
    }
    case 16:
      return torch::linear(h, draw.parameter({3, out, d}).select(0, 1),
                           draw.parameter({3, out}).select(0, 2));
    case 17: {
      const Tensor w = draw.parameter({d, out});
      return h.matmul(w) + h.matmul(w.detach());
    }
    case 18: {
      const Tensor g = depth < 2 ? random_layer(draw, h, depth + 1) : h.tanh();
      return g.sizes() == h.sizes() ? h + g : g;
    }
    default:
      return draw.coin() ? h.tanh() : torch::gelu(h);
  }
}

/// Layers that know the shape [b, d].
inline Tensor flat_layer(Draws& draw, const Tensor& h) {
  const int64_t d = h.size(1);
  const int64_t out = draw.width();
  switch (draw.below(5)) {
    case 0:
      return torch::addmm(draw.operand({out}), h, draw.operand({d, out}), draw.factor(),
                          -draw.factor());
    case 1:  // samples along the second dimension
      return draw.operand({out, d}).matmul(h.t()).t();
    case 2: {
      const int64_t positions = draw.coin() ? 7 : 2;  // as many as the tests have samples, or not
      return h.matmul(draw.operand({d, positions * out})).reshape({-1, positions, out});
    }
    case 3: {
      const Tensor state = torch::zeros({h.size(0), out}, h.options().requires_grad(false));
      return torch::gru_cell(h, state, draw.parameter({3 * out, d}), draw.parameter({3 * out, out}),
                             draw.parameter({3 * out}), draw.parameter({3 * out}));
    }
    default:
      return h * draw.operand({1, d});
  }
}

/// Layers that know the shape [b, T, d].
inline Tensor sequence_layer(Draws& draw, const Tensor& h) {
  const int64_t T = h.size(1);
  const int64_t d = h.size(2);
  const int64_t out = draw.width();
  switch (draw.below(11)) {
    case 8: {  // attention with its heads' positions before samples
      const Tensor t = h.transpose(0, 1);
      const auto qkv =
          torch::linear(t, draw.operand({3 * out, d}), draw.operand({3 * out})).chunk(3, -1);
      const Tensor q = qkv[0].transpose(0, 1), k = qkv[1].transpose(0, 1);
      const Tensor mixed = q.matmul(k.transpose(1, 2)).softmax(-1).matmul(qkv[2].transpose(0, 1));
      return torch::linear(mixed.transpose(0, 1), draw.operand({d, out})).transpose(0, 1);
    }
    case 9: {  // norms and biases there
      const Tensor t = h.transpose(0, 1);
      return (torch::layer_norm(t, {d}, draw.operand({d}), draw.operand({d})) * draw.operand({d}) +
              draw.operand({d}))
          .transpose(0, 1);
    }
    case 10:
      return torch::layer_norm(h, {T, d}, draw.parameter({T, d}), draw.parameter({T, d}));
    case 0:  // positions folded into rows
      return torch::linear(h.reshape({-1, d}), draw.operand({out, d}), draw.operand({out}))
          .reshape({-1, T, out});
    case 1:  // positions before samples
      return torch::linear(h.permute({1, 0, 2}), draw.operand({out, d}), draw.operand({out}))
          .permute({1, 0, 2});
    case 2: {
      const Tensor q = h.matmul(draw.operand({d, out}));
      const Tensor k = h.matmul(draw.operand({d, out}));
      return q.matmul(k.transpose(1, 2)).softmax(-1).matmul(h);
    }
    case 3:
      return torch::conv1d(h, draw.parameter({out, T, 1}), draw.parameter({out}));
    case 4:
      return draw.coin() ? h + draw.operand({T, 1}) : h * draw.operand({T, d});
    case 5: {  // a recurrent network
      const Tensor A = draw.operand({d, out});
      const Tensor B = draw.operand({out, out});
      const Tensor c = draw.operand({out});
      Tensor state = torch::zeros({h.size(0), out}, h.options().requires_grad(false));
      for (int64_t t = 0; t < T; ++t) {
        state = (h.select(1, t).matmul(A) + state.mm(B) + c).tanh();
      }
      return state;
    }
    case 6:
      return torch::bmm(h, draw.operand({d, out}).expand({h.size(0), d, out}));
    default:
      return draw.coin() ? h.mean(1) : h.flatten(1);
  }
}

inline Tensor random_layer(Draws& draw, const Tensor& h, int depth) {
  if (draw.below(3) > 0) return feature_layer(draw, h, depth);
  return h.dim() == 2 ? flat_layer(draw, h) : sequence_layer(draw, h);
}

inline Network random_network(uint64_t seed, const torch::TensorOptions& options) {
  Network net;
  net.name = c10::str("random network ", seed);
  net.all_by_rule = false;
  std::mt19937_64 random(seed);
  net.input_shape = {1 + static_cast<int64_t>(random() % 4)};
  if (random() % 2 == 0) {
    net.input_shape.insert(net.input_shape.begin(), 1 + static_cast<int64_t>(random() % 3));
  }
  std::vector<size_t> chosen;
  const auto run = [seed, options](std::vector<Tensor>& pool, std::vector<size_t>& choices,
                                   bool making, const Tensor& x) {
    Draws draw(seed, pool, choices, making, options);
    Tensor h = x;
    const size_t layers = 2 + draw.below(5);
    for (size_t i = 0; i < layers; ++i) h = random_layer(draw, h, 0);
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
