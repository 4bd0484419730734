// A descent pass against the same step by LibTorch's graph.
#include <cdt/core/error.h>
#include <cdt/nn/passes/descent_pass.h>
#include <gmock/gmock.h>

#include <limits>

#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using nn::DescentPass;
using nn::Mlp;
using nn::MlpOptions;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

MlpOptions relu_options(std::vector<int64_t> hidden, int64_t outputs, bool bias) {
  MlpOptions o;
  o.inputs = 7;
  o.hidden = std::move(hidden);
  o.outputs = outputs;
  o.bias = bias;
  return o;
}

/// θ ← (1 − shrink) θ − rate·Jᵀ seed by LibTorch's graph.
void descend_by_graph(Mlp model, const Tensor& x, const Tensor& seed, double rate, double shrink) {
  const auto parameters = model->parameters();
  const auto gradients = torch::autograd::grad({model->forward(x)}, parameters, {seed});
  const torch::NoGradGuard no_graph;
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mul_(1 - shrink).sub_(gradients[i], rate);
  }
}

TEST(DescentPass, StepsAsTheGraphDoes) {
  const std::vector<std::vector<int64_t>> networks{{}, {5}, {33, 1, 20}, {300, 40}};
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    const double tolerance = dtype == torch::kFloat64 ? 1e-12 : 1e-5;
    for (const auto& hidden : networks) {
      for (const int64_t outputs : {1, 3}) {
        for (const bool bias : {true, false}) {
          SCOPED_TRACE(c10::str(dtype, " hidden ", hidden, " outputs ", outputs, " bias ", bias));
          torch::manual_seed(3);
          Mlp ours(relu_options(hidden, outputs, bias), 4, dtype);
          Mlp graph(relu_options(hidden, outputs, bias), 4, dtype);
          const Tensor x = torch::randn({130, 7}, dtype);
          for (int step = 0; step < 3; ++step) {
            const Tensor seed = torch::randn({130, outputs}, dtype);
            DescentPass pass(ours, x);
            EXPECT_LT(relative_error(pass.outputs(), graph->forward(x)), tolerance);
            EXPECT_LT(relative_error(DescentPass::evaluate(ours, x), pass.outputs()), tolerance);
            pass.descend(seed, 1e-3, 0.1);
            descend_by_graph(graph, x, seed, 1e-3, 0.1);
          }
          for (size_t i = 0; i < ours->parameters().size(); ++i) {
            EXPECT_LT(relative_error(ours->parameters()[i], graph->parameters()[i]), tolerance);
          }
        }
      }
    }
  }
}

TEST(DescentPass, DoesNotDependOnThreads) {
  const Tensor x = torch::randn({400, 7});
  const Tensor seed = torch::randn({400, 2});
  const int before = torch::get_num_threads();
  std::vector<Tensor> first;
  for (const int threads : {1, 3}) {
    torch::set_num_threads(threads);
    Mlp model(relu_options({700}, 2, true), 4);
    DescentPass(model, x).descend(seed, 1e-3);
    if (first.empty()) first.push_back(model->bias(0).clone());
    EXPECT_TRUE(torch::equal(model->bias(0), first.front()));
  }
  torch::set_num_threads(before);
}

TEST(DescentPass, KeepsNaN) {
  Mlp model(relu_options({5}, 1, true), 4);
  Tensor x = torch::randn({3, 7});
  x[1][2] = std::numeric_limits<float>::quiet_NaN();
  const Tensor broken = torch::isnan(DescentPass(model, x).outputs()).reshape({-1});
  EXPECT_TRUE(torch::equal(broken, torch::tensor({false, true, false})));
}

TEST(DescentPass, TakesOnlyWhatItCanStep) {
  const Tensor x = torch::randn({3, 7});
  Mlp relu(relu_options({5}, 1, true), 4);
  EXPECT_TRUE(DescentPass::takes(relu, x));
  EXPECT_FALSE(DescentPass::takes(relu, x.to(torch::kFloat64)));
  EXPECT_FALSE(DescentPass::takes(relu, torch::randn({7, 3}).t()));
  EXPECT_FALSE(DescentPass::takes(relu, torch::randn({2, 3, 7})));

  auto other = relu_options({5}, 1, true);
  other.activation = nn::Activation::kTanh;
  EXPECT_FALSE(DescentPass::takes(Mlp(other, 4), x));
  other = relu_options({5}, 1, true);
  other.parametrization = nn::Parametrization::kNtk;
  EXPECT_FALSE(DescentPass::takes(Mlp(other, 4), x));

  relu->parameters()[0].set_requires_grad(false);
  EXPECT_THAT([&] { DescentPass(relu, x); },
              ThrowsMessage<InvalidArgument>(HasSubstr("without scaled or frozen weights")));
}

TEST(DescentPass, DescendsOnceAlongOneSeedForEachOutput) {
  Mlp model(relu_options({5}, 1, true), 4);
  DescentPass pass(model, torch::randn({3, 7}));
  EXPECT_THAT([&] { pass.descend(torch::ones({3}), 1e-3); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the outputs' shape [3, 1], got [3]")));
  pass.descend(torch::ones({3, 1}), 1e-3);
  EXPECT_THAT(
      [&] {
        pass.descend(torch::ones({3, 1}), 1e-3);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("descends once")));
}

}  // namespace
}  // namespace cdt
