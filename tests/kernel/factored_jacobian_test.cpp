// A kernel and products with J from one factorization: against brute force and the kernel by
// itself; and what is left out where somebody vouches for the model.
#include <cdt/core/error.h>
#include <cdt/kernel/factor/factored_jacobian.h>
#include <cdt/kernel/product/operator.h>
#include <gmock/gmock.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using kernel::FactoredJacobian;
using test::kDouble;
using test::relative_error;
using torch::Tensor;

TEST(FactoredJacobian, IsTheJacobian) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    torch::manual_seed(seed);
    auto networks = test::tricky_networks(kDouble);  // some of them by rows of the Jacobian
    networks.push_back(test::mlp(3, 2, true, true, false, kDouble));
    for (const auto& net : networks) {
      SCOPED_TRACE(net.name);
      const auto model = net.model();
      const Tensor x = test::inputs(5, net, kDouble);
      const Tensor J = test::brute_force_jacobian(net, x);
      const Tensor u = torch::randn({J.size(1)}, kDouble), v = torch::randn({J.size(0)}, kDouble);
      const FactoredJacobian found(model, x);
      EXPECT_TRUE(found.by_factors());
      EXPECT_TRUE(torch::equal(found.theta(), kernel::empirical_ntk(model, x).theta));
      EXPECT_LE(relative_error(found.theta(), J.mm(J.t())), test::tol::kKernel64);
      EXPECT_LE(relative_error(found.push_forward(u), J.mv(u)), test::tol::kKernel64);
      EXPECT_LE(relative_error(found.pull_back(v), J.t().mv(v)), test::tol::kKernel64);
    }
  }
}

TEST(FactoredJacobian, HasTheDigitsOfItsVectors) {
  torch::manual_seed(4);
  const auto net = test::mlp(3, 1, true, true, false, torch::kFloat32);
  const Tensor x = test::inputs(30, net, torch::kFloat32);
  const FactoredJacobian found(net.model(), x);
  const Tensor J = test::brute_force_jacobian(net, x).to(torch::kFloat64);
  const Tensor u = torch::randn({J.size(1)}, kDouble), v = torch::randn({30}, kDouble);
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    EXPECT_EQ(found.push_forward(u.to(dtype)).scalar_type(), dtype);
    EXPECT_EQ(found.pull_back(v.to(dtype)).scalar_type(), dtype);
    EXPECT_LE(relative_error(found.push_forward(u.to(dtype)), J.mv(u)), test::tol::kKernel32);
    EXPECT_LE(relative_error(found.pull_back(v.to(dtype)), J.t().mv(v)), test::tol::kKernel32);
  }
  // ⟨v, Ju⟩ = ⟨Jᵀv, u⟩ of the same factors, to float64's digits.
  const double there = torch::dot(v, found.push_forward(u)).item<double>();
  const double back = torch::dot(found.pull_back(v), u).item<double>();
  EXPECT_NEAR(there, back,
              1e-12 * v.norm().item<double>() * found.push_forward(u).norm().item<double>());
}

TEST(FactoredJacobian, GoesOnWhereFactorsDoNotFit) {
  torch::manual_seed(5);
  const auto net = test::mlp(3, 2, true, true, false, kDouble);
  const Tensor x = test::inputs(60, net, kDouble);
  kernel::NtkOptions little;
  little.memory_bytes = int64_t{1} << 16;
  const FactoredJacobian found(net.model(), x, little);
  ASSERT_FALSE(found.by_factors());
  const Tensor J = test::brute_force_jacobian(net, x);
  const Tensor u = torch::randn({J.size(1)}, kDouble), v = torch::randn({J.size(0)}, kDouble);
  EXPECT_LE(relative_error(found.push_forward(u), J.mv(u)), test::tol::kKernel64);
  EXPECT_LE(relative_error(found.pull_back(v), J.t().mv(v)), test::tol::kKernel64);
}

TEST(FactoredJacobian, TakesVectorsOfItsSizesOnly) {
  torch::manual_seed(6);
  const auto net = test::mlp(2, 1, true, true, false, kDouble);
  const FactoredJacobian found(net.model(), test::inputs(4, net, kDouble));
  EXPECT_THROW(found.push_forward(torch::zeros({3}, kDouble)), InvalidArgument);
  EXPECT_THROW(found.pull_back(torch::zeros({5}, kDouble)), InvalidArgument);
  EXPECT_THROW(found.pull_back(torch::zeros({4}, torch::kFloat32)), InvalidArgument);
}

/// How often the model's function was called, which a self-check does once more for a sample alone.
struct Counted {
  test::Network net = test::mlp(3, 1, true, true, false, kDouble);
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  std::shared_ptr<bool> turned = std::make_shared<bool>(false);
  kernel::Model model{[net = net, calls = calls, turned = turned](const Tensor& x) {
                        ++*calls;
                        const Tensor y = net.forward(net.parameters, x);
                        return *turned ? y * net.parameters.front().exp().mean() : y;
                      },
                      net.parameters};
};

TEST(TrustedKernel, IsTheSameOnceOneHasBeenChecked) {
  torch::manual_seed(7);
  const Counted counted;
  kernel::NtkOptions trusted;
  trusted.trusted = true;
  const auto with = [&](const kernel::NtkOptions& options, const Tensor& x) {
    *counted.calls = 0;
    return kernel::empirical_ntk(counted.model, x, options);
  };
  const Tensor x = test::inputs(12, counted.net, kDouble);
  const auto first = with(trusted, x);  // nothing is known of the model: it is checked
  EXPECT_GT(first.self_check, 0);
  const auto next = with(trusted, test::inputs(12, counted.net, kDouble));
  EXPECT_EQ(*counted.calls, 1);
  EXPECT_EQ(next.self_check, 0);
  EXPECT_TRUE(torch::equal(with(trusted, x).theta, first.theta));
  EXPECT_TRUE(torch::equal(with({}, x).theta, first.theta));
  EXPECT_EQ(*counted.calls, 2);
  EXPECT_GT(with(trusted, test::inputs(13, counted.net, kDouble)).self_check, 0);  // another shape
}

/// What an operator has learned of a model serves the next one; a model that is another meanwhile
/// is looked at again.
TEST(OperatorPlans, AreOfTheModelAsItIs) {
  torch::manual_seed(8);
  const Counted counted;
  const Tensor x = test::inputs(12, counted.net, kDouble);
  const Tensor v = torch::randn({12}, kDouble);
  const auto calls_of = [&] {
    *counted.calls = 0;
    const kernel::NtkOperator theta(counted.model, x);
    return *counted.calls;
  };
  const auto product = [&] { return kernel::NtkOperator(counted.model, x).apply(v); };
  const auto expected = [&] {
    const Tensor y = counted.model.forward(x).reshape({-1});
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < 12; ++i) {
      rows.push_back(kernel::flatten(
          counted.model, torch::autograd::grad({y[i]}, counted.model.parameters(), {}, true)));
    }
    const Tensor J = torch::stack(rows);
    return J.mv(J.t().mv(v));
  };
  const int first = calls_of();
  const Tensor before = product();
  EXPECT_LT(calls_of(), first);
  EXPECT_TRUE(torch::equal(product(), before));
  EXPECT_LE(relative_error(before, expected()), test::tol::kKernel64);
  *counted.turned = true;  // no rule covers it any more
  EXPECT_LE(relative_error(product(), expected()), test::tol::kKernel64);
  *counted.turned = false;
  EXPECT_LE(relative_error(product(), expected()), test::tol::kKernel64);
}

}  // namespace
}  // namespace cdt
