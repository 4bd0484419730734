// Kernel rules of convolutions, against Jacobians.
#include <cdt/kernel/factor/factors.h>
#include <torch/nn.h>

#include "kernel/all_ways.h"
#include "kernel/random_convolution.h"

namespace cdt {
namespace {

using kernel::empirical_ntk;
using torch::Tensor;

// Sums of at most some thousand products in float64 on either way, none of which cancels by more
// than a few digits: a thousand roundings of 2⁻⁵³, far within kKernel64 for any order of summation.
TEST(Convolution, AllWaysAgreeOnRandomNetworks) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    torch::manual_seed(seed);
    test::expect_all_ways_agree(test::random_convolution_network(seed, torch::kFloat64),
                                torch::kFloat64);
  }
}

TEST(Convolution, AllWaysAgreeInFloat32AndOnOtherDevices) {
  for (const auto& device : test::devices()) {
    const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
    for (uint64_t seed = 101; seed <= 115; ++seed) {
      torch::manual_seed(seed);
      test::expect_all_ways_agree(test::random_convolution_network(seed, options), options);
    }
  }
}

TEST(Convolution, BothFormsAreUsed) {
  int64_t rows = 0;
  int64_t pairs = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    torch::manual_seed(seed);
    const auto net = test::random_convolution_network(seed, torch::kFloat64);
    const kernel::Model model = net.model();
    kernel::FactorOptions options;
    options.samples = 7;
    kernel::PendingChecks checks;
    const auto factors =
        kernel::factorize(model, test::inputs(7, net, torch::kFloat64), options, checks);
    checks.settle();
    for (const auto& group : factors.groups) {
      if (model.parameters()[group.parameters[0]].dim() < 3) continue;
      (group.rows.defined() ? rows : pairs) += 1;
    }
  }
  EXPECT_GT(rows, 30);
  EXPECT_GT(pairs, 30);
}

// Blocks of samples and of outputs, whichever form a layer has.
TEST(Convolution, BlocksGiveTheSameKernel) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    torch::manual_seed(seed);
    const auto net = test::random_convolution_network(seed, torch::kFloat64);
    SCOPED_TRACE(net.name);
    const Tensor x = test::inputs(9, net, torch::kFloat64);
    const Tensor J = test::brute_force_jacobian(net, x);
    kernel::FactorOptions factors;
    factors.samples = 9;
    const auto cost = kernel::cost_per_sample(net.model(), x, factors);
    for (const int64_t outputs : {1, 2}) {
      kernel::NtkOptions small;
      small.memory_bytes = 2 * cost.bytes(outputs, 2);
      int64_t pairs = 0;
      small.progress = [&](int64_t /*done*/, int64_t total) { pairs = total; };
      const auto ntk = empirical_ntk(net.model(), x, small);
      EXPECT_GT(pairs, 1);
      EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
      const double trace = J.square().sum().item<double>();
      EXPECT_NEAR(kernel::ntk_trace(net.model(), x, small), trace, test::tol::kKernel64 * trace);
    }
  }
}

TEST(Convolution, LayersOfModulesAreCovered) {
  torch::manual_seed(1);
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)),
      torch::nn::ReLU(torch::nn::ReLUOptions(true)), torch::nn::MaxPool2d(2),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).padding(torch::kSame).groups(2)),
      torch::nn::Tanh(), torch::nn::ConvTranspose2d(6, 3, 2), torch::nn::AdaptiveAvgPool2d(2),
      torch::nn::Flatten(), torch::nn::Linear(12, 2));
  net->to(torch::kFloat64);
  const Tensor x = torch::randn({5, 2, 6, 6}, torch::kFloat64);
  const test::Network plain{
      "", net->parameters(), [&](const auto&, const Tensor& in) { return net->forward(in); }, {}};
  const Tensor J = test::brute_force_jacobian(plain, x);
  const auto ntk = empirical_ntk(net, x);
  EXPECT_LE(test::relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
  for (const auto& p : ntk.coverage) EXPECT_EQ(p.coverage, kernel::Coverage::kRule) << p.reason;
}

// Rows are made in the network's precision, for a sample as for its copy: a null direction to the
// last bit of the products, which are float64.
TEST(Convolution, ADuplicatedImageIsANullDirectionEvenInFloat32) {
  torch::manual_seed(2);
  torch::nn::Sequential net(torch::nn::Conv2d(1, 4, 3), torch::nn::ReLU(),
                            torch::nn::Conv2d(4, 8, 3), torch::nn::ReLU(), torch::nn::Flatten(),
                            torch::nn::Linear(128, 1));
  Tensor x = torch::randn({6, 1, 8, 8});
  x[5].copy_(x[2]);
  const Tensor eigenvalues = torch::linalg_eigvalsh(empirical_ntk(net, x).theta);
  EXPECT_LE(std::abs(eigenvalues[0].item<double>()) / eigenvalues[5].item<double>(), 1e-14);
  EXPECT_GT(eigenvalues[1].item<double>() / eigenvalues[5].item<double>(), 1e-7);
}

}  // namespace
}  // namespace cdt
