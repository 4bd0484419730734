/// Small networks of the layers that rules know beside dense ones and convolutions: norms,
/// embeddings, attention, parts of parameters, operands computed from them. Rules cover every
/// parameter of them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "kernel/networks.h"

namespace cdt::test {

/// LibTorch's rms_norm, by its name: version 1.13 has none, and layers_test.cpp defines one there.
inline Tensor rms_norm(const Tensor& x, c10::IntArrayRef shape, const Tensor& weight,
                       const c10::IValue& epsilon) {
  static const auto rms = c10::Dispatcher::singleton().findSchemaOrThrow("aten::rms_norm", "");
  torch::jit::Stack stack{x, shape, weight, epsilon};
  rms.callBoxed(&stack);
  return stack.at(0).toTensor();
}

/// Whole numbers from 0 on, made from an input: as indices.
inline Tensor indices_from(const Tensor& x, int64_t below) {
  return (x.detach() * 3).floor().remainder(static_cast<double>(below)).to(torch::kInt64);
}

inline std::vector<Network> layer_networks(const torch::TensorOptions& options) {
  std::vector<Network> nets;
  const auto p = [&](torch::IntArrayRef shape) { return parameter(shape, options); };
  const auto frozen = [&](torch::IntArrayRef shape) { return p(shape).requires_grad_(false); };
  using P = const std::vector<Tensor>&;
  using X = const Tensor&;

  nets.push_back({"batch norm in eval mode",
                  {p({6, 4}), p({6}), p({6}), p({1, 6}), frozen({6}), frozen({6})},
                  [](P w, X x) {
                    const Tensor h = torch::batch_norm(torch::linear(x, w[0]), w[1], w[2], w[4],
                                                       w[5].square() + 0.5, /*training=*/false, 0.1,
                                                       1e-5, /*cudnn_enabled=*/true);
                    return torch::linear(h.tanh(), w[3]);
                  },
                  {4}});
  nets.push_back({"batch norm of pictures, in place behind it, scaled and with a frozen shift",
                  {p({3, 2, 2, 2}), p({3}), frozen({3}), p({2, 3}), frozen({3}), frozen({3})},
                  [](P w, X x) {
                    Tensor h = torch::batch_norm(torch::conv2d(x, w[0]), 0.7 * w[1], w[2], w[4],
                                                 w[5].square() + 0.5, false, 0.1, 1e-3, true);
                    h.relu_();
                    return torch::linear(h.mean({2, 3}), w[3]);
                  },
                  {2, 4, 3}});
  nets.push_back({"layer norm",
                  {p({6, 4}), p({6}), p({6}), p({1, 6})},
                  [](P w, X x) {
                    return torch::linear(torch::layer_norm(torch::linear(x, w[0]), {6}, w[1], w[2]),
                                         w[3]);
                  },
                  {4}});
  nets.push_back({"layer norm over positions and features, and one without a shift",
                  {p({3, 4}), p({3, 4}), p({4}), p({2, 4})},
                  [](P w, X x) {
                    const Tensor h = torch::layer_norm(x, {3, 4}, w[0], w[1]).tanh();
                    return torch::linear(torch::layer_norm(h, {4}, -w[2]), w[3]).sum(1);
                  },
                  {3, 4}});
  nets.push_back({"group norm and instance norm",
                  {p({4, 2, 3}), p({4}), p({4}), p({4}), p({4}), p({2, 4})},
                  [](P w, X x) {
                    Tensor h = torch::group_norm(torch::conv1d(x, w[0]), 2, w[1], w[2]).tanh();
                    h = torch::instance_norm(h, w[3], w[4], {}, {}, true, 0.1, 1e-2, true);
                    return torch::linear(h.tanh().mean(2), w[5]);
                  },
                  {2, 6}});
  nets.push_back({"group norm of features alone",
                  {p({6, 4}), p({6}), p({6}), p({2, 6})},
                  [](P w, X x) {
                    const Tensor h = torch::group_norm(torch::linear(x, w[0]), 2, w[1], w[2], 0.05);
                    return torch::linear(h.tanh(), w[3]);
                  },
                  {4}});
  nets.push_back({"RMS norm, composed",
                  {p({6, 4}), p({6}), p({1, 6})},
                  [](P w, X x) {
                    const Tensor h = torch::linear(x, w[0]);
                    const Tensor size = torch::rsqrt(h.pow(2).mean({-1}, true) + 1e-5);
                    return torch::linear((h * size * w[1]).tanh(), w[2]);
                  },
                  {4}});
  nets.push_back({"RMS norm, LibTorch's, with and without an epsilon",
                  {p({6, 4}), p({6}), p({3, 6}), p({1, 6})},
                  [](P w, X x) {
                    Tensor h = rms_norm(torch::linear(x, w[0]), {6}, w[1] / 1.5, 0.01).tanh();
                    h = rms_norm(h, {3, 6}, w[2], {});
                    return torch::linear(h.tanh(), w[3]).sum(1);
                  },
                  {3, 4}});
  nets.push_back({"embedding of one index",
                  {p({5, 3}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor h = torch::embedding(w[0], indices_from(x.select(1, 0), 5));
                    return torch::linear(h.tanh(), w[1]);
                  },
                  {2}});
  nets.push_back({"embeddings of several indices, one of them padding, used twice",
                  {p({4, 3}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor i = indices_from(x, 4);
                    const Tensor h = torch::embedding(0.5 * w[0], i, /*padding_idx=*/2).tanh() +
                                     torch::embedding(w[0], 3 - i);
                    return torch::linear(h.sum(1).tanh(), w[1]);
                  },
                  {6}});
  nets.push_back({"a large embedding with sparse gradients",
                  {p({300, 3}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor i = indices_from(x * 30, 300);
                    const Tensor h = torch::embedding(w[0], i, -1, false, /*sparse=*/true);
                    return torch::linear(h.tanh().sum(1), w[1]);
                  },
                  {3}});
  nets.push_back({"an embedding tied to the last layer",
                  {p({4, 3}), p({3})},
                  [](P w, X x) {
                    const Tensor h = torch::embedding(w[0], indices_from(x, 4)).mean(1);
                    return torch::linear((h + w[1]).tanh(), w[0]);
                  },
                  {3}});
  nets.push_back({"an embedding that is a part of a parameter, positions first",
                  {p({6, 3}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor i = indices_from(x.t(), 4);
                    return torch::linear(torch::embedding(w[0].narrow(0, 1, 4), i).tanh().sum(0),
                                         w[1]);
                  },
                  {4}});
  nets.push_back(
      {"sequence first",
       {p({6, 4}), p({1, 6})},
       [](P w, X x) {
         return torch::linear(torch::linear(x.transpose(0, 1), w[0]).tanh(), w[1]).sum(0);
       },
       {3, 4}});
  nets.push_back({"sequence first, as long as there are samples, with scales and norms",
                  {p({6, 4}), p({6}), p({6}), p({6}), p({6}), p({1, 6})},
                  [](P w, X x) {
                    Tensor h = torch::linear(x.transpose(0, 1), w[0], w[1]).tanh();
                    h = torch::layer_norm(h * w[2], {6}, w[3], w[4]);
                    return torch::linear(h.tanh(), w[5]).sum(0);
                  },
                  {7, 4}});
  nets.push_back({"projections sliced from one parameter, one row in two of them",
                  {p({6, 4}), p({6}), p({1, 3})},
                  [](P w, X x) {
                    const Tensor a = torch::linear(x, w[0].narrow(0, 0, 3), w[1].narrow(0, 0, 3));
                    const Tensor b = torch::linear(x, w[0].slice(0, 2, 5), w[1].slice(0, 3, 6));
                    return torch::linear((a * b.tanh()).tanh(), w[2]);
                  },
                  {4}});
  nets.push_back({"all weights in one vector",
                  {p({36})},
                  [](P w, X x) {
                    const Tensor a = w[0].narrow(0, 0, 20).view({5, 4});
                    const Tensor b = w[0].narrow(0, 26, 10).reshape({2, 5});
                    const Tensor h = torch::linear(x, a, w[0].narrow(0, 20, 5)).tanh();
                    return torch::linear(h * w[0][25], b);
                  },
                  {4}});
  nets.push_back({"a weight of each layer in one tensor",
                  {p({3, 4, 4}), p({3, 4}), p({2, 4})},
                  [](P w, X x) {
                    Tensor h = x;
                    const auto weights = w[0].unbind();
                    for (int64_t l = 0; l < 3; ++l) {
                      h = torch::linear(h, weights[l], w[1].select(0, l)).tanh();
                    }
                    return torch::linear(h, w[2]);
                  },
                  {4}});
  nets.push_back({"channels scaled by vectors in another shape",
                  {p({3, 2, 2}), p({3}), p({3}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor h = torch::conv1d(x, w[0]) * w[1].view({1, 3, 1});
                    return torch::linear((h + w[2].unsqueeze(1)).tanh().sum(2), w[3]);
                  },
                  {2, 5}});
  nets.push_back({"weight norm, LibTorch's operator",
                  {p({6, 4}), p({6, 1}), p({6}), p({2, 6})},
                  [](P w, X x) {
                    const Tensor weight = torch::_weight_norm(w[0], w[1], 0);
                    return torch::linear(torch::linear(x, weight, w[2]).tanh(), w[3]);
                  },
                  {4}});
  nets.push_back({"spectral norm, by buffers",
                  {p({6, 4}), p({2, 6}), frozen({6}), frozen({4})},
                  [](P w, X x) {
                    const Tensor size = torch::dot(w[2], w[0].mv(w[3])) + 3;
                    return torch::linear(torch::linear(x, w[0] / size).tanh(), w[1]);
                  },
                  {4}});
  nets.push_back({"a weight with a correction of low rank, beside itself",
                  {p({6, 4}), p({6, 2}), p({2, 4}), p({2, 6})},
                  [](P w, X x) {
                    const Tensor corrected = w[0] + 0.3 * w[1].mm(w[2]);
                    const Tensor h = torch::linear(x, corrected).tanh() + torch::linear(x, w[0]);
                    return torch::linear(h.tanh(), w[3]);
                  },
                  {4}});
  nets.push_back({"parts put together, computed twice over, with biases and convolutions of them",
                  {p({3, 4}), p({3, 4}), p({6}), p({2, 3, 2})},
                  [](P w, X x) {
                    const Tensor both = torch::cat({w[0].exp(), w[1]});
                    const Tensor h = torch::linear(x, both, w[2].softmax(0)).tanh();
                    const Tensor kernel = w[3] / (w[3].square().sum() + both.square().mean());
                    return torch::conv1d(h.view({-1, 3, 2}), kernel).flatten(1);
                  },
                  {4}});
  nets.push_back({"a scale that is computed, in place elsewhere",
                  {p({4}), p({1, 4})},
                  [](P w, X x) {
                    const Tensor gate = torch::sigmoid(w[0]);
                    return torch::linear((x * gate + gate).tanh(), w[1]) + gate.sum();
                  },
                  {4}});
  return nets;
}

}  // namespace cdt::test
