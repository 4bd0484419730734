// A pass by operators against the same step by LibTorch's graph.
#include <cdt/core/error.h>
#include <cdt/nn/passes/operator_pass.h>
#include <gmock/gmock.h>
#include <torch/autograd.h>

#include <limits>

#include "support/compare.h"

namespace cdt {
namespace {

using nn::OperatorPass;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

nn::MlpOptions operator_options(std::vector<int64_t> hidden, int64_t outputs, bool bias) {
  nn::MlpOptions o;
  o.inputs = 7;
  o.hidden = std::move(hidden);
  o.outputs = outputs;
  o.bias = bias;
  return o;
}

TEST(OperatorPass, StepsAsTheGraphDoes) {
  const std::vector<std::vector<int64_t>> networks{{}, {5}, {33, 1, 20}, {60, 40}};
  for (const auto& device : test::devices()) {
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      // Sums over 130 samples, some dozens of roundings.
      const double tolerance = dtype == torch::kFloat64 ? 1e-12 : 1e-5;
      for (const auto& hidden : networks) {
        for (const int64_t outputs : {1, 3}) {
          for (const bool bias : {true, false}) {
            SCOPED_TRACE(c10::str(device, " ", dtype, " hidden ", hidden, " outputs ", outputs,
                                  " bias ", bias));
            torch::manual_seed(3);
            nn::Mlp ours(operator_options(hidden, outputs, bias), 4, dtype);
            nn::Mlp graph(operator_options(hidden, outputs, bias), 4, dtype);
            ours->to(device);
            graph->to(device);
            const Tensor x = torch::randn({130, 7}, dtype).to(device);
            const Tensor keep = torch::full({}, 0.9, torch::kFloat64).to(device);
            for (int step = 0; step < 3; ++step) {
              const Tensor seed = 1e-3 * torch::randn({130, outputs}, dtype).to(device);
              OperatorPass pass(ours, x);
              EXPECT_LT(relative_error(pass.outputs(), graph->forward(x)), tolerance);
              EXPECT_TRUE(torch::equal(OperatorPass::evaluate(ours, x), pass.outputs()));
              const bool shrinks = step == 1;
              pass.move(seed.to(torch::kFloat64), shrinks ? keep : Tensor());
              const auto parameters = graph->parameters();
              const auto moves =
                  torch::autograd::grad({graph->forward(x)}, parameters, {seed.clone()});
              const torch::NoGradGuard no_graph;
              for (size_t i = 0; i < parameters.size(); ++i) {
                parameters[i].mul_(shrinks ? 0.9 : 1).sub_(moves[i]);
              }
            }
            for (size_t i = 0; i < ours->parameters().size(); ++i) {
              EXPECT_LT(relative_error(ours->parameters()[i], graph->parameters()[i]), tolerance);
            }
          }
        }
      }
    }
  }
}

TEST(OperatorPass, KeepsNaN) {
  for (const auto& device : test::devices()) {
    nn::Mlp model(operator_options({5, 5}, 1, true), 4);
    model->to(device);
    Tensor x = torch::randn({3, 7});
    x[1][2] = std::numeric_limits<float>::quiet_NaN();
    const Tensor outputs = OperatorPass(model, x.to(device)).outputs().cpu().reshape({-1});
    EXPECT_TRUE(torch::equal(torch::isnan(outputs), torch::tensor({false, true, false})));
  }
}

TEST(OperatorPass, TakesOnlyWhatItCanStep) {
  const Tensor x = torch::randn({3, 7});
  nn::Mlp relu(operator_options({5}, 1, true), 4);
  EXPECT_TRUE(OperatorPass::takes(relu, x));
  EXPECT_TRUE(OperatorPass::takes(relu, torch::randn({7, 3}).t()));
  EXPECT_FALSE(OperatorPass::takes(relu, x.to(torch::kFloat64)));
  EXPECT_FALSE(OperatorPass::takes(relu, torch::randn({3, 6})));
  auto other = operator_options({5}, 1, true);
  other.activation = nn::Activation::kTanh;
  EXPECT_FALSE(OperatorPass::takes(nn::Mlp(other, 4), x));
  other = operator_options({5}, 1, true);
  other.parametrization = nn::Parametrization::kNtk;
  EXPECT_FALSE(OperatorPass::takes(nn::Mlp(other, 4), x));
  relu->parameters()[0].set_requires_grad(false);
  EXPECT_THAT([&] { OperatorPass(relu, x); },
              ThrowsMessage<InvalidArgument>(HasSubstr("without scaled or frozen weights")));
}

TEST(OperatorPass, MovesOnceAlongOneSeedForEachOutput) {
  nn::Mlp model(operator_options({5}, 1, true), 4);
  OperatorPass pass(model, torch::randn({3, 7}));
  EXPECT_THAT([&] { pass.move(torch::ones({3}), {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the outputs' shape [3, 1], got [3]")));
  pass.move(torch::ones({3, 1}), {});
  EXPECT_THAT(
      [&] {
        pass.move(torch::ones({3, 1}), {});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("once")));
}

}  // namespace
}  // namespace cdt
