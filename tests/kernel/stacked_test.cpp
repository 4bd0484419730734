// Products of several layers as one: the same kernel, fewer products. (all_ways.h has both on every
// random network.)
#include <ATen/record_function.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/stacked_product.h>
#include <gmock/gmock.h>

#include <string>

#include "kernel/layer_networks.h"
#include "kernel/networks.h"
#include "kernel/random_convolution.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt::kernel {
namespace {

using test::relative_error;
using testing::ElementsAre;
using torch::Tensor;
using P = const std::vector<Tensor>&;
using X = const Tensor&;
using Layers = NtkOptions::Layers;

constexpr double kSameSums = 1e-13;  // float64, added in another order

NtkOptions with(Layers layers) {
  NtkOptions options;
  options.layers = layers;
  return options;
}

std::vector<GroupStack> stacks_of_network(const test::Network& net) {
  const Tensor x = test::inputs(5, net, net.parameters.front().options().requires_grad(false));
  PendingChecks checks;
  const Factors factors = factorize(net.model(), x, {}, checks);
  checks.settle();
  return stacks_of(factors);
}

/// Of no, one and several layers of one shape, each with its bias or not, scaled or not.
std::vector<test::Network> networks(const torch::TensorOptions& options) {
  const auto p = [&](torch::IntArrayRef shape) { return test::parameter(shape, options); };
  return {
      {"one layer",
       {p({2, 4}), p({2})},
       [](P w, X x) { return torch::linear(x, w[0], w[1]); },
       {4}},
      {"equal layers between others",
       {p({6, 4}), p({6}), p({6, 6}), p({6}), p({6, 6}), p({6}), p({1, 6}), p({1})},
       [](P w, X x) {
         Tensor h = torch::linear(x, w[0], w[1]).tanh();
         h = torch::linear(h, w[2], w[3]).tanh();
         h = torch::linear(h, w[4], w[5]).tanh();
         return torch::linear(h, w[6], w[7]);
       },
       {4}},
      {"some with a bias, some scaled, transposed, widths in no order",
       {p({5, 4}), p({7, 5}), p({7}), p({7, 5}), p({5, 5}), p({3, 5}), p({3})},
       [](P w, X x) {
         Tensor h = torch::linear(x, w[0] * 0.7).tanh();
         h = torch::linear(h, w[1], w[2]).tanh().matmul(w[3] * -1.3).tanh();
         return torch::linear(h.matmul(w[4]).tanh(), w[5] * 0.7, w[6] * 2);
       },
       {4}},
      {"one of them shared",
       {p({20, 20}), p({20, 20}), p({20, 20}), p({20}), p({2, 20})},
       [](P w, X x) {
         Tensor h = torch::linear(x, w[0]).tanh();
         h = torch::linear(torch::linear(h, w[1]).tanh(), w[1]).tanh();
         return torch::linear(torch::linear(h, w[2], w[3]).tanh(), w[4]);
       },
       {20}},
      {"at several positions and at one",
       {p({20, 20}), p({20}), p({20, 20}), p({20}), p({3, 20}), p({2, 3}), p({2})},
       [](P w, X x) {
         Tensor h = torch::linear(x, w[0], w[1]).tanh();
         h = torch::linear(h, w[2], w[3]).tanh();
         h = torch::linear(h.sum(1), w[4]).tanh();
         return torch::linear(h, w[5], w[6]);
       },
       {2, 20}},
      {"norms, as rows",
       {p({6, 4}), p({6}), p({6}), p({6, 6}), p({6}), p({6}), p({3, 6})},
       [](P w, X x) {
         Tensor h = torch::layer_norm(torch::linear(x, w[0]), {6}, w[1], w[2]).tanh();
         h = torch::layer_norm(torch::linear(h, w[3]), {6}, w[4], w[5]).tanh();
         return torch::linear(h, w[6]);
       },
       {4}},
  };
}

TEST(StackedProduct, IsTheProductLayerByLayer) {
  for (const auto& device : test::devices()) {
    const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(device);
    torch::manual_seed(1);
    auto nets = networks(options);
    for (const uint64_t seed : {1, 2, 3, 4}) {
      nets.push_back(test::random_convolution_network(seed, options));
    }
    for (const auto& net : nets) {
      SCOPED_TRACE(net.name);
      const Tensor x = test::inputs(11, net, options);
      const Tensor other = test::inputs(4, net, options);
      const Tensor J = test::brute_force_jacobian(net, x);
      const Tensor J_other = test::brute_force_jacobian(net, other);
      const auto cost = cost_per_sample(net.model(), x, {});
      for (const int64_t at_a_time : {11, 3}) {  // in one block, and in several
        auto together = with(Layers::kTogether);
        if (at_a_time < 11) together.memory_bytes = at_a_time * cost.bytes(cost.outputs.size(1), 2);
        auto one_by_one = together;
        one_by_one.layers = Layers::kOneByOne;
        const auto found = empirical_ntk(net.model(), x, together);
        EXPECT_LE(relative_error(found.theta, J.mm(J.t())), test::tol::kKernel64);
        EXPECT_LE(relative_error(found.theta, empirical_ntk(net.model(), x, one_by_one).theta),
                  kSameSums);
        EXPECT_LE(
            relative_error(empirical_ntk(net.model(), x, other, together).theta, J.mm(J_other.t())),
            test::tol::kKernel64);
        for (const auto& parameter : found.coverage) {
          EXPECT_EQ(parameter.coverage, Coverage::kRule) << parameter.reason;
        }
      }
    }
  }
}

// More samples than a piece of the triangle has, and than temporaries hold.
TEST(StackedProduct, LargerThanOnePiece) {
  torch::manual_seed(2);
  const auto net = networks(torch::kFloat64)[1];
  const Tensor x = test::inputs(700, net, torch::kFloat64);
  const Tensor expected = empirical_ntk(net.model(), x, with(Layers::kOneByOne)).theta;
  for (const int64_t bytes : {int64_t{2} << 30, int64_t{8} << 20}) {
    auto options = with(Layers::kTogether);
    options.memory_bytes = bytes;
    const Tensor theta = empirical_ntk(net.model(), x, options).theta;
    EXPECT_LE(relative_error(theta, expected), kSameSums);
    EXPECT_TRUE(torch::equal(theta, theta.t()));
  }
}

TEST(StackedProduct, LaysLayersOfOneWidthBesideEachOther) {
  torch::manual_seed(3);
  const auto nets = networks(torch::kFloat64);
  EXPECT_THAT(stacks_of_network(nets[0]), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(stacks_of_network(nets[1]), ElementsAre(ElementsAre(0, 1, 2, 3)));
  // In: 4, 5, 7, 5, 5; out: 5, 7, 5, 5, 3.
  EXPECT_THAT(stacks_of_network(nets[2]), ElementsAre(ElementsAre(0, 1, 3, 4, 2)));
  // The shared one by itself.
  EXPECT_THAT(stacks_of_network(nets[3]), ElementsAre(ElementsAre(1), ElementsAre(0, 2, 3)));
  EXPECT_THAT(stacks_of_network(nets[4]), ElementsAre(ElementsAre(3, 2), ElementsAre(0, 1)));
  EXPECT_THAT(stacks_of_network(nets[5]),
              ElementsAre(ElementsAre(0, 3, 6), ElementsAre(1, 2, 4, 5)));
}

thread_local int64_t products = 0;

/// Matrix products that were asked for while it lives.
class CountProducts {
 public:
  CountProducts() {
    products = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& call)
                                       -> std::unique_ptr<at::ObserverContext> {
          const std::string name = call.name();
          if (name == "aten::mm" || name == "aten::bmm") ++products;
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~CountProducts() { at::removeCallback(handle_); }

 private:
  at::CallbackHandle handle_;
  at::RecordFunctionGuard enabled_{true};
};

TEST(StackedProduct, OneForBothSidesOfAllEqualLayers) {
  torch::manual_seed(4);
  const auto net = networks(torch::kFloat64)[1];
  const Model model = net.model();
  const Tensor x = test::inputs(9, net, torch::kFloat64);
  const auto counted = [&](Layers layers) {
    empirical_ntk(model, x, with(layers));  // plans
    const CountProducts count;
    empirical_ntk(model, x, with(layers));
    return products;
  };
  // Two of each of three layers (the last one is rows, here); inputs of four, five sides of six.
  EXPECT_EQ(counted(Layers::kOneByOne) - counted(Layers::kTogether), 6 - 2);
  EXPECT_EQ(counted(Layers::kAuto), counted(Layers::kOneByOne)) << "on a CPU";
}

// Θ_g v, which the self-check takes, of each group as it is by itself.
TEST(StackedProduct, ImagesAreThoseOfTheirGroups) {
  torch::manual_seed(5);
  const auto net = networks(torch::kFloat64)[2];
  const Tensor x = test::inputs(6, net, torch::kFloat64);
  PendingChecks checks;
  const Factors factors = factorize(net.model(), x, {}, checks);
  checks.settle();
  const auto stacks = stacks_of(factors);
  const int64_t n = factors.samples * factors.width;
  const auto groups = static_cast<int64_t>(factors.groups.size());
  const Tensor cells = torch::zeros({6, 3, 6, 3}, torch::kFloat64);
  const Tensor images = torch::zeros({groups, n}, torch::kFloat64);
  const SampleRange all{factors, 0, 6};
  constexpr int64_t kRoomy = int64_t{1} << 20;
  ASSERT_EQ(stacks.size(), 1);
  add_products(cells, all, all, stacks[0], 1.0, kRoomy, images);
  const Tensor ordered = by_group(images, stacks);
  for (int64_t g = 0; g < groups; ++g) {
    const Tensor alone = torch::zeros({6, 3, 6, 3}, torch::kFloat64);
    const Tensor image = torch::zeros({n}, torch::kFloat64);
    add_product(alone, all, all, static_cast<size_t>(g), 1.0, kRoomy, image);
    EXPECT_LE(relative_error(ordered[g], alone.view({n, n}).mv(factors.probe)), kSameSums);
    EXPECT_LE(relative_error(ordered[g], image), kSameSums);
  }
}

}  // namespace
}  // namespace cdt::kernel
