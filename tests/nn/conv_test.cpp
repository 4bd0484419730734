// The convolution's distributions and scalings, its forward pass and its kernel.
#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/conv.h>
#include <cdt/nn/mlp.h>
#include <gmock/gmock.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using nn::Conv2d;
using nn::Conv2dOptions;
using nn::Parametrization;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

constexpr double kSigmaW = 1.3;
constexpr double kSigmaB = 0.2;
constexpr std::array kAll{Parametrization::kStandard, Parametrization::kNtk,
                          Parametrization::kImproved};

Conv2dOptions conv_options(Parametrization parametrization, int64_t factor) {
  Conv2dOptions o;
  o.in_channels = 3;
  o.out_channels = 5;
  o.kernel_size = {3, 2};
  o.stride = {2, 1};
  o.padding = {1, 2};
  o.parametrization = parametrization;
  o.sigma_w = kSigmaW;
  o.sigma_b = kSigmaB;
  o.width_factor_in = factor;
  o.width_factor_out = factor;
  return o;
}

/// A row of the paper's table for n_l = `width`, n_m = 6: what is drawn, and the factors on it.
struct Row {
  double drawn, factor, drawn_bias, factor_bias;
};
Row table(Parametrization parametrization, double width, double s) {
  switch (parametrization) {
    case Parametrization::kStandard:
      return {kSigmaW / std::sqrt(s * width * 6), 1, kSigmaB, 1};
    case Parametrization::kNtk:
      return {1, kSigmaW / std::sqrt(s * width * 6), 1, kSigmaB};
    default:
      return {kSigmaW / std::sqrt(width * 6), 1 / std::sqrt(s), kSigmaB, 1};
  }
}

/// Against N(0, deviation²): mean, variance and fourth moment (3 for a normal distribution) within
/// five of their own standard deviations, √(1/N), √(2/N) and √(96/N).
void expect_normal(const Tensor& sample, double deviation) {
  const Tensor z = sample.detach() / deviation;
  const auto n = static_cast<double>(z.numel());
  EXPECT_NEAR(z.mean().item<double>(), 0, 5 * std::sqrt(1 / n));
  EXPECT_NEAR(z.square().mean().item<double>(), 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 5 * std::sqrt(96 / n));
}

TEST(Conv2d, DrawsAsThePapersTable) {
  for (const auto parametrization : kAll) {
    for (int64_t s : {1, 4}) {
      SCOPED_TRACE(testing::Message() << to_string(parametrization) << " s " << s);
      Conv2dOptions o = conv_options(parametrization, s);
      o.out_channels = 4000;
      Conv2d layer(o, 3, torch::kFloat64);
      const Row row = table(parametrization, 3, static_cast<double>(s));
      EXPECT_EQ(layer->weight().sizes(), (std::vector<int64_t>{4000 * s, 3 * s, 3, 2}));
      expect_normal(layer->weight(), row.drawn);
      expect_normal(layer->bias(), row.drawn_bias);
    }
  }
}

/// Output by output: nothing of LibTorch's convolution in it.
Tensor direct_convolution(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  constexpr int64_t kSides = 2;  // that are padded
  const int64_t height = (x.size(2) + kSides * 1 - 3) / 2 + 1;
  const int64_t width = (x.size(3) + kSides * 2 - 2) / 1 + 1;
  Tensor y = torch::zeros({x.size(0), weight.size(0), height, width}, torch::kFloat64);
  const auto in = x.accessor<double, 4>();
  const auto w = weight.accessor<double, 4>();
  auto out = y.accessor<double, 4>();
  for (int64_t r = 0; r < y.size(0); ++r) {
    for (int64_t c = 0; c < y.size(1); ++c) {
      for (int64_t i = 0; i < height; ++i) {
        for (int64_t j = 0; j < width; ++j) {
          double sum = bias.defined() ? bias[c].item<double>() : 0;
          for (int64_t k = 0; k < x.size(1); ++k) {
            for (int64_t a = 0; a < 3; ++a) {
              for (int64_t b = 0; b < 2; ++b) {
                const int64_t row = 2 * i + a - 1;
                const int64_t column = j + b - 2;
                if (row < 0 || row >= x.size(2) || column < 0 || column >= x.size(3)) continue;
                sum += w[c][k][a][b] * in[r][k][row][column];
              }
            }
          }
          out[r][c][i][j] = sum;
        }
      }
    }
  }
  return y;
}

TEST(Conv2d, ForwardIsTheConvolutionWithScaledParameters) {
  for (const auto parametrization : kAll) {
    for (int64_t s : {1, 4}) {
      for (bool bias : {true, false}) {
        SCOPED_TRACE(testing::Message()
                     << to_string(parametrization) << " s " << s << " bias " << bias);
        Conv2dOptions o = conv_options(parametrization, s);
        o.bias = bias;
        Conv2d layer(o, 4, torch::kFloat64);
        EXPECT_EQ(layer->parameters().size(), bias ? 2u : 1u);
        torch::manual_seed(1);
        const Tensor x = torch::randn({2, 3 * s, 6, 5}, torch::kFloat64);
        const Row row = table(parametrization, 3, static_cast<double>(s));
        const Tensor y =
            direct_convolution(x, (layer->weight() * row.factor).detach(),
                               bias ? (layer->bias() * row.factor_bias).detach() : Tensor());
        const Tensor out = layer->forward(x);
        ASSERT_EQ(out.sizes(), y.sizes());
        EXPECT_LE(relative_error(out, y), 1e-13);
      }
    }
  }
}

TEST(Conv2d, ImprovedEqualsStandardAtFactorOne) {
  const Tensor x = torch::randn({2, 3, 6, 5});
  const auto outputs = [&](Parametrization parametrization, uint64_t seed) {
    return Conv2d(conv_options(parametrization, 1), seed)->forward(x);
  };
  const Tensor standard = outputs(Parametrization::kStandard, 5);
  EXPECT_TRUE(torch::equal(standard, outputs(Parametrization::kImproved, 5)));
  EXPECT_TRUE(torch::equal(standard, outputs(Parametrization::kStandard, 5)));
  EXPECT_FALSE(torch::equal(standard, outputs(Parametrization::kStandard, 6)));
}

TEST(Conv2d, SameEffectiveWeightsGiveTheSameOutputs) {
  const Tensor x = torch::randn({2, 12, 6, 5}, torch::kFloat64);
  Conv2d standard(conv_options(Parametrization::kStandard, 4), 7, torch::kFloat64);
  const Tensor expected = standard->forward(x);
  for (const auto parametrization : {Parametrization::kNtk, Parametrization::kImproved}) {
    SCOPED_TRACE(to_string(parametrization));
    // One seed draws the same normal numbers, so that the effective weights agree as they are …
    Conv2d layer(conv_options(parametrization, 4), 7, torch::kFloat64);
    EXPECT_LE(relative_error(layer->forward(x), expected), 1e-13);
    // … and where they are copied from another network.
    Conv2d copy(conv_options(parametrization, 4), 8, torch::kFloat64);
    const Row row = table(parametrization, 3, 4);
    {
      const torch::NoGradGuard no_grad;
      copy->weight().copy_(standard->weight() / row.factor);
      copy->bias().copy_(standard->bias() / row.factor_bias);
    }
    EXPECT_LE(relative_error(copy->forward(x), expected), 1e-13);
  }
}

TEST(Conv2d, IsTheSameLayerInEitherPrecision) {
  Conv2d narrow(conv_options(Parametrization::kStandard, 1), 9);
  Conv2d wide(conv_options(Parametrization::kStandard, 1), 9, torch::kFloat64);
  EXPECT_EQ(narrow->weight().scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(narrow->weight(), wide->weight().to(torch::kFloat32)));
  EXPECT_TRUE(torch::equal(narrow->bias(), wide->bias().to(torch::kFloat32)));
  // Layers that share a generator go on where the one before stopped.
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(9);
  Conv2d first(conv_options(Parametrization::kStandard, 1), generator);
  Conv2d second(conv_options(Parametrization::kStandard, 1), generator);
  EXPECT_TRUE(torch::equal(first->weight(), narrow->weight()));
  EXPECT_FALSE(torch::equal(second->weight(), narrow->weight()));
}

/// Two convolutions and a dense layer, widened inside.
struct ConvNet : torch::nn::Module {
  Conv2d first{nullptr}, second{nullptr};
  nn::Mlp last{nullptr};

  explicit ConvNet(Parametrization parametrization) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(2);
    Conv2dOptions o = conv_options(parametrization, 2);
    o.width_factor_in = 1;
    first = Conv2d(o, generator, torch::kFloat64);
    o = conv_options(parametrization, 2);
    o.in_channels = 5;
    o.out_channels = 2;
    o.width_factor_out = 1;
    second = Conv2d(o, generator, torch::kFloat64);
    nn::MlpOptions dense;
    dense.inputs = int64_t{2} * 2 * 11;
    dense.outputs = 2;
    dense.parametrization = parametrization;
    last = nn::Mlp(dense, 3, torch::kFloat64);
    register_module("last", last);
    register_module("second", second);
    register_module("first", first);
  }
  Tensor forward(const Tensor& x) {
    return last->forward(second->forward(first->forward(x).tanh()).tanh().flatten(1));
  }
};

TEST(Conv2d, KernelOfANetworkEqualsBruteForce) {
  for (const auto parametrization : kAll) {
    SCOPED_TRACE(to_string(parametrization));
    const auto net = std::make_shared<ConvNet>(parametrization);
    const auto parameters = net->parameters();
    ASSERT_EQ(parameters.size(), 6u);
    EXPECT_TRUE(parameters[0].is_same(net->last->weight(0)));
    EXPECT_TRUE(parameters[4].is_same(net->first->weight()));
    EXPECT_TRUE(parameters[5].is_same(net->first->bias()));
    torch::manual_seed(6);
    const Tensor x = torch::randn({5, 3, 6, 5}, torch::kFloat64);
    const test::Network plain{
        "", parameters, [&](const auto&, const Tensor& in) { return net->forward(in); }, {}};
    const Tensor J = test::brute_force_jacobian(plain, x);
    EXPECT_GT(J.norm().item<double>(), 0);
    EXPECT_LE(relative_error(kernel::empirical_ntk(net, x).theta, J.mm(J.t())),
              test::tol::kKernel64);
  }
}

TEST(Conv2d, RefusesBadOptionsAndInputs) {
  const auto refused = [](const std::string& why,
                          const std::function<void(Conv2dOptions&)>& spoil) {
    Conv2dOptions o = conv_options(Parametrization::kStandard, 1);
    spoil(o);
    EXPECT_THAT([&] { Conv2d(o, 1); }, ThrowsMessage<InvalidArgument>(HasSubstr(why)));
  };
  refused("input channels must be 1 or more, got 0", [](auto& o) { o.in_channels = 0; });
  refused("output channels must be 1 or more, got -2", [](auto& o) { o.out_channels = -2; });
  refused("kernel size must be 1 or more, got 0", [](auto& o) { o.kernel_size = {3, 0}; });
  refused("stride must be 1 or more, got 0", [](auto& o) { o.stride = {0, 1}; });
  refused("padding must be 0 or more, got -1", [](auto& o) { o.padding = -1; });
  refused("the input's width factor", [](auto& o) { o.width_factor_in = 0; });
  refused("the output's width factor", [](auto& o) { o.width_factor_out = 0; });
  refused("sigma_w", [](auto& o) { o.sigma_w = -1; });
  refused("sigma_b", [](auto& o) { o.sigma_b = NAN; });
  EXPECT_THAT([] { Conv2d(conv_options(Parametrization::kStandard, 1), at::Generator()); },
              ThrowsMessage<InvalidArgument>(HasSubstr("CPU generator")));

  Conv2d layer(conv_options(Parametrization::kStandard, 2), 1);
  const auto input = [&](std::vector<int64_t> shape, const std::string& why) {
    EXPECT_THAT([&] { layer->forward(torch::ones(shape)); },
                ThrowsMessage<InvalidArgument>(HasSubstr(why)));
  };
  input({6, 6, 5}, "6 channels; the inputs have shape [6, 6, 5]");
  input({2, 3, 6, 5}, "6 channels; the inputs have shape [2, 3, 6, 5]");
  input({2, 6, 0, 5}, "must fit");
  EXPECT_NO_THROW(layer->forward(torch::ones({2, 6, 1, 5})));
}

TEST(LayerScaling, RefusesAnEmptyFanIn) {
  const auto refused = [](const nn::FanIn& fan_in, double sigma) {
    EXPECT_THROW(nn::layer_scaling(Parametrization::kNtk, fan_in, sigma, 1), InvalidArgument);
  };
  refused({.width = 0}, 1);
  refused({.positions = 0}, 1);
  refused({.factor = 0}, 1);
  refused({}, -1);
  EXPECT_NO_THROW(nn::layer_scaling(Parametrization::kNtk, {}, 1, 1));
}

}  // namespace
}  // namespace cdt
