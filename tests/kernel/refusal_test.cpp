// A wrong kernel is never returned: what is refused, and what the self-check finds.
#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/step_engine.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

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
using testing::AnyOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;

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

TEST(Refusal, RefusesLayersInTrainingMode) {
  torch::manual_seed(8);
  torch::nn::Sequential norm(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                             torch::nn::Linear(8, 1));
  torch::nn::Sequential dropout(torch::nn::Linear(4, 8), torch::nn::Dropout(0.5),
                                torch::nn::Linear(8, 1));
  const Tensor x = torch::randn({6, 4});
  std::vector<Tensor> states = norm->buffers();  // mean, variance, number of batches
  std::vector<Tensor> before;
  before.reserve(states.size());
  for (const Tensor& state : states) before.push_back(state.clone());
  for (const kernel::Model& model : {kernel::Model(norm), kernel::Model(dropout)}) {
    expect_refused_by_all(model, x, "call eval()");
  }
  // A refused pass leaves no trace in the model, not even of a layer that it uses twice.
  torch::nn::Linear first(4, 4);
  torch::nn::BatchNorm1d twice(4);
  const kernel::Model looped([&](const Tensor& in) { return twice(twice(first(in))); },
                             {first->weight, first->bias, twice->weight, twice->bias});
  for (const Tensor& state : twice->buffers()) {
    states.push_back(state);
    before.push_back(state.clone());
  }
  EXPECT_THROW(empirical_ntk(looped, x), InvalidArgument);
  ASSERT_EQ(states.size(), 6U);
  for (size_t k = 0; k < states.size(); ++k) EXPECT_TRUE(torch::equal(states[k], before[k])) << k;
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

TEST(Refusal, RefusesAnyLayerThatMixesSamples) {
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
                ThrowsMessage<InvalidArgument>(
                    AnyOf(HasSubstr("mixes samples"), HasSubstr("draws random numbers"))));
  }
}

TEST(Refusal, RefusesCouplingThatOneSampleHides) {
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
    // Nor behind a last block of one sample.
    NtkOptions blocks;
    const auto cost = kernel::cost_per_sample(net.model(), x, {});
    blocks.memory_bytes = 8 * cost.bytes(cost.outputs.size(1), 2);
    EXPECT_THAT([&] { empirical_ntk(net.model(), x, blocks); },
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

TEST(Refusal, NamesTheSampleThatOthersMove) {
  torch::manual_seed(18);
  const test::Network net{"",
                          {parameter({2, 4}, kDouble)},
                          [](const std::vector<Tensor>& w, const Tensor& x) {
                            const Tensor watches = (x.narrow(1, 0, 1) > 10).to(x.dtype());
                            return torch::linear(x, w[0]) + watches * x.mean();
                          },
                          {4}};
  Tensor x = test::inputs(7, net, kDouble);
  NtkOptions rows;  // made of each sample alone
  rows.path = NtkOptions::Path::kJacobian;
  EXPECT_NO_THROW(empirical_ntk(net.model(), x, rows));
  x[3][0] = 20;
  EXPECT_THAT([&] { empirical_ntk(net.model(), x, rows); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the outputs of sample 3 change")));
}

TEST(Refusal, ARuleThatTheSelfCheckRefutesIsReplaced) {
  torch::manual_seed(16);
  const auto net = hooked([](const Tensor& gradient) { return 3 * gradient; });
  const Tensor x = test::inputs(7, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  for (const auto layers : {NtkOptions::Layers::kOneByOne, NtkOptions::Layers::kTogether}) {
    NtkOptions options;
    options.layers = layers;
    const auto ntk = empirical_ntk(net.model(), x, options);
    EXPECT_LE(relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
    EXPECT_EQ(ntk.coverage[0].coverage, Coverage::kJacobian);
    EXPECT_THAT(ntk.coverage[0].reason, HasSubstr("failed the self-check"));
    EXPECT_EQ(ntk.coverage[1].coverage, Coverage::kRule);
    EXPECT_GE(ntk.self_check, 0);  // on some CPUs both sums round alike
    EXPECT_LE(ntk.self_check, test::tol::kKernel64);
  }
}

TEST(Refusal, AKernelThatFailsItsSelfCheckIsAnError) {
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

TEST(Refusal, OutputsThatCancelAreNoCoupling) {
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
  const kernel::Model coupled(
      [&](const Tensor& x) { return net.forward(net.parameters, x) + 0.01 * x.mean(); },
      net.parameters);
  EXPECT_THAT([&] { empirical_ntk(coupled, test::inputs(8, net, options)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("mixes samples")));
}

TEST(Refusal, RefusesAForwardFunctionThatWritesToItsInputs) {
  const Tensor weight = parameter({4, 1}, kDouble);
  const kernel::Model model([&](const Tensor& x) { return Tensor(x).mul_(2).mm(weight); },
                            {weight});
  EXPECT_THAT(
      [&] {
        empirical_ntk(model, torch::ones({4, 4}, kDouble));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("writes to its inputs")));
}

TEST(Refusal, RefusesParametersThatWereFrozenAfterwards) {
  torch::manual_seed(9);
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Tanh(), torch::nn::Linear(3, 1));
  net->to(torch::kFloat64);
  const kernel::Model model(net);
  net->parameters()[1].requires_grad_(false);
  const Tensor x = torch::randn({5, 4}, kDouble);
  expect_refused_by_all(model, x, "a parameter of shape [3] was frozen");
  EXPECT_THAT(
      [&] {
        kernel::GraphEngine(model)
            .forward(x, kernel::StepUse::kGradients)
            ->gradients(torch::ones({5, 1}, kDouble));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("was frozen")));
}

TEST(Refusal, AKernelOfOneBlockCanBeEnded) {
  struct Ended {};
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(8, 400), torch::nn::Tanh(),
                            torch::nn::Linear(400, 400), torch::nn::Tanh(),
                            torch::nn::Linear(400, 2));
  NtkOptions options;
  options.progress = [](int64_t done, int64_t total) { FAIL() << done << " of " << total; };
  const Tensor x = torch::randn({2000, 8});  // some seconds of work
  {
    const InterruptScope scope([] { throw Ended(); });
    EXPECT_THROW(empirical_ntk(net, x, options), Ended);
  }
  EXPECT_NO_THROW(empirical_ntk(net, x.narrow(0, 0, 5)));  // nothing is left recording
}

TEST(Refusal, RefusesOutputsWithoutAGraph) {
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

TEST(Refusal, RefusesBadInput) {
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
