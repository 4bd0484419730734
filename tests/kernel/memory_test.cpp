// The memory budget against what LibTorch's allocator hands out.
#include "support/memory.h"

#include <cdt/kernel/ntk.h>
#include <gtest/gtest.h>

#include "kernel/networks.h"

namespace cdt {
namespace {

using torch::Tensor;

TEST(Memory, StaysWithinItsBudget) {
  constexpr int64_t kSamples = 300;
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options, 0.1); };
  using P = const std::vector<Tensor>&;
  using X = const Tensor&;
  const std::vector<test::Network> nets{
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
  };
  for (const auto& net : nets) {
    const Tensor x = test::inputs(kSamples, net, options);
    const auto cost = kernel::cost_per_sample(net.model(), x, {});
    for (const int64_t samples : {10, 100}) {
      SCOPED_TRACE(testing::Message() << net.name << ", some " << samples << " samples at a time");
      kernel::NtkOptions limited;
      limited.memory_bytes = samples * (2 * cost.factor_bytes + cost.graph_bytes);
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

}  // namespace
}  // namespace cdt
