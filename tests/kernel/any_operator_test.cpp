// Parameters in operators that no rule knows: J by the operator alone, on all samples at once.
#include <cdt/kernel/factor/batching.h>
#include <gmock/gmock.h>

#include <thread>

#include "kernel/all_ways.h"
#include "kernel/operator_networks.h"

namespace cdt::kernel {
namespace {

using test::parameter;
using testing::HasSubstr;
using torch::Tensor;
using P = const std::vector<Tensor>&;
using X = const Tensor&;

const torch::TensorOptions kDouble = torch::kFloat64;

/// h ↦ h², with a derivative of its own, and no operator that anybody could call again.
struct ScaledSquare : torch::autograd::Function<ScaledSquare> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& h,
                        const Tensor& scale) {
    context->save_for_backward({h, scale});
    return h.square() * scale;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {2 * saved[0] * saved[1] * gradients[0],
            (saved[0].square() * gradients[0]).sum_to_size(saved[1].sizes())};
  }
};

TEST(AnyOperator, AllWaysAgree) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    torch::manual_seed(1);
    for (const auto& net : test::operator_networks(dtype)) test::expect_all_ways_agree(net, dtype);
  }
}

/// It can be differentiated once: no products with vectors.
TEST(AnyOperator, DistancesToLearnedCentres) {
  torch::manual_seed(7);
  const test::Network net{
      "",
      {parameter({5, 4}, kDouble), parameter({}, kDouble), parameter({2, 5}, kDouble)},
      [](P w, X x) {
        const Tensor distances = torch::cdist(x, w[0]) / w[1].exp();
        return torch::linear(torch::softmax(-distances, -1), w[2]);
      },
      {4}};
  const Tensor x = test::inputs(9, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
  EXPECT_THAT(ntk.brief_report(), HasSubstr("3 parameter tensors by layer rules;"));
}

TEST(AnyOperator, ManyMoreEntriesThanAreBatchedAtATime) {
  torch::manual_seed(2);
  const test::Network net{"",
                          {parameter({300, 40, 30}, kDouble, 0.1), parameter({1, 300}, kDouble)},
                          [](P w, X x) {
                            const Tensor h =
                                torch::bilinear(x.narrow(1, 0, 40), x.narrow(1, 40, 30), w[0]);
                            return torch::linear(h.tanh(), w[1]);
                          },
                          {70}};
  const Tensor x = test::inputs(11, net, kDouble);  // three at a time
  const Tensor J = test::brute_force_jacobian(net, x);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_EQ(ntk.coverage[0].coverage, Coverage::kRule);
  EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
}

TEST(AnyOperator, BlocksGiveTheSameKernel) {
  torch::manual_seed(3);
  for (const auto& net : test::operator_networks(kDouble)) {
    SCOPED_TRACE(net.name);
    const Tensor x = test::inputs(23, net, kDouble);
    const auto whole = empirical_ntk(net.model(), x);
    const auto cost = cost_per_sample(net.model(), x, {});
    NtkOptions small;
    small.memory_bytes = 5 * cost.bytes(cost.outputs.size(1), 2);
    int64_t pairs = 0;
    small.progress = [&](int64_t done, int64_t) { pairs = done; };
    const auto blocked = empirical_ntk(net.model(), x, small);
    EXPECT_GT(pairs, 1);
    EXPECT_LE(test::relative_error(blocked.theta, whole.theta), test::tol::kKernel64);
  }
}

TEST(AnyOperator, WhatItCannotCallAgainGoesTheOldWay) {
  torch::manual_seed(4);
  const auto p = [&](torch::IntArrayRef shape) { return parameter(shape, kDouble); };
  const std::vector<test::Network> nets{
      {"a function of the user's",
       {p({5, 4}), p({5}), p({2, 5})},
       [](P w, X x) {
         return torch::linear(ScaledSquare::apply(torch::linear(x, w[0]), w[1]), w[2]);
       },
       {4},
       false},
      {"a weight on the left",
       {p({5, 4}), p({2, 5})},
       [](P w, X x) { return torch::linear(w[0].mm(x.t()).t().tanh(), w[1]); },
       {4},
       false},
      {"what it takes is overwritten",
       {p({4, 4}), p({4}), p({2, 4})},
       [](P w, X x) {
         Tensor h = torch::linear(x, w[0]).detach().tanh();
         const Tensor chosen = torch::where(x > 0, h, w[1]);
         h.mul_(2);
         return torch::linear(chosen.tanh(), w[2]);
       },
       {4},
       false}};
  for (const auto& net : nets) {
    SCOPED_TRACE(net.name);
    const Tensor x = test::inputs(7, net, kDouble);
    const Tensor J = test::brute_force_jacobian(net, x);
    const auto ntk = empirical_ntk(net.model(), x);
    EXPECT_THAT(ntk.brief_report(), HasSubstr("by Jacobian rows"));
    EXPECT_THAT(ntk.brief_report(), testing::Not(HasSubstr("failed the self-check")));
    EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
  }
}

/// PReLU of one slope cannot be batched by LibTorch 1.13, recurrent cells by none without a
/// warning.
TEST(AnyOperator, NobodyIsWarned) {
  torch::manual_seed(5);
  for (const auto& net : test::operator_networks(kDouble)) {
    testing::internal::CaptureStderr();
    empirical_ntk(net.model(), test::inputs(5, net, kDouble));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << net.name;
  }
}

TEST(AnyOperator, ThreadsDoNotMeet) {
  torch::manual_seed(6);
  const auto nets = test::operator_networks(kDouble);
  std::vector<Tensor> inputs, expected, found(nets.size());
  for (const auto& net : nets) {
    inputs.push_back(test::inputs(7, net, kDouble));
    expected.push_back(empirical_ntk(net.model(), inputs.back()).theta);
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (size_t k = 0; k < nets.size(); ++k) {
      threads.emplace_back([&, k] { found[k] = empirical_ntk(nets[k].model(), inputs[k]).theta; });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t k = 0; k < nets.size(); ++k) {
      EXPECT_LE(test::relative_error(found[k], expected[k]), test::tol::kKernel64) << nets[k].name;
    }
  }
}

TEST(Batching, AScopeLeavesNothingBehind) {
  const Tensor x = torch::randn({5, 3}, kDouble);
  const Tensor w = torch::randn({5, 3}, kDouble);
  const auto by_hand = (x * w).sum(1);
  {
    const BatchingScope batch(5);
    const Tensor sums = (batch.wrap(x) * batch.wrap(w)).sum();
    EXPECT_EQ(sums.dim(), 0);
    EXPECT_TRUE(torch::allclose(batch.unwrap(sums), by_hand));
    EXPECT_THROW(torch::rand_like(batch.wrap(x)), c10::Error);
  }
  const Tensor after = x * w;
  EXPECT_EQ(after.dim(), 2);
  EXPECT_TRUE(torch::equal(after.sum(1), by_hand));
}

}  // namespace
}  // namespace cdt::kernel
