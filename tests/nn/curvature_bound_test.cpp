// The bound from above on second derivatives, against the estimate from below.
#include <cdt/kernel/curvature.h>
#include <cdt/nn/curvature_bound.h>
#include <gtest/gtest.h>

namespace cdt::nn {
namespace {

TEST(CurvatureBound, IsAboveWhatAnyClimbFinds) {
  for (const Activation activation :
       {Activation::kTanh, Activation::kGelu, Activation::kSoftplus, Activation::kErf}) {
    for (const Parametrization parametrization :
         {Parametrization::kStandard, Parametrization::kNtk}) {
      for (const uint64_t seed : {1, 2}) {
        SCOPED_TRACE(testing::Message() << to_string(activation) << ", seed " << seed);
        MlpOptions options;
        options.inputs = 3;
        options.hidden = {6, 5};
        options.outputs = 2;
        options.activation = activation;
        options.parametrization = parametrization;
        options.bias = seed == 1;
        const Mlp network(options, seed, torch::kFloat64);
        torch::manual_seed(seed);
        const auto x = torch::randn({4, 3}, torch::kFloat64);
        const double bound = curvature_bound(network, x).value();
        const auto found = kernel::hessian_norm(network, x);
        EXPECT_GE(bound, found.norm);
        EXPECT_LE(bound, 20 * found.norm);  // no sharp bound: 13 times the norm in one of these
      }
    }
  }
}

// ŷ = w φ(v), one unit without bias: ∂² is [[wφ″, φ′], [φ′, 0]], by hand.
TEST(CurvatureBound, OfOneUnitIsTheNorm) {
  MlpOptions options;
  options.inputs = 1;
  options.hidden = {1};
  options.activation = Activation::kTanh;
  options.bias = false;
  const Mlp network(options, 3, torch::kFloat64);
  const auto one = torch::ones({1, 1}, torch::kFloat64);
  const double v = network->weight(0).item<double>(), w = network->weight(1).item<double>();
  const double slope = 1 - std::pow(std::tanh(v), 2), bend = -2 * std::tanh(v) * slope;
  const double a = std::abs(w * bend);
  EXPECT_NEAR(curvature_bound(network, one).value(), (a + std::sqrt(a * a + 4 * slope * slope)) / 2,
              1e-12);
}

TEST(CurvatureBound, IsNoneOverKinksAndZeroOfALinearNetwork) {
  MlpOptions options;
  options.inputs = 3;
  const auto x = torch::ones({2, 3}, torch::kFloat64);
  EXPECT_EQ(curvature_bound(Mlp(options, 1, torch::kFloat64), x).value(), 0);
  options.hidden = {4};
  EXPECT_FALSE(curvature_bound(Mlp(options, 1, torch::kFloat64), x));
}

}  // namespace
}  // namespace cdt::nn
