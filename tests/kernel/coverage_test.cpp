// Every parameter is accounted for once, and a wrong kernel is never returned: what is refused, and
// what falls back.
#include <cdt/core/error.h>
#include <cdt/kernel/operator.h>
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

/// By the kernel's two paths, by the operator, and by products with vectors; one output a sample.
void expect_refused_by_all(const kernel::Model& model, const Tensor& x, const char* message) {
  const Tensor v = torch::ones({x.size(0)}, x.options());
  const Tensor u = torch::ones({model.parameter_count()}, x.options());
  NtkOptions rows;
  rows.path = NtkOptions::Path::kJacobian;
  const std::vector<std::function<void()>> ways{
      [&] { empirical_ntk(model, x); },
      [&] { empirical_ntk(model, x, rows); },
      [&] { empirical_ntk(model, x, x.narrow(0, 0, 3)); },
      [&] { kernel::NtkOperator(model, x); },
      [&] { kernel::vector_jacobian_product(model, x, v); },
      [&] { kernel::jacobian_vector_product(model, x, u); },
      [&] { kernel::hessian_vector_product(model, x, v, u); },
      [&] { kernel::second_derivative(model, x, u, u); }};
  for (size_t way = 0; way < ways.size(); ++way) {
    SCOPED_TRACE(way);
    EXPECT_THAT(ways[way], ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  }
}

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
  const std::vector<Tensor> statistics = norm->buffers();
  const Tensor mean = statistics[0].clone();
  const Tensor variance = statistics[1].clone();
  for (const kernel::Model& model : {kernel::Model(norm), kernel::Model(dropout)}) {
    expect_refused_by_all(model, x, "call eval()");
  }
  // A refused pass leaves no trace in the model.
  EXPECT_TRUE(torch::equal(statistics[0], mean));
  EXPECT_TRUE(torch::equal(statistics[1], variance));
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

// Rows in another order than the samples: no shape tells, only the gradients do. Few samples and
// many seeds, because a probe could be blind to an exchange of two samples by chance.
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
        EXPECT_LE(relative_error(empirical_ntk(net->model(), x, options).theta, J.mm(J.t())),
                  test::tol::kKernel64);
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

TEST(Coverage, RefusesAnyLayerThatMixesSamples) {
  torch::manual_seed(9);
  using P = const std::vector<Tensor>&;
  const std::vector<test::Network> nets{
      {"after a layer",
       {parameter({4, 4}, kDouble), parameter({1, 4}, kDouble)},
       [](P w, const Tensor& x) {
         const Tensor h = torch::linear(x, w[0]).tanh();
         return torch::linear(h - h.mean(0, true), w[1]);
       },
       {4}},
      {"before all layers",
       {parameter({4, 4}, kDouble)},
       [](P w, const Tensor& x) {
         return torch::linear((x - x.mean(0, true)) / x.std(0, true, true), w[0]).tanh();
       },
       {4}},
      {"random",
       {parameter({4, 4}, kDouble)},
       [](P w, const Tensor& x) {
         return (torch::linear(x, w[0]) * torch::rand({1, 4}, kDouble)).tanh();
       },
       {4}},
  };
  for (const auto& net : nets) {
    SCOPED_TRACE(net.name);
    EXPECT_THAT([&] { empirical_ntk(net.model(), test::inputs(9, net, kDouble)); },
                ThrowsMessage<InvalidArgument>(HasSubstr("mixes samples")));
  }
}

TEST(Coverage, RefusesCouplingThatOneSampleHides) {
  // Divided by the largest input of the batch: the sample that holds it sees no difference.
  torch::manual_seed(15);
  const test::Network net{"",
                          {parameter({1, 4}, kDouble)},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            return torch::linear(x / x.abs().max(), w[0]);
                          },
                          {4}};
  for (const int64_t largest : {0, 1, 5, 8}) {
    SCOPED_TRACE(largest);
    const Tensor x = test::inputs(9, net, kDouble);
    x[largest][2] = 20;
    EXPECT_THAT([&] { empirical_ntk(net.model(), x); },
                ThrowsMessage<InvalidArgument>(HasSubstr("mixes samples")));
    EXPECT_THAT([&] { empirical_ntk(net.model(), x.narrow(0, 0, 1).clone(), x); },
                ThrowsMessage<InvalidArgument>(HasSubstr("mixes samples")));
  }
}

/// A network whose first weight gets another gradient than its layer says.
test::Network hooked(const std::function<Tensor(const Tensor&)>& hook) {
  return {"",
          {parameter({6, 4}, kDouble), parameter({2, 6}, kDouble)},
          [hook](const std::vector<Tensor>& w, const Tensor& x) {
            const Tensor weight = w[0] * 1.0;
            weight.register_hook(hook);
            return torch::linear(torch::linear(x, weight).tanh(), w[1]);
          },
          {4}};
}

TEST(Coverage, ARuleThatTheSelfCheckRefutesIsReplaced) {
  torch::manual_seed(16);
  const auto net = hooked([](const Tensor& gradient) { return 3 * gradient; });
  const Tensor x = test::inputs(7, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  const auto ntk = empirical_ntk(net.model(), x);
  EXPECT_LE(relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
  EXPECT_EQ(ntk.coverage[0].coverage, Coverage::kJacobian);
  EXPECT_THAT(ntk.coverage[0].reason, HasSubstr("failed the self-check"));
  EXPECT_EQ(ntk.coverage[1].coverage, Coverage::kRule);
  EXPECT_GT(ntk.self_check, 0);
  EXPECT_LE(ntk.self_check, test::tol::kKernel64);
}

TEST(Coverage, AKernelThatFailsItsSelfCheckIsAnError) {
  torch::manual_seed(17);
  const auto net =
      hooked([](const Tensor& gradient) { return gradient * torch::rand({}, kDouble); });
  for (auto path : {NtkOptions::Path::kAuto, NtkOptions::Path::kJacobian}) {
    NtkOptions options;
    options.path = path;
    EXPECT_THAT([&] { empirical_ntk(net.model(), test::inputs(7, net, kDouble), options); },
                ThrowsMessage<NumericalError>(HasSubstr("self-check")));
  }
}

TEST(Coverage, OutputsThatCancelAreNoCoupling) {
  // The antisymmetric initialisation: two copies of a network, subtracted, give zero at the start.
  torch::manual_seed(13);
  const torch::TensorOptions options = torch::TensorOptions().dtype(torch::kFloat32);
  const Tensor conv = parameter({3, 1, 2, 2}, options);
  const Tensor out = parameter({1, 27}, options);
  test::Network net{
      "",
      {conv, out, conv.detach().clone().requires_grad_(), out.detach().clone().requires_grad_()},
      [](const std::vector<Tensor>& w, const Tensor& x) {
        const auto half = [&](const Tensor& c, const Tensor& o) {
          return torch::linear(torch::conv2d(x, c).tanh().flatten(1), o);
        };
        return half(w[0], w[1]) * 3.0 - half(w[2], w[3]) * 3.0;
      },
      {1, 4, 4}};
  EXPECT_NO_THROW(empirical_ntk(net.model(), test::inputs(8, net, options)));
}

TEST(Coverage, RefusesAForwardFunctionThatWritesToItsInputs) {
  const Tensor weight = parameter({4, 1}, kDouble);
  const kernel::Model model([&](const Tensor& x) { return Tensor(x).mul_(2).mm(weight); },
                            {weight});
  EXPECT_THAT(
      [&] {
        empirical_ntk(model, torch::ones({4, 4}, kDouble));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("writes to its inputs")));
}

TEST(Coverage, RefusesOutputsWithoutAGraph) {
  const Tensor weight = parameter({4, 1}, kDouble);
  const Tensor x = torch::ones({4, 4}, kDouble);
  const kernel::Model detached([&](const Tensor& in) { return in.mm(weight).detach(); }, {weight});
  EXPECT_THAT([&] { empirical_ntk(detached, x); },
              ThrowsMessage<InvalidArgument>(HasSubstr("do not depend")));
  EXPECT_THROW(kernel::vector_jacobian_product(detached, x, torch::ones({4}, kDouble)),
               InvalidArgument);
  // Others' parameters move them, not these.
  const Tensor other = parameter({4, 1}, kDouble);
  const kernel::Model foreign([&](const Tensor& in) { return in.mm(weight); }, {other});
  expect_refused_by_all(foreign, x, "do not depend");
  const kernel::Model model([&](const Tensor& in) { return in.mm(weight); }, {weight});
  const c10::InferenceMode inference;
  EXPECT_THAT([&] { empirical_ntk(model, x); },
              ThrowsMessage<InvalidArgument>(HasSubstr("InferenceMode")));
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
  EXPECT_THROW(Model([](const Tensor& in) { return in; },
                     {torch::ones({3}, torch::kBFloat16).requires_grad_()}),
               InvalidArgument);
  const Tensor empty = torch::ones({0, 3}).requires_grad_();
  EXPECT_EQ(Model([](const Tensor& in) { return in; }, {leaf, empty}).parameters().size(), 1u);
  const Tensor per_sample = torch::ones({5, 4}, kDouble).requires_grad_();
  const Model counted([&](const Tensor& in) { return (in + per_sample).sum(1); }, {per_sample});
  EXPECT_THAT(
      [&] {
        empirical_ntk(counted, torch::ones({5, 4}, kDouble));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("any number of samples")));
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
