// What the recorder sees of a forward pass, beside what autograd says of the same parameters.
#include <cdt/core/error.h>
#include <cdt/kernel/check/pending_checks.h>
#include <cdt/kernel/record/recorder.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include "kernel/networks.h"
#include "support/compare.h"

namespace cdt::kernel {
namespace {

using test::parameter;
using torch::Tensor;
using P = const std::vector<Tensor>&;
using X = const Tensor&;

struct Recorded {
  Recording found;
  PendingChecks checks;

  explicit Recorded(const test::Network& net) {
    torch::manual_seed(1);
    const Tensor x = test::inputs(5, net, test::kDouble);
    found = record(net.model(), x, checks);
    EXPECT_TRUE(torch::equal(found.outputs.reshape({-1}), net.model().forward(x).reshape({-1})));
    // Autograd knows which parameters move the outputs.
    const Tensor seeds = torch::randn_like(found.outputs);
    const auto gradients =
        torch::autograd::grad({(net.model().forward(x).reshape_as(seeds) * seeds).sum()},
                              net.parameters, {}, c10::nullopt, false, /*allow_unused=*/true);
    for (size_t p = 0; p < gradients.size(); ++p) {
      EXPECT_EQ(found.used[p], gradients[p].defined()) << "parameter " << p;
    }
    checks.settle();
  }
  /// The parameters of each site.
  std::vector<std::vector<size_t>> parameters() const {
    std::vector<std::vector<size_t>> all;
    for (const auto& site : found.sites) {
      std::vector<size_t>& uses = all.emplace_back();
      for (const ParameterUse& use : site->uses) uses.push_back(use.parameter);
      std::sort(uses.begin(), uses.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST(Recorder, HasASiteForEachLayer) {
  const Recorded seen(
      {"",
       {parameter({6, 4}, test::kDouble), parameter({6}, test::kDouble),
        parameter({2, 6}, test::kDouble)},
       [](P w, X x) { return torch::linear(torch::linear(x, w[0], w[1]).tanh(), w[2]); },
       {4}});
  EXPECT_EQ(seen.parameters(), (std::vector<std::vector<size_t>>{{0, 1}, {2}}));
  EXPECT_EQ(seen.found.covered, std::vector<bool>(3, true));
  EXPECT_TRUE(seen.found.computed.empty());
  // Of 5 samples: z and tanh z [5, 6], outputs [5, 2], float64; and what asks whether they are
  // finite.
  EXPECT_GE(seen.found.activation_bytes, 5 * (6 + 6 + 2) * 8);
  EXPECT_LE(seen.found.activation_bytes, 5 * (6 + 6 + 2) * 8 + 64);
}

TEST(Recorder, AWeightOfTwoLayersHasTwoSites) {
  const Recorded seen({"",
                       {parameter({4, 4}, test::kDouble)},
                       [](P w, X x) { return torch::linear(torch::linear(x, w[0]).tanh(), w[0]); },
                       {4}});
  EXPECT_EQ(seen.parameters(), (std::vector<std::vector<size_t>>{{0}, {0}}));
}

TEST(Recorder, LeavesOutWhatLeadsNowhere) {
  const Recorded seen({"",
                       {parameter({2, 4}, test::kDouble), parameter({3, 4}, test::kDouble)},
                       [](P w, X x) {
                         torch::linear(x, w[1]);
                         return torch::linear(x, w[0]);
                       },
                       {4}});
  EXPECT_EQ(seen.parameters(), std::vector<std::vector<size_t>>{{0}});
  EXPECT_EQ(seen.found.used, (std::vector<bool>{true, false}));
}

TEST(Recorder, AUseThatNoRuleFollowsIsNotCovered) {
  const Recorded seen({"",
                       {parameter({1, 4}, test::kDouble), parameter({1, 4}, test::kDouble)},
                       [](P w, X x) {
                         return torch::linear(x, w[0]) + torch::linear(x, w[1]) +
                                w[0].mm(x.t()).t();
                       },
                       {4}});
  EXPECT_EQ(seen.found.used, (std::vector<bool>{true, true}));
  EXPECT_EQ(seen.found.covered, (std::vector<bool>{false, true}));
}

TEST(Recorder, KnowsWhatAComputedWeightIsMadeFrom) {
  const Recorded seen({"",
                       {parameter({2, 4}, test::kDouble), parameter({2, 1}, test::kDouble)},
                       [](P w, X x) { return torch::linear(x, w[1] * w[0] / w[0].norm()); },
                       {4}});
  ASSERT_EQ(seen.found.sites.size(), 1u);
  const size_t operand = seen.found.sites[0]->uses[0].parameter;
  ASSERT_GE(operand, 2u) << "behind those of the model";
  EXPECT_THAT(seen.found.made_from(operand), testing::UnorderedElementsAre(0, 1));
  EXPECT_EQ(seen.found.computed[operand - 2].value.numel(), 8);
  EXPECT_TRUE(seen.found.made_from(0).empty());
}

TEST(Recorder, CountsOutputsAndLeavesStatesAlone) {
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
  const auto before = net->buffers()[0].clone();
  EXPECT_EQ(outputs_per_sample(Model(net), torch::randn({5, 4})), 3);
  EXPECT_TRUE(torch::equal(net->buffers()[0], before));
  PendingChecks checks;
  EXPECT_THAT(
      [&] {
        record(Model(net), torch::randn({5, 4}), checks);
      },
      testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("eval()")));
  EXPECT_THAT([&] { watch(Model(net), [&] {
                      net->forward(torch::randn({5, 4}));
                    }); },
              testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("eval()")));
  EXPECT_THROW(on_few_samples(torch::ones({5, 4}),
                              [](X x) {
                                return x.t().mm(torch::ones({5, 1}));
                              }),
               InvalidArgument);
}

}  // namespace
}  // namespace cdt::kernel
