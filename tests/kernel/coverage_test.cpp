// Every parameter is accounted for once, and a wrong kernel is never returned: what is refused, and
// what falls back.
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
using testing::ThrowsMessage;
using torch::Tensor;

const torch::TensorOptions kDouble = torch::TensorOptions().dtype(torch::kFloat64);

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
                      return torch::linear(x, w[0]) + w[0].square().sum();
                    },
                    {4}};
  const Tensor x = test::inputs(5, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_EQ(ntk.coverage[0].coverage, Coverage::kJacobian);
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
  // γ·v̂ [6, 4] with 6 samples: by its shape the product looks like a scaled batch.
  test::Network net{"",
                    {parameter({6, 4}, kDouble), parameter({4}, kDouble)},
                    [](const std::vector<Tensor>& w, const Tensor& x) {
                      return torch::linear(x, w[0].tanh() * w[1]).tanh().sum(1);
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

TEST(Coverage, RefusesLayersInTrainingMode) {
  torch::manual_seed(8);
  torch::nn::Sequential norm(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                             torch::nn::Linear(8, 1));
  torch::nn::Sequential dropout(torch::nn::Linear(4, 8), torch::nn::Dropout(0.5),
                                torch::nn::Linear(8, 1));
  const Tensor x = torch::randn({6, 4});
  for (auto path : {NtkOptions::Path::kAuto, NtkOptions::Path::kJacobian}) {
    NtkOptions options;
    options.path = path;
    EXPECT_THAT([&] { empirical_ntk(norm, x, options); },
                ThrowsMessage<InvalidArgument>(HasSubstr("call eval()")));
    EXPECT_THAT([&] { empirical_ntk(dropout, x, options); },
                ThrowsMessage<InvalidArgument>(HasSubstr("call eval()")));
  }
  norm->eval();
  dropout->eval();
  test::Network plain{"",
                      norm->parameters(),
                      [&](const auto&, const Tensor& in) { return norm->forward(in); },
                      {4}};
  const Tensor J = test::brute_force_jacobian(plain, x);
  EXPECT_LE(relative_error(empirical_ntk(norm, x).theta, J.mm(J.t())), test::tol::kKernel32);
  EXPECT_NO_THROW(empirical_ntk(dropout, x));
}

TEST(Coverage, RefusesAnyLayerThatMixesSamples) {
  torch::manual_seed(9);
  test::Network net{"",
                    {parameter({4, 4}, kDouble), parameter({1, 4}, kDouble)},
                    [](const std::vector<Tensor>& w, const Tensor& x) {
                      const Tensor h = torch::linear(x, w[0]).tanh();
                      return torch::linear(h - h.mean(0, true), w[1]);
                    },
                    {4}};
  EXPECT_THAT([&] { empirical_ntk(net.model(), test::inputs(5, net, kDouble)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("mixes samples")));
}

TEST(Coverage, RefusesBadInput) {
  torch::manual_seed(10);
  const auto net = test::mlp(2, 1, true, false, false, kDouble);
  const auto model = net.model();
  Tensor x = test::inputs(5, net, kDouble);
  EXPECT_THROW(empirical_ntk(model, Tensor()), InvalidArgument);
  EXPECT_THROW(empirical_ntk(model, torch::empty({0, 4}, kDouble)), InvalidArgument);
  EXPECT_THROW(empirical_ntk(model, x, torch::empty({0, 4}, kDouble)), InvalidArgument);
  NtkOptions tiny;
  tiny.memory_bytes = 10;
  EXPECT_THAT([&] { empirical_ntk(model, x, tiny); },
              ThrowsMessage<InvalidArgument>(HasSubstr("memory budget")));
  x[3][1] = std::nan("");
  EXPECT_THAT([&] { empirical_ntk(model, x); },
              ThrowsMessage<InvalidArgument>(HasSubstr("[3, 1]")));

  using kernel::Model;
  EXPECT_THROW(Model(nullptr, net.parameters), InvalidArgument);
  EXPECT_THROW(Model([](const Tensor& in) { return in; }, {}), InvalidArgument);
  EXPECT_THROW(Model([](const Tensor& in) { return in; }, {torch::ones({3})}), InvalidArgument);
  EXPECT_THROW(Model([](const Tensor& in) { return in; }, {Tensor()}), InvalidArgument);
  const Tensor leaf = torch::ones({3}).requires_grad_();
  EXPECT_THROW(Model([](const Tensor& in) { return in; }, {leaf * 2}), InvalidArgument);
  EXPECT_THROW(Model([](const Tensor& in) { return in; },
                     {leaf, torch::ones({3}, kDouble).requires_grad_()}),
               InvalidArgument);
  const Model pooled([&](const Tensor& in) { return (in * leaf).sum().view({1}); }, {leaf});
  EXPECT_THAT(
      [&] {
        empirical_ntk(pooled, torch::randn({4, 3}));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("one row per sample")));
  const Model blown([&](const Tensor& in) { return (in * leaf).sum(1) / 0.0; }, {leaf});
  EXPECT_THROW(empirical_ntk(blown, torch::ones({4, 3})), NumericalError);
}

}  // namespace
}  // namespace cdt
