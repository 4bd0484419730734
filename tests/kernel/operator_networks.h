/// Networks with parameters in operators that no rule knows, all of which can be called again on
/// some samples.
#pragma once

#include "kernel/networks.h"

namespace cdt::test {

inline std::vector<Network> operator_networks(const torch::TensorOptions& options) {
  using P = const std::vector<Tensor>&;
  using X = const Tensor&;
  const auto p = [&](torch::IntArrayRef shape) { return parameter(shape, options); };
  return {
      {"PReLU of each feature, and of all together",
       {p({6, 4}), p({6}), p({3, 6}), p({1}), p({2, 3})},
       [](P w, X x) {
         const Tensor h = torch::prelu(torch::linear(x, w[0]), w[1]);
         return torch::linear(torch::prelu(torch::linear(h, w[2]), w[3]), w[4]);
       },
       {4}},
      {"PReLU of channels",
       {p({3, 1, 2, 2}), p({3}), p({2, 27})},
       [](P w, X x) {
         return torch::linear(torch::prelu(torch::conv2d(x, w[0]), w[1]).flatten(1), w[2]);
       },
       {1, 4, 4}},
      {"a recurrent cell",
       {p({9, 4}), p({9, 3}), p({9}), p({9}), p({3, 4}), p({2, 3})},
       [](P w, X x) {
         const Tensor state = torch::linear(x, w[4]).tanh();
         return torch::linear(torch::gru_cell(x, state, w[0], w[1], w[2], w[3]), w[5]);
       },
       {4}},
      {"a bilinear layer, and one of an input and copies",
       {p({5, 4}), p({3, 5, 4}), p({3}), p({2, 3, 4}), p({4})},
       [](P w, X x) {
         const Tensor h = torch::linear(x, w[0]).tanh();
         const Tensor one = torch::bilinear(h, x, w[1], w[2]).tanh();
         return torch::bilinear(one, w[4].exp().expand_as(x), w[3]);
       },
       {4}},
      {"einsum, with a parameter in the middle and one that is used twice",
       {p({4, 4, 3}), p({3, 3})},
       [](P w, X x) {
         const Tensor h = torch::einsum("bi,ijk,bj->bk", {x, w[0], x}).tanh();
         return torch::einsum("ij,bj,jk->bk", {w[1], h, w[1]});
       },
       {4}},
      {"einsum over positions",
       {p({3, 4, 5}), p({2, 5})},
       [](P w, X x) {
         return torch::linear(torch::einsum("tdo,btd->bo", {w[0], x}).tanh(), w[1]);
       },
       {3, 4}},
      {"elementwise operators",
       {p({4}), p({4}), p({4}), p({4}), p({1, 4}), p({2, 4})},
       [](P w, X x) {
         Tensor h = torch::pow(x.abs() + 0.5, w[0]);
         h = torch::maximum(h.tanh(), w[1]);
         h = torch::addcmul(h, x, w[2]);
         h = torch::lerp(h, x, w[3]);
         h = torch::where(h > 0, h, w[4]);
         return torch::linear(h, w[5]);
       },
       {4}},
      {"a learned table, read at places that the inputs choose",
       {p({5, 3}), p({2, 3})},
       [](P w, X x) {
         const Tensor places = (x.select(1, 0).detach().abs() * 10).to(torch::kInt64) % 5;
         const Tensor rows = w[0].index({places});
         return torch::linear((rows * x.sum(1, true)).tanh(), w[1]);
       },
       {4}},
      {"learned positions, added and looked up",
       {p({3, 4}), p({7, 4}), p({2, 4})},
       [](P w, X x) {
         const Tensor places = torch::arange(3, torch::TensorOptions().device(x.device()));
         const Tensor h = x + w[0] + torch::embedding(w[1], places);
         return torch::linear(h.tanh(), w[2]).sum(1);
       },
       {3, 4}},
      {"a padded table that was turned",
       {p({3, 5}), p({2, 3})},
       [](P w, X x) {
         const Tensor places = (x.detach().abs() * 10).to(torch::kInt64) % 5;
         const Tensor rows = torch::embedding(w[0].t(), places, /*padding_idx=*/0);
         return torch::linear((rows.sum(1) + x.sum(1, true)).tanh(), w[1]);
       },
       {4}},
      {"operands that are turned, scaled, parts or computed",
       {p({5, 4}), p({3, 5}), p({12}), p({3, 3}), p({2, 3})},
       [](P w, X x) {
         Tensor h = torch::einsum("bi,io->bo", {x, w[0].t()}).tanh();
         h = torch::einsum("bi,oi->bo", {h, -0.5 * w[1]}).tanh();
         h = torch::einsum("bi,io->bo", {h, w[2].narrow(0, 2, 9).view({3, 3})}).tanh();
         h = torch::einsum("bi,io->bo", {h, w[3].exp()}).tanh();
         return torch::linear(h, w[4]);
       },
       {4}},
      {"positions folded into rows",
       {p({5, 4}), p({5}), p({2, 5})},
       [](P w, X x) {
         const Tensor h = torch::linear(x.reshape({-1, 4}), w[0]);
         return torch::linear(torch::lerp(h, h.tanh(), w[1]).reshape({-1, 3, 5}).sum(1), w[2]);
       },
       {3, 4}},
      {"behind an activation in place, and used by a rule too",
       {p({4, 4}), p({4}), p({2, 4})},
       [](P w, X x) {
         Tensor h = torch::prelu(torch::linear(x, w[0]), w[1]) + w[1];
         h.sigmoid_();
         return torch::linear(torch::einsum("bi,oi->bo", {h, w[0]}), w[2]);
       },
       {4}},
      {"copies for each sample, of a matrix that is turned, and of a computed one",
       {p({4, 5}), p({5, 3}), p({2, 3})},
       [](P w, X x) {
         const Tensor turned = w[0].t().expand({x.size(0), 5, 4});
         const Tensor h = torch::bmm(turned, x.unsqueeze(2)).tanh();
         const Tensor computed = w[1].exp().unsqueeze(0).expand({x.size(0), 5, 3});
         return torch::linear(torch::bmm(h.transpose(1, 2), computed).squeeze(1), w[2]);
       },
       {4}},
      {"a learned first position, and the others' shifts, copied for each sample",
       {p({1, 1, 4}), p({3, 1}), p({4, 4}), p({2, 4})},
       [](P w, X x) {
         const Tensor first = w[0].expand({x.size(0), 1, 4});
         const Tensor all = torch::cat({first, x + w[1].expand_as(x)}, 1);
         const Tensor scores = torch::matmul(all, w[2]).matmul(all.transpose(1, 2));
         return torch::linear(torch::softmax(scores, -1).matmul(all).select(1, 0), w[3]);
       },
       {3, 4}},
  };
}

}  // namespace cdt::test
