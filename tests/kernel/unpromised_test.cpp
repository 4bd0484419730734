// What the recording of a model needs that has promised nothing; the recordings themselves are
// tested on a GPU (replay_cuda_test.cpp).
#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/replay/unpromised.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernel/networks.h"

namespace cdt::kernel {
namespace {

using torch::Tensor;

Tensor twice(const Tensor& x) { return x * 2; }

struct Doubled : torch::autograd::Function<Doubled> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return twice(x); }
  static std::vector<Tensor> backward(torch::autograd::AutogradContext*,
                                      const std::vector<Tensor>& gradients) {
    return {twice(gradients[0])};
  }
};

TEST(Unpromised, TensorsFromElsewhereAreHeldAndNoOthers) {
  torch::manual_seed(1);
  const Tensor w = torch::randn({3, 3}, torch::requires_grad());
  Tensor constant = torch::randn({3});
  const Tensor listed = torch::randn({2, 3});
  Tensor made;
  const Model model(
      [&](const Tensor& x) {
        made = x.mm(w);
        return torch::cat({(made * constant).tanh(), listed}).narrow(0, 0, x.size(0));
      },
      {w});
  auto outside = std::make_unique<OutsideTensors>();
  const Tensor x = torch::randn({4, 3});
  outside->hold_those_of(model).forward(x);
  const auto holders = [](const Tensor& t) { return t.storage().use_count(); };
  EXPECT_EQ(holders(w), 2);
  EXPECT_EQ(holders(constant), 2);
  EXPECT_EQ(holders(listed), 2);
  EXPECT_EQ(holders(x), 2);
  EXPECT_EQ(holders(made), 1);
  outside.reset();
  EXPECT_EQ(holders(constant), 1);
}

TEST(Unpromised, GraphsOfOtherOperatorsAndHooksAreNotPlain) {
  torch::manual_seed(2);
  const auto net = test::mlp(2, 1, true, false, false, torch::kFloat64);
  const Tensor x = test::inputs(4, net, torch::kFloat64);
  const Tensor plain = net.forward(net.parameters, x);
  EXPECT_TRUE(has_plain_graph(plain));
  EXPECT_FALSE(has_plain_graph(Doubled::apply(plain)));
  EXPECT_FALSE(has_plain_graph(Doubled::apply(plain).exp()));
  Tensor written = torch::zeros({4, 2}, torch::kFloat64);
  written.select(1, 0).copy_(plain.select(1, 0));
  EXPECT_TRUE(has_plain_graph(written));
  plain.register_hook([](const Tensor& g) { return g * 2; });
  EXPECT_FALSE(has_plain_graph(plain.exp()));
}

TEST(Unpromised, LeavesComeBackAndGradientsGoOn) {
  const Tensor w = torch::ones({2}, torch::requires_grad());
  const Model model([&](const Tensor& x) { return x * w; }, {w});
  const Tensor y = (torch::ones({3, 2}) * w).sum();
  const auto leaf_of = [](const Tensor& t) {
    return torch::autograd::impl::gradient_edge(t).function;
  };
  const auto own = leaf_of(w);
  {
    const FreshLeavesScope scope(model);
    EXPECT_NE(leaf_of(w), own);
    const auto gradients =
        gradients_at({w}, model.forward(torch::ones({1, 2})), torch::ones({1, 2}), Graph::kFreed);
    EXPECT_TRUE(torch::equal(gradients[0], torch::ones({2})));
  }
  EXPECT_EQ(leaf_of(w), own);
  EXPECT_FALSE(w.grad().defined());
  y.backward();
  EXPECT_TRUE(torch::equal(w.grad(), torch::full({2}, 3.0)));
}

TEST(Unpromised, ComparesEachTensorToItsOwnRounding) {
  const auto agree = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    return Comparison(a, b).agree();
  };
  const Tensor large = torch::full({4}, 1e6);
  const Tensor small = torch::full({4}, 1e-6);
  EXPECT_TRUE(agree({large, small}, {large, small}));
  EXPECT_TRUE(agree({large, small * (1 + 2e-6)}, {large, small}));
  EXPECT_FALSE(agree({large, small * (1 + 1e-4)}, {large, small}));
  EXPECT_FALSE(agree({large, small * NAN}, {large, small}));
  EXPECT_FALSE(agree({large, small}, {large, Tensor()}));
  EXPECT_FALSE(agree({large, Tensor()}, {large, small}));
  EXPECT_TRUE(agree({large, Tensor()}, {large, Tensor()}));
  EXPECT_FALSE(agree({large.view({2, 2})}, {large}));
  EXPECT_TRUE(agree({small * 0}, {small * 0}));
  EXPECT_FALSE(agree({large.to(torch::kFloat64) * (1 + 1e-9)}, {large.to(torch::kFloat64)}));
}

}  // namespace
}  // namespace cdt::kernel
