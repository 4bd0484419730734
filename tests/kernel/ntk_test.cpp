// rules = Jacobian = operator = brute force, on every network of networks.h.
#include <cdt/core/error.h>
#include <cdt/dynamics/lanczos.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/operator.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include "kernel/all_ways.h"
#include "kernel/networks.h"
#include "kernel/random_network.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using kernel::empirical_ntk;
using kernel::NtkOptions;
using test::expect_all_ways_agree;
using test::relative_error;
using torch::Tensor;

TEST(EmpiricalNtk, AllWaysAgreeOnMlps) {
  for (const auto& device : test::devices()) {
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      const auto options = torch::TensorOptions().dtype(dtype).device(device);
      for (int depth = 1; depth <= 6; ++depth) {
        for (int choice = 0; choice < 16; ++choice) {
          torch::manual_seed(16 * depth + choice);
          const auto chosen = [choice](int bit) { return (choice >> bit) % 2 == 1; };
          expect_all_ways_agree(test::mlp(depth, chosen(0) ? 3 : 1, /*bias=*/chosen(1),
                                          /*scaled=*/chosen(2), /*in_place=*/chosen(3), options),
                                options);
        }
      }
    }
  }
}

TEST(EmpiricalNtk, AllWaysAgreeOnTrickyNetworks) {
  for (const auto& device : test::devices()) {
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      const auto options = torch::TensorOptions().dtype(dtype).device(device);
      torch::manual_seed(11);
      for (const auto& net : test::tricky_networks(options)) expect_all_ways_agree(net, options);
    }
  }
}

TEST(EmpiricalNtk, AllWaysAgreeOnRandomNetworks) {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    torch::manual_seed(seed);
    expect_all_ways_agree(test::random_network(seed, torch::kFloat64), torch::kFloat64);
  }
}

TEST(EmpiricalNtk, AllWaysAgreeWithUnusedParameters) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    torch::manual_seed(12);
    const auto p = [dtype](torch::IntArrayRef shape) { return test::parameter(shape, dtype); };
    test::Network net{"unused parameters, one of them computed with",
                      {p({6, 4}), p({4, 4}), p({2, 6}), p({3})},
                      [](const std::vector<Tensor>& w, const Tensor& x) {
                        torch::linear(x, w[1]);
                        return torch::linear(torch::linear(x, w[0]).tanh(), w[2]);
                      },
                      {4}};
    net.all_by_rule = false;
    expect_all_ways_agree(net, dtype);
  }
}

TEST(EmpiricalNtk, BlocksUnderAMemoryBudgetGiveTheSameKernel) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  torch::manual_seed(5);
  auto nets = test::tricky_networks(options);
  nets.push_back(test::mlp(4, 2, true, true, true, options));
  for (const auto& net : nets) {
    SCOPED_TRACE(net.name);
    const Tensor x = test::inputs(23, net, options);
    const auto whole = empirical_ntk(net.model(), x);
    NtkOptions small;
    const auto cost = kernel::cost_per_sample(net.model(), x, {});
    small.memory_bytes =
        5 * cost.bytes(cost.outputs.size(1), 2);  // five samples, two blocks at a time
    int64_t pairs = 0;
    int64_t expected = 0;
    small.progress = [&](int64_t done, int64_t total) {
      pairs = done;
      expected = total;
    };
    const auto blocked = empirical_ntk(net.model(), x, small);
    EXPECT_GT(pairs, 1) << "the budget did not force blocks";
    EXPECT_EQ(pairs, expected);
    EXPECT_LE(relative_error(blocked.theta, whole.theta), test::tol::kKernel64);
    const Tensor other = test::inputs(9, net, options);
    EXPECT_LE(relative_error(empirical_ntk(net.model(), x, other, small).theta,
                             empirical_ntk(net.model(), x, other).theta),
              test::tol::kKernel64);
  }
}

TEST(EmpiricalNtk, BlocksOfOutputsGiveTheSameKernel) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  torch::manual_seed(15);
  auto nets = test::tricky_networks(options);
  nets.push_back(test::mlp(3, 5, true, true, true, options));
  int cut = 0;
  for (const auto& net : nets) {
    SCOPED_TRACE(net.name);
    const Tensor x = test::inputs(4, net, options);
    const Tensor J = test::brute_force_jacobian(net, x);
    const Tensor other = test::inputs(3, net, options);
    const Tensor J_other = test::brute_force_jacobian(net, other);
    NtkOptions small;
    // Rows or pairs of positions, by the number of samples; and what refuted rules would cost.
    std::vector<kernel::FactorCost> costs;
    for (const int64_t samples : {4, 7}) {
      kernel::FactorOptions factors;
      factors.samples = samples;
      factors.all_by_jacobian = !net.all_by_rule;
      costs.push_back(kernel::cost_per_sample(net.model(), x, factors));
    }
    const int64_t width = costs[0].outputs.size(1);
    for (const int64_t outputs : {int64_t{1}, (width + 1) / 2}) {
      small.memory_bytes = std::max(costs[0].bytes(outputs, 2), costs[1].bytes(outputs, 2));
      int64_t pairs = 0;
      small.progress = [&](int64_t /*done*/, int64_t total) { pairs = total; };
      const auto blocked = empirical_ntk(net.model(), x, small);
      EXPECT_LE(relative_error(blocked.theta, J.mm(J.t())), test::tol::kKernel64);
      EXPECT_TRUE(torch::equal(blocked.theta, blocked.theta.t()));
      EXPECT_EQ(blocked.outputs.sizes(), (std::vector<int64_t>{4, width}));
      cut += pairs > 4 * 5 / 2 ? 1 : 0;  // more than samples alone would give
      EXPECT_LE(
          relative_error(empirical_ntk(net.model(), x, other, small).theta, J.mm(J_other.t())),
          test::tol::kKernel64);
      const double trace = J.square().sum().item<double>();
      EXPECT_NEAR(kernel::ntk_trace(net.model(), x, small), trace, test::tol::kKernel64 * trace);
    }
  }
  EXPECT_GT(cut, 10) << "the budgets did not force blocks of outputs";
}

TEST(EmpiricalNtk, LargerThanOneBlockOfTheTriangle) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  torch::manual_seed(6);
  const auto net = test::mlp(3, 2, true, false, false, options);
  const Tensor x = test::inputs(401, net, options);  // odd, so that halves differ
  const Tensor J = test::brute_force_jacobian(net, x);
  EXPECT_LE(relative_error(empirical_ntk(net.model(), x).theta, J.mm(J.t())), test::tol::kKernel64);
}

TEST(EmpiricalNtk, OneTinyStepMovesTheOutputsByTheKernel) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const auto net = test::mlp(3, 2, true, true, false, options);
    const Tensor x = test::inputs(9, net, options);
    const auto before = empirical_ntk(net.model(), x);
    const Tensor y = torch::randn({9, 2}, options);
    const Tensor error = before.outputs - y;
    // mse: c_L = 2/n
    const double rate = 1e-7;
    const auto loss = torch::mse_loss(net.forward(net.parameters, x), y);
    const auto gradients = torch::autograd::grad({loss}, net.parameters);
    {
      const torch::NoGradGuard no_grad;
      for (size_t k = 0; k < gradients.size(); ++k) net.parameters[k].sub_(gradients[k] * rate);
    }
    const Tensor moved = net.forward(net.parameters, x).detach() - before.outputs;
    const Tensor promised = -(rate * 2 / 18) * before.theta.mv(error.reshape({-1}));
    EXPECT_LE(relative_error(moved.reshape({-1}), promised), test::tol::kFirstOrder);
  }
}

TEST(EmpiricalNtk, TakesTorchModules) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::ReLU(torch::nn::ReLUOptions(true)),
                            torch::nn::Linear(8, 2));
  net->to(torch::kFloat64);
  const Tensor x = torch::randn({6, 4}, torch::kFloat64);
  test::Network plain{
      "", net->parameters(), [&](const auto&, const Tensor& in) { return net->forward(in); }, {4}};
  const Tensor J = test::brute_force_jacobian(plain, x);
  const auto ntk = empirical_ntk(net, x);
  EXPECT_LE(relative_error(ntk.theta, J.mm(J.t())), test::tol::kKernel64);
  for (const auto& parameter : ntk.coverage) EXPECT_EQ(parameter.coverage, kernel::Coverage::kRule);

  torch::nn::Linear layer(4, 1);
  EXPECT_EQ(empirical_ntk(*layer, torch::randn({3, 4})).theta.size(0), 3);

  // A module on rank-3 input arrives as matmul and an in-place addition.
  torch::nn::Sequential tokens(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1),
                               torch::nn::Flatten(), torch::nn::Linear(5, 2));
  tokens->to(torch::kFloat64);
  const Tensor sequence = torch::randn({6, 5, 4}, torch::kFloat64);
  test::Network rank3{"",
                      tokens->parameters(),
                      [&](const auto&, const Tensor& in) { return tokens->forward(in); },
                      {}};
  const Tensor J3 = test::brute_force_jacobian(rank3, sequence);
  const auto ntk3 = empirical_ntk(tokens, sequence);
  EXPECT_LE(relative_error(ntk3.theta, J3.mm(J3.t())), test::tol::kKernel64);
  for (const auto& parameter : ntk3.coverage)
    EXPECT_EQ(parameter.coverage, kernel::Coverage::kRule);
}

TEST(EmpiricalNtk, DoesNotMindANoGradGuard) {
  torch::manual_seed(12);
  const auto options = torch::TensorOptions().dtype(torch::kFloat64);
  const auto net = test::mlp(3, 2, true, true, false, options);
  const Tensor x = test::inputs(5, net, options);
  const Tensor J = test::brute_force_jacobian(net, x);
  const Tensor v = torch::randn({10}, options);
  const torch::NoGradGuard no_grad;
  NtkOptions rows;
  rows.path = NtkOptions::Path::kJacobian;
  EXPECT_LE(relative_error(empirical_ntk(net.model(), x).theta, J.mm(J.t())), test::tol::kKernel64);
  EXPECT_LE(relative_error(empirical_ntk(net.model(), x, rows).theta, J.mm(J.t())),
            test::tol::kKernel64);
  EXPECT_LE(relative_error(kernel::NtkOperator(net.model(), x).apply(v),
                           J.mm(J.t().mv(v).unsqueeze(1)).squeeze(1)),
            test::tol::kKernel64);
  EXPECT_LE(relative_error(kernel::jacobian_vector_product(net.model(), x, J.t().mv(v)),
                           J.mv(J.t().mv(v))),
            test::tol::kKernel64);
}

TEST(EmpiricalNtk, AccumulatesInFloat32OnRequest) {
  torch::manual_seed(4);
  const auto net = test::mlp(3, 1, true, false, false, torch::kFloat32);
  const Tensor x = test::inputs(7, net, torch::kFloat32);
  NtkOptions narrow;
  narrow.accumulate = torch::kFloat32;
  const auto ntk = empirical_ntk(net.model(), x, narrow);
  EXPECT_EQ(ntk.theta.scalar_type(), torch::kFloat32);
  EXPECT_LE(relative_error(ntk.theta, empirical_ntk(net.model(), x).theta), test::tol::kKernel32);
  narrow.accumulate = torch::kFloat16;
  EXPECT_THROW(empirical_ntk(net.model(), x, narrow), InvalidArgument);
}

TEST(EmpiricalNtk, ProductsOfFloat32FactorsAccumulateInFloat64) {
  // The Jacobian of a linear layer is its inputs: nothing rounds before the products.
  torch::manual_seed(9);
  const Tensor weight = test::parameter({1, 300}, torch::kFloat32);
  const kernel::Model model([&](const Tensor& x) { return torch::linear(x, weight); }, {weight});
  const Tensor x = torch::randn({40, 300});
  const Tensor wide = x.to(torch::kFloat64);
  EXPECT_LE(relative_error(empirical_ntk(model, x).theta, wide.mm(wide.t())), 1e-14);
}

TEST(EmpiricalNtk, TheOperatorByFactorsHasTheDigitsOfTheKernel) {
  torch::manual_seed(10);
  const auto net = test::mlp(4, 2, true, true, false, torch::kFloat32);
  const Tensor x = test::inputs(30, net, torch::kFloat32);
  const Tensor V = torch::randn({60, 4}, torch::kFloat64);
  const auto ntk = empirical_ntk(net.model(), x);
  const kernel::NtkOperator theta(net.model(), x);
  EXPECT_LE(relative_error(theta.apply(V), ntk.theta.mm(V)), test::tol::kKernel64);
  EXPECT_NEAR(theta.trace() / ntk.theta.trace().item<double>(), 1, test::tol::kKernel64);
}

TEST(EmpiricalNtk, LeadingModesFromTheOperatorAloneAreThoseOfTheKernel) {
  torch::manual_seed(20);
  const auto net = test::mlp(3, 2, true, true, false, torch::kFloat32);
  const Tensor x = test::inputs(60, net, torch::kFloat32);
  const Tensor dense = torch::linalg_eigvalsh(empirical_ntk(net.model(), x).theta);
  const int64_t n = dense.size(0);
  const double largest = dense[n - 1].item<double>();
  const kernel::NtkOperator theta(net.model(), x);
  dynamics::LanczosOptions options;
  options.modes = 6;
  options.trace = theta.trace();
  const auto found = dynamics::leading_modes([&](const Tensor& X) { return theta.apply(X); },
                                             theta.size(), options);
  ASSERT_TRUE(found.converged);
  EXPECT_LE((found.modes.values - dense.narrow(0, n - 6, 6)).abs().max().item<double>(),
            1e-9 * largest);
  // The bound on the others holds, and is the trace that they have.
  EXPECT_GE(found.modes.tail_bound, dense[n - 7].item<double>());
  EXPECT_NEAR(found.modes.tail_bound, dense.narrow(0, 0, n - 6).sum().item<double>(),
              1e-9 * largest);
}

TEST(EmpiricalNtk, ADuplicatedSampleIsANullDirectionEvenInFloat32) {
  torch::manual_seed(8);
  const auto net = test::mlp(4, 1, true, false, true, torch::kFloat32);
  Tensor x = test::inputs(6, net, torch::kFloat32);
  x[5].copy_(x[2]);
  const Tensor theta = empirical_ntk(net.model(), x).theta;
  const Tensor eigenvalues = torch::linalg_eigvalsh(theta);
  EXPECT_LE(std::abs(eigenvalues[0].item<double>()) / eigenvalues[5].item<double>(), 1e-14);
  EXPECT_GT(eigenvalues[1].item<double>() / eigenvalues[5].item<double>(), 1e-7);
}

TEST(EmpiricalNtk, TakesInputsInTheModelsPrecision) {
  torch::manual_seed(1);
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    torch::nn::Sequential net(torch::nn::Linear(3, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
    net->to(dtype);
    const Tensor narrow = torch::randn({5, 3});  // the same numbers in both
    const Tensor wide = narrow.to(torch::kFloat64);
    EXPECT_TRUE(torch::equal(kernel::empirical_ntk(net, narrow).theta,
                             kernel::empirical_ntk(net, wide).theta));
    EXPECT_TRUE(torch::equal(kernel::empirical_ntk(net, narrow, wide).theta,
                             kernel::empirical_ntk(net, wide, narrow).theta));
    EXPECT_EQ(kernel::ntk_trace(net, narrow), kernel::ntk_trace(net, wide));
  }
}

}  // namespace
}  // namespace cdt
