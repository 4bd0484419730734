// Jacobian- and Hessian-vector products against finite differences and brute force.
#include <cdt/core/error.h>
#include <cdt/kernel/product/gram.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/record/parameter_scope.h>
#include <gmock/gmock.h>

#include "kernel/operator_networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using test::relative_error;
using torch::Tensor;

using test::kDouble;
using test::shift;

/// (f(θ + h d) − f(θ − h d)) / 2h
template <class F>
Tensor central_difference(const kernel::Model& model, const Tensor& direction, const F& f) {
  constexpr double h = 1e-5;
  shift(model, direction, h);
  const Tensor above = f().detach().clone();
  shift(model, direction, -2 * h);
  const Tensor below = f().detach().clone();
  shift(model, direction, h);
  return (above - below) / (2 * h);
}

class Products : public testing::TestWithParam<uint64_t> {};

TEST_P(Products, AgreeWithFiniteDifferencesAndBruteForce) {
  torch::manual_seed(GetParam());
  const auto net = test::mlp(3, 2, true, true, false, kDouble);  // tanh: smooth
  const auto model = net.model();
  const Tensor x = test::inputs(4, net, kDouble);
  const Tensor u = torch::randn({model.parameter_count()}, kDouble);
  const Tensor v = torch::randn({8}, kDouble);
  const Tensor w = torch::randn({8}, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);

  const Tensor Ju = kernel::jacobian_vector_product(model, x, u);
  EXPECT_LE(relative_error(Ju, J.mv(u)), test::tol::kKernel64);
  EXPECT_LE(relative_error(
                Ju, central_difference(model, u, [&] { return model.forward(x).reshape({-1}); })),
            test::tol::kFiniteDifference);
  EXPECT_LE(relative_error(kernel::vector_jacobian_product(model, x, v), J.t().mv(v)),
            test::tol::kKernel64);

  const Tensor Hu = kernel::hessian_vector_product(model, x, w, u);
  EXPECT_LE(relative_error(
                Hu, central_difference(
                        model, u, [&] { return kernel::vector_jacobian_product(model, x, w); })),
            test::tol::kFiniteDifference);
  // The Hessian of wᵀŷ is symmetric.
  const Tensor u2 = torch::randn_like(u);
  EXPECT_NEAR(torch::dot(u2, Hu).item<double>(),
              torch::dot(u, kernel::hessian_vector_product(model, x, w, u2)).item<double>(),
              test::tol::kKernel64 * Hu.norm().item<double>() * u2.norm().item<double>());

  const kernel::NtkOperator theta(model, x);
  EXPECT_LE(relative_error(theta.apply(v), J.mm(J.t()).mv(v)), test::tol::kKernel64);
  EXPECT_LE(relative_error(theta.apply(w), J.mm(J.t()).mv(w)),
            test::tol::kKernel64);  // the graph serves again
}

INSTANTIATE_TEST_SUITE_P(Seeds, Products, testing::Values(1, 2, 3));

TEST(Products, AgreeOnEveryDevice) {
  for (const auto& device : test::devices()) {
    SCOPED_TRACE(device.str());
    torch::manual_seed(4);
    const auto options = kDouble.device(device);
    const auto net = test::mlp(3, 2, true, true, false, options);
    const auto model = net.model();
    const Tensor x = test::inputs(4, net, options);
    const Tensor u = torch::randn({model.parameter_count()}, kDouble).to(device);
    const Tensor v = torch::randn({8}, kDouble).to(device);
    const Tensor J = test::brute_force_jacobian(net, x);
    const auto expect_near = [](const Tensor& found, const Tensor& expected) {
      EXPECT_LE(relative_error(found, expected), test::tol::kKernel64);
    };
    expect_near(kernel::jacobian_vector_product(model, x, u), J.mv(u));
    expect_near(kernel::vector_jacobian_product(model, x, v), J.t().mv(v));
    expect_near(kernel::NtkOperator(model, x).apply(v), J.mv(J.t().mv(v)));
    // uᵀ(Σ vᵢ∂²ŷᵢ)u two ways
    const double by_product =
        torch::dot(u, kernel::hessian_vector_product(model, x, v, u)).item<double>();
    const double by_form = torch::dot(v, kernel::second_derivative(model, x, u, u)).item<double>();
    EXPECT_NEAR(by_product, by_form, test::tol::kKernel64 * std::abs(by_form));
  }
}

/// A function whose gradient is right, and wrong when it is differentiated again.
struct Skewed : torch::autograd::Function<Skewed> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 1.6};
  }
};
struct WrongTheSecondTime : torch::autograd::Function<WrongTheSecondTime> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {Skewed::apply(gradients[0])};
  }
};

TEST(Products, RefuseAModelThatDifferentiatesWronglyTheSecondTime) {
  torch::manual_seed(5);
  const Tensor first = torch::randn({4, 3}, kDouble).requires_grad_();
  const Tensor second = torch::randn({3, 2}, kDouble).requires_grad_();
  const kernel::Model model(
      [&](const Tensor& x) { return WrongTheSecondTime::apply(x.mm(first)).tanh().mm(second); },
      {first, second});
  const Tensor x = torch::randn({5, 4}, kDouble);
  const auto refused = testing::ThrowsMessage<NumericalError>(testing::HasSubstr("second time"));
  EXPECT_THAT([&] { kernel::jacobian_vector_product(model, x, torch::ones({18}, kDouble)); },
              refused);
  kernel::OperatorOptions options;
  options.path = kernel::OperatorOptions::Path::kGraph;
  EXPECT_THAT([&] { kernel::NtkOperator(model, x, options); }, refused);
  // One backward pass is right, and serves.
  EXPECT_EQ(kernel::vector_jacobian_product(model, x, torch::ones({10}, kDouble)).numel(), 18);
}

TEST(Products, AreRightOrRefusedWhateverTheOperators) {
  torch::manual_seed(6);
  int64_t right = 0;
  for (const auto& net : test::operator_networks(kDouble)) {
    SCOPED_TRACE(net.name);
    const kernel::Model model = net.model();
    const Tensor x = test::inputs(5, net, kDouble);
    const Tensor J = test::brute_force_jacobian(net, x);
    const Tensor u = torch::randn({model.parameter_count()}, kDouble);
    try {
      EXPECT_LE(relative_error(kernel::jacobian_vector_product(model, x, u), J.mv(u)),
                test::tol::kKernel64);
      kernel::OperatorOptions by_graph;
      by_graph.path = kernel::OperatorOptions::Path::kGraph;
      const Tensor v = J.mv(u);
      EXPECT_LE(relative_error(kernel::NtkOperator(model, x, by_graph).apply(v), J.mv(J.t().mv(v))),
                test::tol::kKernel64);
      ++right;
    } catch (const NumericalError&) {
    }
  }
  EXPECT_GT(right, 5);
}

TEST(Products, AModelLinearInItsParametersHasNoCurvature) {
  const Tensor weight = torch::randn({4, 2}, kDouble).requires_grad_();
  const kernel::Model model([&](const Tensor& x) { return x.mm(weight); }, {weight});
  const Tensor x = torch::randn({3, 4}, kDouble);
  EXPECT_EQ(
      kernel::hessian_vector_product(model, x, torch::ones({6}, kDouble), torch::ones({8}, kDouble))
          .abs()
          .max()
          .item<double>(),
      0.0);
}

TEST(Products, RefuseWrongVectors) {
  torch::manual_seed(1);
  const auto net = test::mlp(2, 2, true, false, false, kDouble);
  const auto model = net.model();
  const Tensor x = test::inputs(3, net, kDouble);
  const int64_t P = model.parameter_count();
  EXPECT_THROW(kernel::vector_jacobian_product(model, x, torch::ones({5}, kDouble)),
               InvalidArgument);
  EXPECT_THROW(kernel::vector_jacobian_product(model, x, torch::ones({6})), InvalidArgument);
  EXPECT_THROW(kernel::vector_jacobian_product(model, x, torch::ones({6, 1}, kDouble)),
               InvalidArgument);
  EXPECT_THROW(kernel::jacobian_vector_product(model, x, torch::ones({P + 1}, kDouble)),
               InvalidArgument);
  EXPECT_THROW(kernel::jacobian_vector_product(model, x, torch::full({P}, NAN, kDouble)),
               InvalidArgument);
  EXPECT_THROW(
      kernel::hessian_vector_product(model, x, torch::ones({6}, kDouble), torch::ones({P})),
      InvalidArgument);
  const kernel::NtkOperator theta(model, x);
  EXPECT_THROW(theta.apply(torch::ones({5}, kDouble)), InvalidArgument);
  EXPECT_THROW(theta.apply(torch::ones({5, 2}, kDouble)), InvalidArgument);
  EXPECT_THROW(theta.apply(torch::ones({6, 2, 1}, kDouble)), InvalidArgument);
  EXPECT_THROW(theta.apply(torch::ones({6})), InvalidArgument);
  EXPECT_THROW(theta.apply(torch::full({6, 2}, NAN, kDouble)), InvalidArgument);
  EXPECT_THROW(theta.pull_back(torch::ones({5}, kDouble)), InvalidArgument);
  EXPECT_THROW(theta.push_forward(torch::ones({6}, kDouble)), InvalidArgument);
  EXPECT_THROW(theta.push_forward(torch::full({P}, NAN, kDouble)), InvalidArgument);
  EXPECT_THROW(kernel::parameter_gram(model, x, torch::ones({3, 1, 1}, kDouble)), InvalidArgument);
  EXPECT_THROW(kernel::parameter_gram(model, x, torch::ones({2, 2, 1}, kDouble)), InvalidArgument);
}

TEST(Products, TheOperatorNoticesWhatChangedUnderIt) {
  torch::manual_seed(1);
  const auto net = test::mlp(2, 2, true, false, false, kDouble);
  const auto model = net.model();
  const Tensor v = torch::ones({6}, kDouble);
  for (const int64_t memory : {int64_t{1}, int64_t{1} << 30}) {  // streamed, and with kept graphs
    SCOPED_TRACE(memory);
    const Tensor x = test::inputs(3, net, kDouble);
    kernel::OperatorOptions options;
    options.memory_bytes = memory;
    const kernel::NtkOperator theta(model, x, options);
    EXPECT_NO_THROW(theta.apply(v));
    {
      std::vector<Tensor> elsewhere;
      for (const Tensor& p : model.parameters()) elsewhere.push_back(p.detach() + 1);
      const kernel::ParameterScope there(model, elsewhere);
      EXPECT_THROW(theta.apply(v), InvalidArgument);
    }
    EXPECT_NO_THROW(theta.apply(v));
    shift(model, torch::ones({model.parameter_count()}, kDouble), 0.1);
    EXPECT_THROW(theta.apply(v), InvalidArgument);
    EXPECT_THROW(theta.trace(), InvalidArgument);
    // Factors go on with J of where they were made, graphs do not.
    if (theta.by_factors()) {
      EXPECT_NO_THROW(theta.pull_back(v));
    } else {
      EXPECT_THROW(theta.pull_back(v), InvalidArgument);
    }
    const kernel::NtkOperator again(model, x, options);
    x.mul_(2);
    EXPECT_THROW(again.apply(v), InvalidArgument);
  }
}

}  // namespace
}  // namespace cdt
