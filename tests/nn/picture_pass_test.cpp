// A pass by products with patches against the same step by LibTorch's graph.
#include <cdt/core/error.h>
#include <cdt/kernel/record/precision_scope.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/passes/picture_pass.h>
#include <gmock/gmock.h>
#include <torch/autograd.h>

#include <limits>

#include "support/compare.h"

namespace cdt {
namespace {

using nn::PicturePass;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

struct PictureCase {
  std::string name;
  nn::ConvNetOptions options;
};

nn::ConvNetOptions stages_of(std::vector<nn::ConvStage> stages, int64_t side, int64_t grid,
                             std::vector<nn::DenseStage> hidden) {
  nn::ConvNetOptions o;
  o.architecture = "cnn";
  o.input_shape = {3, side, side + 2};
  o.outputs = 2;
  o.stages = std::move(stages);
  o.grid = grid;
  o.hidden = std::move(hidden);
  return o;
}

/// Every form of a layer: gaps, maxima that overlap, touch or leave a rest, none; few channels and
/// many; a grid of pixels, of copies along one side and along both, none.
std::vector<PictureCase> picture_cases() {
  auto grid = nn::cnn_options({3, 8, 8}, {4}, 2);
  grid.grid = 4;
  return {
      {"copies",
       stages_of({{"a", 6, 5, 3, 2, 3, 2}, {"b", 100, 5, 1, 2, 0, 0}, {"c", 7, 3, 1, 1, 3, 2}}, 23,
                 4, {{"d", 20}, {"e", 10}})},
      {"copies of pixels in rows", stages_of({{"a", 6, 3, 1, 1, 2, 2}}, 4, 6, {})},
      {"many channels first",
       stages_of({{"a", 90, 3, 1, 0, 0, 0}, {"b", 5, 2, 1, 1, 2, 2}}, 9, 0, {{"d", 8}})},
      {"grid of pixels", grid},
      {"as they are", nn::cnn_options({3, 12, 13}, {4, 6}, 2)},
  };
}

TEST(PicturePass, StepsAsTheGraphDoes) {
  const kernel::FullPrecisionScope no_tf32;
  for (const auto& device : test::devices()) {
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      // Sums over some hundred positions and thousand weights.
      const double tolerance = dtype == torch::kFloat64 ? 1e-12 : 1e-5;
      for (const auto& [name, options] : picture_cases()) {
        SCOPED_TRACE(c10::str(device, " ", dtype, " ", name));
        torch::manual_seed(3);
        nn::ConvNet ours(options, 4, dtype), graph(options, 4, dtype);
        ours->to(device);
        graph->to(device);
        std::vector<int64_t> shape{9};
        shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
        const Tensor x = torch::randn(shape, dtype).to(device);
        ASSERT_TRUE(PicturePass::takes(ours, x));
        const Tensor keep = torch::full({}, 0.9, torch::kFloat64).to(device);
        for (int step = 0; step < 3; ++step) {
          const Tensor seed = 1e-3 * torch::randn({9, 2}, dtype).to(device);
          PicturePass pass(ours, x);
          EXPECT_LT(relative_error(pass.outputs(), graph->forward(x)), tolerance);
          EXPECT_TRUE(torch::equal(PicturePass::evaluate(ours, x), pass.outputs()));
          const bool shrinks = step == 1;
          pass.move(seed.to(torch::kFloat64), shrinks ? keep : Tensor());
          const auto parameters = graph->parameters();
          const auto moves = torch::autograd::grad({graph->forward(x)}, parameters, {seed.clone()});
          const torch::NoGradGuard no_graph;
          for (size_t i = 0; i < parameters.size(); ++i) {
            parameters[i].mul_(shrinks ? 0.9 : 1).sub_(moves[i]);
          }
        }
        for (size_t i = 0; i < ours->parameters().size(); ++i) {
          EXPECT_LT(relative_error(ours->parameters()[i], graph->parameters()[i]), tolerance) << i;
        }
      }
    }
  }
}

TEST(PicturePass, KeepsNaN) {
  for (const auto& device : test::devices()) {
    nn::ConvNet model(picture_cases().front().options, 4);
    model->to(device);
    Tensor x = torch::randn({3, 3, 23, 25});
    x[1][2][7][7] = std::numeric_limits<float>::quiet_NaN();
    const Tensor outputs = PicturePass(model, x.to(device)).outputs().cpu().select(1, 0);
    EXPECT_TRUE(torch::equal(torch::isnan(outputs), torch::tensor({false, true, false})));
  }
}

TEST(PicturePass, TakesOnlyWhatItCanStep) {
  const Tensor x = torch::randn({2, 3, 12, 13});
  const auto options = nn::cnn_options({3, 12, 13}, {4, 6}, 2);
  nn::ConvNet relu(options, 4);
  EXPECT_TRUE(PicturePass::takes(relu, x));
  EXPECT_TRUE(PicturePass::takes(relu, torch::randn({2, 3, 13, 12}).transpose(2, 3)));
  EXPECT_FALSE(PicturePass::takes(relu, x.to(torch::kFloat64)));
  EXPECT_FALSE(PicturePass::takes(relu, torch::randn({2, 3, 13, 12})));
  EXPECT_FALSE(PicturePass::takes(relu, torch::randn({0, 3, 12, 13})));
  // Patches of more than 2 GiB; x itself takes no memory.
  EXPECT_FALSE(PicturePass::takes(relu, torch::zeros({1}).expand({100'000, 3, 12, 13})));
  const auto refused = [&](auto&& change) {
    auto other = options;
    change(other);
    return !PicturePass::takes(nn::ConvNet(other, 4), x);
  };
  EXPECT_TRUE(refused([](auto& o) { o.activation = nn::Activation::kTanh; }));
  EXPECT_TRUE(refused([](auto& o) { o.parametrization = nn::Parametrization::kNtk; }));
  EXPECT_TRUE(refused([](auto& o) { o.stages[1].stride = 2; }));
  EXPECT_TRUE(refused([](auto& o) { o.stages[1].padding = 3; }));
  EXPECT_TRUE(refused([](auto& o) { o.grid = 2; }));  // 3 × 3 pixels: means of some
  EXPECT_FALSE(refused([](auto& o) { o.grid = 3; }));
  relu->parameters()[0].set_requires_grad(false);
  EXPECT_THAT([&] { PicturePass(relu, x); },
              ThrowsMessage<InvalidArgument>(HasSubstr("without scaled or frozen weights")));
  EXPECT_THAT([&] { PicturePass::evaluate(relu, x); },
              ThrowsMessage<InvalidArgument>(HasSubstr("pictures [r, 3, 12, 13]")));
}

TEST(PicturePass, MovesOnceAlongOneSeedForEachOutput) {
  nn::ConvNet model(nn::cnn_options({3, 12, 13}, {4, 6}, 2), 4);
  PicturePass pass(model, torch::randn({3, 3, 12, 13}));
  EXPECT_THAT([&] { pass.move(torch::ones({3}), {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the outputs' shape [3, 2], got [3]")));
  pass.move(torch::ones({3, 2}), {});
  EXPECT_THAT(
      [&] {
        pass.move(torch::ones({3, 2}), {});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("once")));
}

TEST(PicturePass, IsWhatAnEngineTakesOnAGpu) {
  for (const auto& device : test::devices()) {
    nn::ConvNet model(nn::cnn_options({3, 12, 13}, {4, 6}, 2), 4);
    model->to(device);
    const Tensor x = torch::randn({3, 3, 12, 13}).to(device);
    const auto engine = nn::make_engine(model);
    const auto pass = engine->forward(x, kernel::StepUse::kDescent);
    const Tensor seed = torch::ones({3, 2}).to(device);
    if (device.is_cpu()) {
      EXPECT_EQ(pass->gradients(seed).size(), model->parameters().size());
    } else {
      EXPECT_THROW(pass->gradients(seed), InvalidArgument);
    }
    EXPECT_TRUE(torch::equal(engine->evaluate(x), pass->outputs()));
    const auto gradients = engine->forward(x, kernel::StepUse::kGradients)->gradients(seed);
    EXPECT_EQ(gradients.size(), model->parameters().size());
    EXPECT_TRUE(engine->repeatable());
  }
}

}  // namespace
}  // namespace cdt
