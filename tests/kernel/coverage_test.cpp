// Every parameter is accounted for once: what the rules cover, and what falls back.
#include <cdt/core/error.h>
#include <gmock/gmock.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using kernel::Coverage;
using kernel::empirical_ntk;
using kernel::NtkOptions;
using test::parameter;
using test::relative_error;
using testing::HasSubstr;
using torch::Tensor;

using test::kDouble;

TEST(Coverage, FrozenParametersAreLeftOut) {
  torch::manual_seed(1);
  auto net = test::mlp(3, 1, true, false, false, kDouble);
  const Tensor x = test::inputs(5, net, kDouble);
  const auto all = net.parameters;
  net.parameters[2].requires_grad_(false);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_EQ(ntk.coverage.size(), 5u);
  test::Network trainable = net;
  trainable.parameters.erase(trainable.parameters.begin() + 2);
  trainable.forward = [&](const auto&, const Tensor& in) { return net.forward(all, in); };
  const Tensor J = test::brute_force_jacobian(trainable, x);
  EXPECT_LE(relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
}

TEST(Coverage, UnusedParametersContributeNothing) {
  torch::manual_seed(2);
  auto net = test::mlp(2, 1, true, false, false, kDouble);
  const Tensor x = test::inputs(5, net, kDouble);
  const Tensor without = empirical_ntk(net.model(), x).theta;
  const auto forward = net.forward;
  net.parameters.push_back(parameter({4, 4}, kDouble));
  net.parameters.push_back(parameter({4, 4}, kDouble));
  net.forward = [=](const std::vector<Tensor>& p, const Tensor& in) {
    torch::linear(in, p[4]);  // computed, but not part of the output
    return forward(p, in);
  };
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_TRUE(torch::equal(ntk.theta, without));
  EXPECT_EQ(ntk.coverage[4].coverage, Coverage::kUnused);
  EXPECT_EQ(ntk.coverage[5].coverage, Coverage::kUnused);
  EXPECT_THAT(ntk.brief_report(), HasSubstr("2 without influence"));
}

TEST(Coverage, AnUnusedBranchDoesNotHideAnUncoveredUse) {
  torch::manual_seed(3);
  test::Network net{"",
                    {parameter({1, 4}, kDouble)},
                    [](const std::vector<Tensor>& w, const Tensor& x) {
                      torch::linear(x, w[0]);  // a site that leads nowhere
                      return torch::linear(x, w[0]) + w[0].mm(x.t()).t();
                    },
                    {4}};
  const Tensor x = test::inputs(5, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_EQ(ntk.coverage[0].coverage, Coverage::kJacobian);
  EXPECT_THAT(ntk.coverage[0].reason,
              HasSubstr("no rule covers"));  // seen, not only caught by the self-check
  EXPECT_LE(relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
}

TEST(Coverage, RepeatedParametersCountOnce) {
  torch::manual_seed(4);
  auto net = test::mlp(2, 1, true, false, false, kDouble);
  const Tensor x = test::inputs(5, net, kDouble);
  const Tensor once = empirical_ntk(net.model(), x).theta;
  net.parameters.push_back(net.parameters[0]);
  EXPECT_TRUE(torch::equal(empirical_ntk(net.model(), x).theta, once));
}

TEST(Coverage, SaysWhyARuleDoesNotApply) {
  torch::manual_seed(5);
  for (const auto& net : test::tricky_networks(kDouble)) {
    if (net.all_by_rule) continue;
    // Whether this one's rounding passes its check is LibTorch's to say.
    if (net.name == "a parameter that moves nothing but rounding") continue;
    SCOPED_TRACE(net.name);
    const auto ntk = empirical_ntk(net.model(), test::inputs(4, net, kDouble));
    int by_jacobian = 0;
    for (const auto& p : ntk.coverage) {
      if (p.coverage != Coverage::kJacobian) continue;
      ++by_jacobian;
      EXPECT_FALSE(p.reason.empty());
    }
    EXPECT_GT(by_jacobian, 0);
    EXPECT_THAT(ntk.brief_report(), HasSubstr("by Jacobian rows"));
  }
}

TEST(Coverage, AWeightMatrixAsTallAsTheBatchIsNotMistakenForSamples) {
  torch::manual_seed(6);
  // γ·v̂ [6, 4] with 6 samples: by its shape the product looks like a scaled batch. (v̂ is written in
  // place, so that nobody knows it for an operand made from parameters.)
  test::Network net{"",
                    {parameter({6, 4}, kDouble), parameter({4}, kDouble)},
                    [](const std::vector<Tensor>& w, const Tensor& x) {
                      return torch::linear(x, w[0].clone().tanh_() * w[1]).tanh().sum(1);
                    },
                    {4}};
  const Tensor x = test::inputs(6, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_EQ(ntk.coverage[1].coverage, Coverage::kJacobian);
  EXPECT_THAT(ntk.coverage[1].reason, HasSubstr("mixes samples"));
  EXPECT_LE(relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
}

TEST(Coverage, APathThatDependsOnTheDataStillComesOutRight) {
  torch::manual_seed(7);
  // Blocks with a positive first entry use the weight by a rule, others through exp.
  test::Network net{"",
                    {parameter({2, 4}, kDouble), parameter({4}, kDouble)},
                    [](const std::vector<Tensor>& w, const Tensor& x) {
                      const Tensor positive = torch::linear(x + w[1], w[0]);
                      const Tensor negative = torch::linear(x + w[1], w[0].exp());
                      return torch::where(x.narrow(1, 0, 1) > 0, positive, negative);
                    },
                    {4}};
  test::Network branching = net;
  branching.forward = [](const std::vector<Tensor>& w, const Tensor& x) {
    // The same function, but computed by a branch where all samples of a block agree.
    const Tensor sign = x.narrow(1, 0, 1) > 0;
    if (sign.all().item<bool>()) return torch::linear(x + w[1], w[0]);
    return torch::where(sign, torch::linear(x + w[1], w[0]), torch::linear(x + w[1], w[0].exp()));
  };
  const Tensor x = test::inputs(12, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  NtkOptions small;
  small.memory_bytes = 1500;
  EXPECT_LE(relative_error(empirical_ntk(branching.model(), x, small).theta, J.mm(J.t())),
            test::tol::kKernel64);
}

// Rows in another order than the samples: no shape tells, only the gradients do. Where positions
// come before samples, and are as many, they tell which is which. Few samples and many seeds,
// because a probe could be blind to an exchange of two samples by chance.
TEST(Coverage, SamplesInAnotherOrderAreNotTakenForEachOther) {
  for (int64_t samples : {2, 3, 4, 6}) {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(testing::Message() << samples << " samples, seed " << seed);
      torch::manual_seed(seed);
      test::Network flipped{
          "",
          {parameter({5, 4}, kDouble), parameter({5}, kDouble), parameter({1, 5}, kDouble)},
          [](const std::vector<Tensor>& w, const Tensor& x) {
            return torch::linear(torch::linear(x.flip(0), w[0], w[1]).tanh(), w[2]).flip(0);
          },
          {4}};
      test::Network time_major{
          "",
          {parameter({5, 4}, kDouble), parameter({1, 5}, kDouble)},
          [](const std::vector<Tensor>& w, const Tensor& x) {
            return torch::linear(torch::linear(x.transpose(0, 1), w[0]).tanh(), w[1]).sum(0);
          },
          {samples, 4}};
      NtkOptions options;
      options.seed = seed;
      for (const test::Network* net : {&flipped, &time_major}) {
        const Tensor x = test::inputs(samples, *net, kDouble);
        const Tensor J = test::brute_force_jacobian(*net, x);
        const auto ntk = empirical_ntk(net->model(), x, options);
        EXPECT_LE(relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
        if (net == &flipped) {
          EXPECT_THAT(ntk.coverage[0].reason, HasSubstr("mixes samples"));
        } else {
          EXPECT_EQ(ntk.coverage[0].coverage, Coverage::kRule);
        }
      }
    }
  }
}

TEST(Coverage, ALargeSampleDoesNotHideTheOthers) {
  torch::manual_seed(12);
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const Tensor order = torch::tensor({0, 1, 2, 4, 3, 5});
  const Tensor size =
      torch::tensor({1e5, 1.0, 1.0, 1.0, 1.0, 1.0}).unsqueeze(1).to(torch::kFloat32);
  test::Network net{"",
                    {parameter({5, 4}, options), parameter({1, 5}, options)},
                    [=](const std::vector<Tensor>& w, const Tensor& x) {
                      if (x.size(0) != 6) return torch::linear(torch::linear(x, w[0]).tanh(), w[1]);
                      const Tensor y =
                          torch::linear(torch::linear(x.index_select(0, order), w[0]).tanh(), w[1]);
                      return y.index_select(0, order) * size;
                    },
                    {4}};
  const Tensor x = test::inputs(6, net, options);
  // The sample of 1e5 also makes this model's outputs depend on the batch: refused, whichever check
  // comes first.
  EXPECT_THROW(empirical_ntk(net.model(), x), InvalidArgument);
  net.forward = [=](const std::vector<Tensor>& w, const Tensor& in) {
    const Tensor scale = 1 + 1e5 * (in.narrow(1, 0, 1) > 0.9).to(torch::kFloat32);
    const Tensor sorted = std::get<1>(in.select(1, 1).sort());
    const Tensor back = std::get<1>(sorted.sort());
    const Tensor y = torch::linear(torch::linear(in.index_select(0, sorted), w[0]).tanh(), w[1]);
    return y.index_select(0, back) * scale;
  };
  Tensor data = x.clone();
  data.select(1, 0).fill_(0.1);
  data[0][0] = 1.0;
  const Tensor J = test::brute_force_jacobian(net, data);
  const Tensor theta = empirical_ntk(net.model(), data).theta;
  const Tensor expected = J.mm(J.t());
  EXPECT_LE(relative_error(theta.narrow(0, 1, 5).narrow(1, 1, 5),
                           expected.narrow(0, 1, 5).narrow(1, 1, 5)),
            test::tol::kKernel32);
}

TEST(Coverage, SamplesThatNoParameterMoves) {
  torch::manual_seed(15);
  const test::Network net{"",
                          {parameter({1, 4}, kDouble)},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            const Tensor moved = x.narrow(1, 0, 1) > 0;
                            Tensor still = x.sum(1, true);
                            if (!moved.any().item<bool>()) return still;
                            return torch::where(moved, x.matmul(w[0].exp().t()), still);
                          },
                          {4}};
  Tensor x = test::inputs(6, net, kDouble);
  x.select(1, 0).copy_(torch::linspace(1, -1, 6, kDouble));
  const Tensor J = test::brute_force_jacobian(net, x);
  EXPECT_LE(relative_error(empirical_ntk(net.model(), x).theta, J.mm(J.t())), test::tol::kKernel64);
}

TEST(Coverage, AParameterThatSomeBlocksDoNotUse) {
  torch::manual_seed(14);
  test::Network net{"",
                    {parameter({1, 4}, kDouble), parameter({1, 4}, kDouble)},
                    [](const std::vector<Tensor>& w, const Tensor& x) {
                      Tensor plain = torch::linear(x, w[0]);
                      const Tensor positive = x.narrow(1, 0, 1) > 0;
                      if (!positive.any().item<bool>()) return plain;
                      return torch::where(positive, plain + torch::linear(x, w[1]).tanh(), plain);
                    },
                    {4}};
  Tensor x = test::inputs(12, net, kDouble);
  x.select(1, 0).copy_(torch::linspace(-1, 1, 12, kDouble));
  const Tensor J = test::brute_force_jacobian(net, x);
  for (auto path : {NtkOptions::Path::kAuto, NtkOptions::Path::kJacobian}) {
    NtkOptions options;
    options.path = path;
    options.memory_bytes = 2000;
    EXPECT_LE(relative_error(empirical_ntk(net.model(), x, options).theta, J.mm(J.t())),
              test::tol::kKernel64);
  }
}

}  // namespace
}  // namespace cdt
