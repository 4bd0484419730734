// Steps of a network by its engine, against those of LibTorch's graph.
#include <cdt/core/error.h>
#include <cdt/kernel/product/blocks.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/passes/descent_pass.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/memory.h"

namespace cdt {
namespace {

using kernel::StepUse;
using test::relative_error;
using torch::Tensor;

nn::Mlp engine_network(nn::Activation activation) {
  nn::MlpOptions o;
  o.inputs = 5;
  o.hidden = {20, 10};
  o.outputs = 2;
  o.activation = activation;
  return nn::Mlp(o, 3, torch::kFloat64);
}

TEST(NetworkEngine, StepsAsTheGraphDoes) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({9, 5}, torch::kFloat64);
  for (const auto activation : {nn::Activation::kRelu, nn::Activation::kTanh}) {
    SCOPED_TRACE(to_string(activation));
    nn::Mlp ours = engine_network(activation), plain = engine_network(activation);
    const auto engine = nn::make_engine(ours);
    kernel::GraphEngine graph{kernel::Model(plain)};
    for (int step = 0; step < 3; ++step) {
      const Tensor seed = torch::randn({9, 2}, torch::kFloat64);
      auto pass = engine->forward(x, StepUse::kDescent);
      auto other = graph.forward(x, StepUse::kDescent);
      EXPECT_LT(relative_error(pass->outputs(), other->outputs()), 1e-13);
      EXPECT_LT(relative_error(engine->evaluate(x), other->outputs()), 1e-13);
      pass->descend(seed, 0.01, 0.1);
      other->descend(seed, 0.01, 0.1);
    }
    for (size_t i = 0; i < plain->parameters().size(); ++i) {
      EXPECT_LT(relative_error(ours->parameters()[i], plain->parameters()[i]), 1e-13);
    }
  }
}

TEST(NetworkEngine, TakesTheGraphWhereItMust) {
  nn::Mlp net = engine_network(nn::Activation::kRelu);
  const auto engine = nn::make_engine(net);
  const Tensor x = torch::randn({4, 5}, torch::kFloat64);
  const Tensor seed = torch::ones({4, 2}, torch::kFloat64);
  // Gradients are the graph's, a descent needs none of it.
  const auto gradients = engine->forward(x, StepUse::kGradients)->gradients(seed);
  const auto expected = torch::autograd::grad({net->forward(x)}, net->parameters(), {seed.clone()});
  ASSERT_EQ(gradients.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(gradients[i], expected[i]));
  }
  EXPECT_THROW(engine->forward(x, StepUse::kDescent)->gradients(seed), InvalidArgument);
  // Inputs that a descent pass does not take.
  const Tensor strided = torch::randn({4, 10}, torch::kFloat64).slice(1, 0, 10, 2);
  ASSERT_FALSE(nn::DescentPass::takes(net, strided));
  EXPECT_LT(
      relative_error(engine->forward(strided, StepUse::kDescent)->outputs(), net->forward(strided)),
      1e-15);
  EXPECT_THROW(nn::make_engine(nn::Network()), InvalidArgument);
}

TEST(NetworkEngine, TakesManyRowsABlockAtATime) {
  torch::manual_seed(4);
  constexpr int64_t kRows = 3 * kernel::kRowsAtATime + 5;
  const Tensor x = torch::randn({kRows, 5}, torch::kFloat64);
  for (const auto activation : {nn::Activation::kRelu, nn::Activation::kTanh}) {
    SCOPED_TRACE(to_string(activation));
    nn::Mlp net = engine_network(activation);
    const torch::NoGradGuard no_graph;
    const Tensor whole = net->forward(x);
    const auto engine = nn::make_engine(net);
    Tensor found;
    const int64_t most = test::peak_of([&] { found = engine->evaluate(x); });
    EXPECT_LT(relative_error(found, whole), 1e-13);
    EXPECT_LT(relative_error(nn::outputs_of(net, x), whole), 1e-13);
    // The outputs, and of a block what goes into a layer and comes out of it.
    const int64_t block = 8 * kernel::kRowsAtATime * (5 + 20 + 20 + 20 + 10 + 2);
    EXPECT_LE(most, static_cast<int64_t>(found.nbytes()) + block);
  }
}

TEST(NetworkEngine, ALookCanStepAfterAll) {
  torch::manual_seed(5);
  const Tensor x = torch::randn({9, 5}, torch::kFloat64);
  const Tensor seed = torch::randn({9, 2}, torch::kFloat64);
  nn::Mlp looked = engine_network(nn::Activation::kRelu);
  nn::Mlp stepped = engine_network(nn::Activation::kRelu);
  const std::shared_ptr<kernel::StepEngine> engine = nn::make_engine(looked);
  kernel::GraphEngine graph{kernel::Model(stepped)};
  const auto expected = graph.forward(x, StepUse::kGradients)->gradients(seed);
  const auto look = kernel::look(engine, x);
  EXPECT_LT(relative_error(look->outputs(), stepped->forward(x)), 1e-13);
  const auto gradients = look->gradients(seed);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(relative_error(gradients[i], expected[i]), 1e-13);
  }
  look->descend(seed, 0.01, 0.1);
  graph.forward(x, StepUse::kDescent)->descend(seed, 0.01, 0.1);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(relative_error(looked->parameters()[i], stepped->parameters()[i]), 1e-13);
  }
}

}  // namespace
}  // namespace cdt
