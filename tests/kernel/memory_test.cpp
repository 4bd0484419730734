// The memory budget against what LibTorch's allocator hands out.
#include "support/memory.h"

#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/gram.h>
#include <cdt/kernel/product/operator.h>
#include <gtest/gtest.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using torch::Tensor;

TEST(Memory, StaysWithinItsBudget) {
  constexpr int64_t kSamples = 300;
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options, 0.1); };
  using P = const std::vector<Tensor>&;
  using X = const Tensor&;
  std::vector<Tensor> many{p({1, 8})};
  for (int k = 0; k < 40; ++k) many.push_back(test::parameter({8, 8}, options, 0.35));
  const std::vector<test::Network> nets{
      {"many equal layers",
       many,
       [](P w, X x) {
         Tensor h = x;
         for (size_t k = 1; k < w.size(); ++k) h = torch::linear(h, w[k]).tanh();
         return torch::linear(h, w[0]);
       },
       {8}},
      {"layers",
       {p({300, 30}), p({300}), p({300, 300}), p({300}), p({2, 300})},
       [](P w, X x) {
         const Tensor h = torch::linear(x, w[0], w[1]).tanh();
         return torch::linear(torch::linear(h, w[2], w[3]).tanh(), w[4]);
       },
       {30}},
      {"layers at many positions",
       {p({40, 30}), p({40, 40}), p({1, 40})},
       [](P w, X x) {
         const Tensor h = torch::linear(x, w[0]).tanh();
         return torch::linear(torch::linear(h, w[1]).tanh(), w[2]).sum(1);
       },
       {20, 30}},
      {"convolutions",
       {p({8, 1, 3, 3}), p({8, 8, 3, 3}), p({3, 8})},
       [](P w, X x) {
         const Tensor h = torch::conv2d(x, w[0]).relu();
         return torch::linear(torch::conv2d(h, w[1]).relu().mean({2, 3}), w[2]);
       },
       {1, 12, 12},
       /*all_by_rule=*/false},
      {"operators without rules, which allocate inside likewise",
       {p({100, 30}), p({100}), p({8, 100, 30}), p({2, 8})},
       [](P w, X x) {
         const Tensor h = torch::prelu(torch::linear(x, w[0]), w[1]);
         return torch::linear(torch::einsum("bi,kij,bj->bk", {h, w[2], x}).tanh(), w[3]);
       },
       {30},
       /*all_by_rule=*/false},
  };
  for (const auto& net : nets) {
    const Tensor x = test::inputs(kSamples, net, options);
    const auto cost = kernel::cost_per_sample(net.model(), x, {});
    using Layers = kernel::NtkOptions::Layers;
    for (const auto& [samples, layers] :
         {std::pair(10, Layers::kOneByOne), std::pair(100, Layers::kOneByOne),
          std::pair(10, Layers::kTogether), std::pair(100, Layers::kTogether)}) {
      SCOPED_TRACE(testing::Message() << net.name << ", some " << samples << " samples at a time"
                                      << (layers == Layers::kTogether ? ", layers together" : ""));
      kernel::NtkOptions limited;
      limited.layers = layers;
      limited.memory_bytes = samples * cost.bytes(cost.outputs.size(1), 2);
      int64_t theta = 0;
      const int64_t peak = test::peak_of([&] {
        theta = static_cast<int64_t>(empirical_ntk(net.model(), x, limited).theta.nbytes());
      });
      // A gradient of the parameters for each of two blocks, and pieces that are widened.
      const int64_t besides = 8 * net.model().parameter_count() + (3 << 19);
      // Convolutions allocate about as much again inside.
      const int64_t share = net.all_by_rule ? 1 : 2;
      EXPECT_LE(peak - theta, share * limited.memory_bytes + besides);
      EXPECT_GT(peak - theta, limited.memory_bytes / 4) << "blocks could be larger";
    }
  }
}

/// J of a convolution at four positions is as well kept as rows or as outer products; the latter
/// take a fifth of the room.
TEST(Memory, SmallerFactorsSpareBlocks) {
  constexpr int64_t kSamples = 60;
  torch::manual_seed(6);
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options, 0.1); };
  const test::Network net{"a convolution at four positions",
                          {p({24, 12, 3, 3}), p({1, 96})},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            const Tensor h =
                                torch::conv2d(x, w[0], {}, /*stride=*/1, /*padding=*/1).tanh();
                            return torch::linear(h.flatten(1), w[1]);
                          },
                          {12, 2, 2}};
  const Tensor x = test::inputs(kSamples, net, options);
  kernel::FactorOptions factors;
  factors.samples = kSamples;
  const int64_t usual = kernel::cost_per_sample(net.model(), x, factors).bytes(1, 1);
  factors.lean = true;
  const int64_t lean = kernel::cost_per_sample(net.model(), x, factors).bytes(1, 1);
  ASSERT_LT(2 * lean, usual);

  kernel::NtkOptions rows;
  rows.path = kernel::NtkOptions::Path::kJacobian;
  const Tensor expected = empirical_ntk(net.model(), x, rows).theta;
  for (const int64_t room : {kSamples * lean, kSamples * usual}) {
    kernel::NtkOptions given;
    given.memory_bytes = room;
    int64_t blocks = 0;
    given.progress = [&](int64_t, int64_t total) { blocks = total; };
    const kernel::Model model = net.model();
    const Tensor theta = empirical_ntk(model, x, given).theta;
    EXPECT_EQ(blocks, 1);
    EXPECT_LE(test::relative_error(theta, expected), test::tol::kKernel32);
    EXPECT_TRUE(torch::equal(empirical_ntk(model, x, given).theta, theta)) << "by the plan it kept";
  }
}

TEST(Memory, AThousandOutputsAreNotStackedAtOnce) {
  constexpr int64_t kSamples = 3;
  constexpr int64_t kClasses = 1000;
  torch::manual_seed(2);
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options, 0.3); };
  const test::Network net{"a thousand classes",
                          {p({12, 8}), p({12}), p({kClasses, 12}), p({kClasses})},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            const Tensor h = torch::linear(x, w[0], w[1]).tanh();
                            return torch::linear(h, w[2], w[3]);
                          },
                          {8}};
  const Tensor x = test::inputs(kSamples, net, options);
  // Θ in closed form: (h·h′ + 1) I from the last layer, (x·x′ + 1) W D D′ Wᵀ from the first.
  const Tensor wide = x.to(torch::kFloat64);
  const Tensor w = net.parameters[2].detach().to(torch::kFloat64);
  const Tensor h = torch::linear(wide, net.parameters[0].detach().to(torch::kFloat64),
                                 net.parameters[1].detach().to(torch::kFloat64))
                       .tanh();
  const Tensor slope = 1 - h.square();
  Tensor expected = torch::empty({kSamples, kClasses, kSamples, kClasses}, torch::kFloat64);
  for (int64_t i = 0; i < kSamples; ++i) {
    for (int64_t j = 0; j < kSamples; ++j) {
      const Tensor first = (w * (slope[i] * slope[j])).mm(w.t()) * (1 + wide[i].dot(wide[j]));
      expected.select(0, i).select(1, j).copy_(first + torch::eye(kClasses, torch::kFloat64) *
                                                           (1 + h[i].dot(h[j])));
    }
  }
  expected = expected.view({kSamples * kClasses, kSamples * kClasses});

  kernel::NtkOptions limited;
  limited.memory_bytes = 5 << 20;
  const auto cost = kernel::cost_per_sample(net.model(), x, {});
  ASSERT_GT(cost.bytes(kClasses, 1), 2 * limited.memory_bytes) << "one sample must not fit";
  const int64_t besides = 8 * net.model().parameter_count() + (3 << 19);
  for (const bool rectangular : {false, true}) {
    SCOPED_TRACE(rectangular);
    Tensor theta;
    const int64_t peak = test::peak_of([&] {
      theta = rectangular ? empirical_ntk(net.model(), x, x.clone(), limited).theta
                          : empirical_ntk(net.model(), x, limited).theta;
    });
    EXPECT_LE(test::relative_error(theta, expected), test::tol::kKernel32);
    EXPECT_LE(peak - static_cast<int64_t>(theta.nbytes()), limited.memory_bytes + besides);
  }
  double trace = 0;
  const int64_t peak = test::peak_of([&] { trace = kernel::ntk_trace(net.model(), x, limited); });
  const double expected_trace = expected.trace().item<double>();
  EXPECT_NEAR(trace, expected_trace, test::tol::kKernel32 * expected_trace);
  EXPECT_LE(peak, limited.memory_bytes + besides);
}

TEST(Memory, TheOperatorStreamsWithinItsBudget) {
  constexpr int64_t kSamples = 2000;
  torch::manual_seed(3);
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options, 0.1); };
  const test::Network net{"layers",
                          {p({100, 30}), p({100}), p({100, 100}), p({100}), p({2, 100})},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            const Tensor h = torch::linear(x, w[0], w[1]).tanh();
                            return torch::linear(torch::linear(h, w[2], w[3]).tanh(), w[4]);
                          },
                          {30}};
  const Tensor x = test::inputs(kSamples, net, options);
  const Tensor V = torch::randn({2 * kSamples, 8});
  kernel::OperatorOptions graphs;
  graphs.path = kernel::OperatorOptions::Path::kGraph;
  const kernel::NtkOperator whole(net.model(), x, graphs);
  const Tensor expected = whole.apply(V);
  const double trace = whole.trace();
  ASSERT_EQ(whole.block_samples(), kSamples);
  for (const int64_t megabytes : {1, 3, 20, 80}) {
    SCOPED_TRACE(megabytes);
    kernel::OperatorOptions limited;
    limited.memory_bytes = megabytes << 20;
    Tensor found;
    const int64_t peak = test::peak_of([&] {
      const kernel::NtkOperator theta(net.model(), x, limited);
      EXPECT_EQ(theta.by_factors(), megabytes >= 20);
      if (theta.by_factors()) {
        EXPECT_NEAR(theta.trace(), trace, test::tol::kKernel32 * trace);
      }
      if (!theta.by_factors()) {
        EXPECT_LT(theta.block_samples(), kSamples);
        EXPECT_GT(theta.block_samples(), 20 * megabytes);
      }
      found = theta.apply(V);
    });
    EXPECT_LE(test::relative_error(found, expected), test::tol::kKernel32);
    // The product itself, and gradients of the parameters beside those that are summed.
    const int64_t besides =
        static_cast<int64_t>(6 * V.nbytes()) + 4 * 4 * net.model().parameter_count();
    EXPECT_LE(peak, limited.memory_bytes + besides);
  }
}

// Whatever the budget: samples that do not fit it stream through in blocks that gain nothing by
// being larger.
TEST(Memory, StreamedSamplesTakeNoMoreThanABlock) {
  constexpr int64_t kSamples = 40000;
  torch::manual_seed(4);
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options, 0.1); };
  const test::Network net{"layers",
                          {p({400, 4}), p({400}), p({1, 400})},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            return torch::linear(torch::linear(x, w[0], w[1]).tanh(), w[2]);
                          },
                          {4}};
  const Tensor x = test::inputs(kSamples, net, options);
  const Tensor v = torch::randn({kSamples});
  kernel::OperatorOptions limited;
  limited.path = kernel::OperatorOptions::Path::kGraph;
  limited.memory_bytes = int64_t{900} << 20;
  Tensor found;
  const int64_t peak = test::peak_of([&] {
    const kernel::NtkOperator theta(net.model(), x, limited);
    EXPECT_LT(theta.block_samples(), kSamples);
    found = theta.apply(v);
  });
  EXPECT_LE(peak, int64_t{100} << 20);
  const Tensor J = [&] {  // of one hidden layer, by hand
    const Tensor h = torch::linear(x, net.parameters[0], net.parameters[1]).tanh().detach();
    const Tensor g = (1 - h.square()) * net.parameters[2].detach();
    return torch::cat({h, g}, 1);
  }();
  // ΘV = h(hᵀv) + Σ over inputs and the bias of g·a.
  const Tensor h = J.narrow(1, 0, 400), g = J.narrow(1, 400, 400);
  Tensor expected = h.mv(h.t().mv(v)) + g.mv(g.t().mv(v));
  for (int64_t k = 0; k < 4; ++k) {
    const Tensor a = x.select(1, k);
    expected += a * g.mv(g.t().mv(a * v));
  }
  EXPECT_LE(test::relative_error(found, expected), test::tol::kKernel32);
}

TEST(Memory, AGramMatrixTakesNoMoreThanABlock) {
  constexpr int64_t kSamples = 60000;
  torch::manual_seed(5);
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options, 0.1); };
  // More parameters than a panel has columns.
  const test::Network net{"layers",
                          {p({100, 2}), p({100}), p({1, 100})},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            return torch::linear(torch::linear(x, w[0], w[1]).tanh(), w[2]);
                          },
                          {2}};
  const Tensor x = test::inputs(kSamples, net, options);
  const Tensor S = torch::rand({kSamples, 1, 1}, torch::kFloat64) + 0.5;
  kernel::NtkOptions roomy;
  roomy.memory_bytes = int64_t{8} << 30;
  Tensor gram;
  const int64_t peak =
      test::peak_of([&] { gram = kernel::parameter_gram(net.model(), x, S, roomy); });
  EXPECT_LE(peak, int64_t{320} << 20);
  const Tensor wide = x.to(torch::kFloat64);
  const auto w = [&](size_t i) { return net.parameters[i].detach().to(torch::kFloat64); };
  const Tensor h = torch::linear(wide, w(0), w(1)).tanh();
  const Tensor g = (1 - h.square()) * w(2);
  const Tensor first = (g.unsqueeze(2) * wide.unsqueeze(1)).reshape({kSamples, -1});
  const Tensor J = torch::cat({first, g, h}, 1) * S.view({-1, 1});
  EXPECT_LE(test::relative_error(gram, J.t().mm(J)), test::tol::kKernel32);
  EXPECT_TRUE(torch::equal(gram, gram.t()));
}

}  // namespace
}  // namespace cdt
