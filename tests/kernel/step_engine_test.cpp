// LibTorch's graph as an engine of steps, against rows of the Jacobian.
#include <cdt/core/error.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/step_engine.h>
#include <gmock/gmock.h>

#include "support/compare.h"

namespace cdt::kernel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

struct TwoLayers {
  Tensor w = torch::randn({3, 5}, torch::kFloat64).requires_grad_(true);
  Tensor v = torch::randn({5, 2}, torch::kFloat64).requires_grad_(true);
  Tensor idle = torch::ones({4}, torch::kFloat64).requires_grad_(true);

  Model model() {
    return {[this](const Tensor& x) { return x.mm(w).tanh().mm(v); }, {w, idle, v}};
  }
};

TEST(GraphEngine, MovesEveryParameterAgainstItsGradient) {
  torch::manual_seed(1);
  TwoLayers net;
  const Model model = net.model();
  const Tensor x = torch::randn({7, 3}, torch::kFloat64);
  const Tensor seed = torch::randn({7, 2}, torch::kFloat64);
  const Tensor before = flatten(model, model.parameters()).detach().clone();
  const Tensor pulled = vector_jacobian_product(model, x, seed.reshape({-1}));
  GraphEngine engine(model);

  const torch::NoGradGuard the_callers;  // an engine needs no graph of its caller
  const auto pass = engine.forward(x, StepUse::kDescent);
  EXPECT_FALSE(pass->outputs().requires_grad());
  EXPECT_TRUE(torch::equal(pass->outputs(), engine.evaluate(x)));
  pass->descend(seed.to(torch::kFloat32).to(torch::kFloat64), 0.1, 0.02);
  const Tensor after = flatten(model, model.parameters());
  EXPECT_LE(test::relative_error(after, 0.98 * before - 0.1 * pulled), 1e-6);
  EXPECT_TRUE(torch::allclose(net.idle, 0.98 * torch::ones({4}, torch::kFloat64)));
}

TEST(GraphEngine, HandsOutGradients) {
  torch::manual_seed(2);
  TwoLayers net;
  const Model model = net.model();
  const Tensor x = torch::randn({7, 3}, torch::kFloat64);
  const Tensor seed = torch::randn({7, 2}, torch::kFloat64);
  GraphEngine engine(model);
  const auto gradients = engine.forward(x, StepUse::kGradients)->gradients(seed);
  ASSERT_EQ(gradients.size(), 3U);
  EXPECT_FALSE(gradients[1].defined());  // the outputs do not depend on it
  EXPECT_LE(test::relative_error(flatten(model, gradients),
                                 vector_jacobian_product(model, x, seed.reshape({-1}))),
            1e-14);
}

TEST(GraphEngine, APassIsGoodForOneStep) {
  TwoLayers net;
  GraphEngine engine(net.model());
  const Tensor x = torch::ones({7, 3}, torch::kFloat64);
  const auto pass = engine.forward(x, StepUse::kDescent);
  EXPECT_THAT([&] { pass->descend(torch::ones({7}, torch::kFloat64), 1, 0); },
              ThrowsMessage<InvalidArgument>(HasSubstr("[7, 2]")));
  pass->descend(torch::ones({7, 2}, torch::kFloat64), 1, 0);
  EXPECT_THAT(
      [&] {
        pass->descend(torch::ones({7, 2}, torch::kFloat64), 1, 0);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("one step")));
}

}  // namespace
}  // namespace cdt::kernel
