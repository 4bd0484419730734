/// Small networks for the kernel tests: every way in which a parameter may enter.
#pragma once

#include <cdt/kernel/model.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/products.h>

#include <functional>
#include <string>
#include <vector>

namespace cdt::test {

using torch::Tensor;

/// A forward function over its own parameters.
struct Network {
  std::string name;
  std::vector<Tensor> parameters;
  std::function<Tensor(const std::vector<Tensor>&, const Tensor&)> forward;
  std::vector<int64_t> input_shape;  ///< of one sample
  bool all_by_rule = true;           ///< whether rules are expected to cover every parameter

  kernel::Model model() const {
    return {[*this](const Tensor& x) { return forward(parameters, x); }, parameters};
  }
};

/// θ ← θ + step·direction, direction [P].
inline void shift(const kernel::Model& model, const Tensor& direction, double step) {
  const torch::NoGradGuard no_grad;
  const auto pieces = kernel::unflatten(model, direction);
  for (size_t k = 0; k < pieces.size(); ++k) model.parameters()[k].add_(pieces[k] * step);
}

inline Tensor parameter(torch::IntArrayRef shape, const torch::TensorOptions& options,
                        double scale = 0.5) {
  // Drawn in float64 on the CPU: the same numbers in every precision and on every device.
  return (torch::randn(shape, torch::kFloat64) * scale).to(options).requires_grad_();
}

inline Tensor inputs(int64_t samples, const Network& network, const torch::TensorOptions& options) {
  std::vector<int64_t> shape = network.input_shape;
  shape.insert(shape.begin(), samples);
  return torch::randn(shape, torch::kFloat64).to(options);
}

/// J [n, P] row by row, on the whole batch: nothing of the library in it.
inline Tensor brute_force_jacobian(const Network& network, const Tensor& x) {
  const Tensor y = network.forward(network.parameters, x).reshape({-1});
  std::vector<Tensor> trainable;
  for (const Tensor& p : network.parameters) {
    if (p.requires_grad()) trainable.push_back(p);
  }
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < y.size(0); ++i) {
    const auto gradients = torch::autograd::grad({y[i]}, trainable, {}, /*retain_graph=*/true,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    std::vector<Tensor> pieces;
    for (size_t k = 0; k < gradients.size(); ++k) {
      Tensor row = gradients[k].defined() ? gradients[k] : torch::zeros_like(trainable[k]);
      if (row.is_sparse()) row = row.to_dense();  // of an embedding
      pieces.push_back(row.reshape({-1}));
    }
    rows.push_back(torch::cat(pieces));
  }
  return torch::stack(rows).detach().to(torch::kFloat64);
}

/// An MLP of `depth` linear layers; `scaling` multiplies the weights in the forward pass (NTK
/// parametrisation).
inline Network mlp(int depth, int64_t outputs, bool bias, bool scaled, bool in_place,
                   const torch::TensorOptions& options) {
  Network net;
  net.name = c10::str("mlp depth ", depth, " outputs ", outputs, bias ? " bias" : "",
                      scaled ? " ntk" : "", in_place ? " in-place" : "");
  net.input_shape = {4};
  std::vector<int64_t> widths{4};
  for (int l = 1; l < depth; ++l) widths.push_back(5 + l);
  widths.push_back(outputs);
  for (int l = 0; l < depth; ++l) {
    net.parameters.push_back(parameter({widths[l + 1], widths[l]}, options));
    if (bias) net.parameters.push_back(parameter({widths[l + 1]}, options));
  }
  net.forward = [=, layers = static_cast<size_t>(depth)](const std::vector<Tensor>& p,
                                                         const Tensor& x) {
    Tensor z = x;
    for (size_t l = 0; l < layers; ++l) {
      const Tensor& w = p[bias ? 2 * l : l];
      const double factor = scaled ? 1.5 / std::sqrt(static_cast<double>(widths[l])) : 1.0;
      const Tensor weight = scaled ? w * factor : w;
      z = bias ? torch::addmm(scaled ? p[2 * l + 1] * 0.3 : p[2 * l + 1], z, weight.t())
               : z.mm(weight.t());
      if (l + 1 < layers) z = in_place ? torch::relu_(z) : torch::tanh(z);
    }
    return z;
  };
  return net;
}

/// One network for each way in which rules are easily wrong.
inline std::vector<Network> tricky_networks(const torch::TensorOptions& options) {
  std::vector<Network> nets;
  const auto p = [&](torch::IntArrayRef shape) { return parameter(shape, options); };
  const auto frozen = [&](torch::IntArrayRef shape) { return p(shape).requires_grad_(false); };
  using P = const std::vector<Tensor>&;
  using X = const Tensor&;

  nets.push_back({"aten::linear",
                  {p({6, 4}), p({6}), p({2, 6}), p({2})},
                  [](P w, X x) {
                    return torch::linear(torch::gelu(torch::linear(x, w[0], w[1])), w[2], w[3]);
                  },
                  {4}});
  nets.push_back(
      {"a weight and its negative",
       {p({6, 4}), p({2, 4})},
       [](P w, X x) { return torch::linear(torch::linear(x, w[0]).tanh().matmul(-w[0]), w[1]); },
       {4}});
  nets.push_back({"one bias for all outputs of a layer",
                  {p({4, 6}), p({1}), p({6, 2})},
                  [](P w, X x) { return torch::addmm(w[1], x, w[0]).tanh().mm(w[2]); },
                  {4}});
  nets.push_back(
      {"a weight that is a bias and a scale, too",
       {p({1, 4}), p({2, 1})},
       [](P w, X x) { return torch::linear(torch::linear((x + w[0]).tanh() * w[0], w[0]), w[1]); },
       {4}});
  nets.push_back({"addmm with alpha and beta",
                  {p({4, 6}), p({6}), p({6, 2})},
                  [](P w, X x) { return torch::addmm(w[1], x, w[0], 0.7, -1.3).tanh().mm(w[2]); },
                  {4}});
  nets.push_back({"rank-3 inputs",
                  {p({6, 4}), p({6}), p({3, 6}), p({3})},
                  [](P w, X x) {
                    const Tensor h = torch::linear(x, w[0], w[1]).tanh();
                    return torch::linear(h, w[2], w[3]).mean(1);
                  },
                  {5, 4}});
  nets.push_back({"matmul and in-place bias on rank 3",
                  {p({6, 4}), p({6}), p({1, 6})},
                  [](P w, X x) {
                    Tensor h = x.matmul(w[0].t());
                    h.add_(w[1]);
                    return h.relu_().matmul(w[2].t()).sum(1);
                  },
                  {3, 4}});
  nets.push_back({"rank-4 inputs",
                  {p({6, 4}), p({6}), p({1, 6})},
                  [](P w, X x) {
                    return torch::linear(x, w[0], w[1]).tanh().matmul(w[2].t()).sum({1, 2});
                  },
                  {2, 3, 4}});
  nets.push_back({"positions folded into rows",
                  {p({6, 4}), p({6}), p({2, 6})},
                  [](P w, X x) {
                    const Tensor h = torch::addmm(w[1], x.reshape({-1, 4}), w[0].t()).tanh();
                    return h.mm(w[2].t()).view({x.size(0), -1, 2}).sum(1);
                  },
                  {3, 4}});
  nets.push_back({"shared weight",
                  {p({4, 4}), p({4}), p({2, 4})},
                  [](P w, X x) {
                    const Tensor h = torch::linear(x, w[0], w[1]).tanh();
                    return torch::linear(torch::linear(h, w[0], w[1]).tanh(), w[2]);
                  },
                  {4}});
  nets.push_back({"tied autoencoder",
                  {p({6, 4}), p({6}), p({4})},
                  [](P w, X x) {
                    const Tensor h = torch::linear(x, w[0], w[1]).tanh();
                    return torch::addmm(w[2], h, w[0]);
                  },
                  {4}});
  nets.push_back(
      {"weight used as a bias too",
       {p({1, 4}), p({4})},
       [](P w, X x) { return torch::linear(x + w[0], w[0], {}) + (x * w[1]).sum(1, true); },
       {4}});
  nets.push_back(
      {"bias of several layers",
       {p({4, 4}), p({4}), p({4, 4})},
       [](P w, X x) { return torch::linear(torch::linear(x, w[0], w[1]).tanh(), w[2], w[1]); },
       {4}});
  nets.push_back(
      {"elementwise scale and shift",
       {p({6, 4}), p({6}), p({6}), p({2, 6})},
       [](P w, X x) { return ((x.mm(w[0].t()).tanh() * w[1] - w[2]).tanh()).mm(w[3].t()); },
       {4}});
  nets.push_back({"scale per position",
                  {p({3, 1}), p({4}), p({1, 4})},
                  [](P w, X x) { return ((w[0] * x).tanh() * w[1]).matmul(w[2].t()).sum(1); },
                  {3, 4}});
  nets.push_back({"negated and divided weights",
                  {p({6, 4}), p({6}), p({2, 6})},
                  [](P w, X x) {
                    return torch::linear(torch::linear(x, -w[0], w[1] / 3.0).tanh(), 0.5 * w[2]);
                  },
                  {4}});
  nets.push_back({"transposed twice",
                  {p({6, 4}), p({2, 6})},
                  [](P w, X x) {
                    return x.mm(w[0].t().t().transpose(0, 1)).tanh().mm(w[1].transpose(-1, -2));
                  },
                  {4}});
  nets.push_back({"skip connection",
                  {p({4, 4}), p({4}), p({4, 4}), p({1, 4})},
                  [](P w, X x) {
                    const Tensor h = torch::linear(x, w[0], w[1]).tanh();
                    return torch::linear(h + torch::linear(h, w[2]).tanh(), w[3]);
                  },
                  {4}});
  nets.push_back({"one-dimensional output",
                  {p({6, 4}), p({6})},
                  [](P w, X x) { return torch::linear(x, w[0], w[1]).tanh().sum(1); },
                  {4}});

  nets.push_back({"convolutions at few positions, in place",
                  {p({9, 1, 3, 3}), p({9}), p({9, 9, 2, 2}), p({9}), p({2, 9})},
                  [](P w, X x) {
                    const Tensor h = torch::conv2d(x, w[0], w[1]).relu_();
                    return torch::linear(torch::conv2d(h, w[2], w[3]).relu_().flatten(1), w[4]);
                  },
                  {1, 4, 4}});
  nets.push_back({"convolutions at many positions",
                  {p({2, 1, 3}), p({2}), p({3, 2, 2}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor h = torch::conv1d(x, w[0] * 0.7, w[1] / 3.0).tanh();
                    return torch::linear(torch::conv1d(h, w[2]).tanh().mean(2), w[3]);
                  },
                  {1, 12}});
  nets.push_back({"a frozen kernel, and a frozen bias",
                  {frozen({2, 1, 3}), p({2}), p({3, 2, 2}), frozen({3}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor h = torch::conv1d(x, w[0], w[1]).tanh();
                    return torch::linear(torch::conv1d(h, w[2], w[3]).tanh().mean(2), w[4]);
                  },
                  {1, 6}});
  nets.push_back({"additions with alpha, of both signs",
                  {p({4, 4}), p({4}), p({2, 4})},
                  [](P w, X x) {
                    const Tensor h = torch::sub(torch::linear(x, w[0]), w[1], 0.3).tanh();
                    return torch::linear(torch::add(h, w[1], 1.7).tanh(), w[2]);
                  },
                  {4}});
  nets.push_back({"additions with alpha before one output",
                  {p({4, 4}), p({4}), p({1, 4})},
                  [](P w, X x) {
                    const Tensor h = torch::sub(torch::linear(x, w[0]), w[1], 0.3).tanh();
                    return torch::linear(torch::add(h, w[1], 1.7).tanh(), w[2]);
                  },
                  {4}});
  nets.push_back({"parameter minus activation",
                  {p({4}), p({1, 4})},
                  [](P w, X x) { return torch::linear((w[0] - x).tanh(), w[1]); },
                  {4}});
  nets.push_back({"in-place activation on a rank-3 linear layer",
                  {p({6, 4}), p({6}), p({1, 6})},
                  [](P w, X x) {
                    Tensor h = torch::linear(x, w[0], w[1]);
                    h.relu_();
                    return torch::linear(h, w[2]).sum(1);
                  },
                  {3, 4}});

  nets.push_back({"a frozen weight and a frozen bias",
                  {p({6, 4}), frozen({6}), frozen({6, 6}), p({6}), p({2, 6})},
                  [](P w, X x) {
                    const Tensor h = torch::linear(x, w[0], w[1]).tanh();
                    return torch::linear(torch::linear(h, w[2], w[3]).tanh(), w[4]);
                  },
                  {4}});

  nets.push_back(
      {"a parameter through exp",
       {p({6, 4}), p({6}), p({2, 6})},
       [](P w, X x) { return torch::linear(torch::linear(x, w[0].exp(), w[1]).tanh(), w[2]); },
       {4}});
  nets.push_back({"weight norm",
                  {p({6, 4}), p({6, 1}), p({2, 6})},
                  [](P w, X x) {
                    const Tensor direction = w[0] / w[0].norm(2, {1}, true);
                    return torch::linear(torch::linear(x, w[1] * direction).tanh(), w[2]);
                  },
                  {4}});
  nets.push_back({"a rule and a penalty-like use of one weight",
                  {p({2, 4})},
                  [](P w, X x) { return torch::linear(x, w[0]) + w[0].square().sum(); },
                  {4}});
  nets.push_back({"a convolution with a computed kernel",
                  {p({3, 1, 2, 2}), p({3}), p({2, 27})},
                  [](P w, X x) {
                    const Tensor h = torch::conv2d(x, w[0].exp(), w[1]).tanh();
                    return torch::linear(h.flatten(1), w[2]);
                  },
                  {1, 4, 4}});
  nets.push_back({"a transposition that is none",
                  {p({4, 4}), p({4, 2})},
                  [](P w, X x) { return x.mm(w[0].transpose(0, -2)).tanh().mm(w[1]); },
                  {4}});

  nets.push_back({"bilinear layers at positions, of a parameter and of a part of one",
                  {p({5, 4}), p({3, 5, 4}), p({3}), p({60}), p({2, 3})},
                  [](P w, X x) {
                    const Tensor h = torch::linear(x, w[0]).tanh();
                    const Tensor part = w[3].narrow(0, 3, 48).view({3, 4, 4});
                    const Tensor sum = torch::bilinear(h, x, w[1], 0.5 * w[2]).tanh() +
                                       torch::bilinear(x, x, part);
                    return torch::linear(sum.tanh().sum(1), w[4]);
                  },
                  {3, 4}});
  nets.push_back(
      {"positions scaled and shifted by transposed parameters",
       {p({4, 3}), p({4, 3}), p({2, 4})},
       [](P w, X x) { return torch::linear((x * w[0].t() + w[1].t()).tanh(), w[2]).sum(1); },
       {3, 4}});

  // From here on some parameter needs the Jacobian path.
  const auto by_jacobian = [&](Network net) {
    net.all_by_rule = false;
    nets.push_back(std::move(net));
  };
  by_jacobian({"weight on the left",
               {p({6, 4}), p({2, 6})},
               [](P w, X x) { return w[0].mm(x.t()).t().tanh().mm(w[1].t()); },
               {4}});
  by_jacobian({"samples as the positions of a convolution without a batch",
               {p({3, 4, 1}), p({2, 3})},
               [](P w, X x) { return torch::linear(torch::conv1d(x.t(), w[0]).t().tanh(), w[1]); },
               {4}});
  by_jacobian({"samples as the positions of a convolution of one image",
               {p({3, 4, 1}), p({3}), p({2, 3})},
               [](P w, X x) {
                 const Tensor h = torch::conv1d(x.t().unsqueeze(0), w[0], w[1]).squeeze(0).t();
                 return torch::linear(h.tanh(), w[2]);
               },
               {4}});
  by_jacobian({"a scale that overwrites its input",
               {p({4, 4}), p({4}), p({1, 4})},
               [](P w, X x) {
                 Tensor h = torch::linear(x, w[0]).tanh() * 1.0;
                 h.mul_(w[1]);
                 return torch::linear(h.tanh(), w[2]);
               },
               {4}});
  by_jacobian({"a bias added through a view",
               {p({2}), p({1, 4})},
               [](P w, X x) {
                 Tensor base = x * 1.0;
                 Tensor part = base.narrow(1, 0, 2);
                 part.add_(w[0]);
                 return torch::linear(base.tanh(), w[1]) + part.square().sum(1, true);
               },
               {4}});
  by_jacobian({"layers copied into slices of a buffer",
               {p({5, 4}), p({5}), p({1}), p({1, 6})},
               [](P w, X x) {
                 Tensor buffer = torch::zeros({x.size(0), 6}, x.options());
                 buffer.narrow(1, 0, 5).copy_(torch::linear(x, w[0], w[1]));
                 buffer.narrow(1, 5, 1).copy_((2 * w[2]).expand({x.size(0), 1}));
                 return torch::linear(buffer.tanh(), w[3]);
               },
               {4}});
  by_jacobian({"a slice multiplied by what is used elsewhere too, and by no parameter",
               {p({4, 4}), p({1}), p({1, 4})},
               [fixed = p({1})](P w, X x) {
                 const Tensor scale = w[1].exp() * fixed.exp();
                 Tensor h = torch::linear(x, w[0]).tanh() * 1.0;
                 h.narrow(1, 0, 1).mul_(scale);
                 h.narrow(1, 1, 1).mul_(fixed.exp());
                 return torch::linear(h.tanh(), w[2]) * scale;
               },
               {4}});
  by_jacobian({"a parameter that moves nothing but rounding",
               {p({1, 4}), p({1}), p({1, 4})},
               [](P w, X x) {
                 const Tensor h = torch::linear(x, w[0]);
                 return h / h.norm(2, 1, true) * w[1] + torch::linear(x, w[2]);
               },
               {4}});
  by_jacobian({"a column turned into a bias",
               {p({4, 6}), p({6, 1}), p({6, 2})},
               [](P w, X x) { return torch::addmm(w[1].t(), x, w[0]).tanh().mm(w[2]); },
               {4}});
  by_jacobian({"a parameter divided and rounded",
               {p({4, 4}), p({4, 2})},
               [](P w, X x) {
                 const Tensor rounded = torch::div(w[0], torch::tensor(0.1).to(x), "trunc");
                 return (x.mm(w[0]) + x.mm(rounded)).tanh().mm(w[1]);
               },
               {4}});
  by_jacobian({"two results of one operator on a parameter",
               {p({4, 4}), p({4, 2})},
               [](P w, X x) {
                 const auto [Q, R] = torch::linalg_qr(w[0]);
                 return (x.mm(Q).tanh().mm(R) + x).mm(w[1]);
               },
               {4}});
  by_jacobian({"a computed operand at a site and elsewhere",
               {p({4, 4}), p({4}), p({4, 2})},
               [](P w, X x) {
                 const Tensor u = w[0].tanh() * w[1];
                 return (x.mm(u) + u.t().mm(x.t()).t()).tanh().mm(w[2]);
               },
               {4}});
  by_jacobian({"outputs that are a parameter, up to a sign",
               {p({1, 2})},
               [](P w, X x) {
                 return (-w[0]).expand({x.size(0), 2});
               },
               {4}});
  return nets;
}

}  // namespace cdt::test
