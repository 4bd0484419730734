/// rules (layer by layer, and together) = Jacobian = operator = brute force, on one network.
#pragma once

#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/gram.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/record/precision_scope.h>
#include <gmock/gmock.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt::test {

inline double kernel_tolerance(const torch::TensorOptions& options) {
  return torch::typeMetaToScalarType(options.dtype()) == torch::kFloat64 ? tol::kKernel64
                                                                         : tol::kKernel32;
}

/// ΘV, JᵀV and JU by the operator: vector by vector and as a block, by factors, by kept graphs, and
/// streamed.
inline void expect_operator_agrees(const Network& net, const Tensor& x, const Tensor& J,
                                   double tolerance) {
  const Tensor expected = J.mm(J.t());
  using kernel::OperatorOptions;
  OperatorOptions graphs;
  graphs.path = OperatorOptions::Path::kGraph;
  OperatorOptions streamed;
  streamed.memory_bytes = 1;  // a sample and a vector at a time
  const Tensor V = torch::randn({J.size(0), 3}, torch::kFloat64).to(x.device());
  const Tensor U = torch::randn({J.size(1), 2}, torch::kFloat64).to(x.device());
  for (const auto& options : {OperatorOptions(), graphs, streamed}) {
    SCOPED_TRACE(options.memory_bytes);
    const kernel::NtkOperator theta(net.model(), x, options);
    const bool streams = options.memory_bytes == 1;
    EXPECT_EQ(theta.block_samples(), streams ? 1 : x.size(0));
    if (net.all_by_rule) {
      EXPECT_EQ(theta.by_factors(), !streams && options.path == OperatorOptions::Path::kAuto);
    }
    const Tensor identity = torch::eye(theta.size(), x.options());
    const Tensor found = theta.apply(identity);
    EXPECT_LE(relative_error(found, expected), tolerance);
    EXPECT_EQ(found.scalar_type(), x.scalar_type());
    for (const int64_t i : {int64_t{0}, theta.size() - 1}) {
      EXPECT_LE(relative_error(theta.apply(identity[i]), found.select(1, i)), tolerance);
    }
    EXPECT_LE(relative_error(theta.apply(V), expected.mm(V)), tolerance);
    EXPECT_EQ(theta.apply(V).scalar_type(), torch::kFloat64);
    EXPECT_LE(relative_error(theta.pull_back(V), J.t().mm(V)), tolerance);
    EXPECT_LE(relative_error(theta.pull_back(V.select(1, 1)), J.t().mv(V.select(1, 1))), tolerance);
    EXPECT_LE(relative_error(theta.push_forward(U), J.mm(U)), tolerance);
    EXPECT_LE(relative_error(theta.push_forward(U.select(1, 1)), J.mv(U.select(1, 1))), tolerance);
    EXPECT_EQ(theta.pull_back(identity[0]).scalar_type(), x.scalar_type());
  }
  const double trace = expected.trace().item<double>();
  EXPECT_NEAR(kernel::NtkOperator(net.model(), x).trace(), trace, tolerance * trace);
}

inline void expect_all_ways_agree(const Network& net, const torch::TensorOptions& options) {
  SCOPED_TRACE(testing::Message() << net.name << " in " << options);
  const kernel::FullPrecisionScope full_precision;  // of what is expected, too: no TF32
  const double tolerance = kernel_tolerance(options);
  const Tensor x = inputs(7, net, options);
  const Tensor J = brute_force_jacobian(net, x);
  const Tensor expected = J.mm(J.t());

  const auto by_rules = kernel::empirical_ntk(net.model(), x);
  EXPECT_LE(relative_error(by_rules.theta, expected), tolerance) << by_rules.brief_report();
  EXPECT_EQ(by_rules.theta.scalar_type(), torch::kFloat64);
  EXPECT_TRUE(torch::equal(by_rules.theta, by_rules.theta.t()));
  EXPECT_GE(torch::linalg_eigvalsh(by_rules.theta.cpu())[0].item<double>(),
            -tolerance * expected.norm().item<double>());
  EXPECT_LE(
      relative_error(by_rules.outputs.reshape({-1}), net.forward(net.parameters, x).reshape({-1})),
      tolerance);
  for (const auto& parameter : by_rules.coverage) {
    if (net.all_by_rule) {
      EXPECT_EQ(parameter.coverage, kernel::Coverage::kRule) << parameter.reason;
    }
    // The self-check is a net to fall into, not a way to decide.
    EXPECT_THAT(parameter.reason, testing::Not(testing::HasSubstr("self-check")));
  }

  using Layers = kernel::NtkOptions::Layers;
  for (const Layers layers : {Layers::kOneByOne, Layers::kTogether}) {
    kernel::NtkOptions products;
    products.layers = layers;
    EXPECT_LE(relative_error(kernel::empirical_ntk(net.model(), x, products).theta, expected),
              tolerance);
  }

  kernel::NtkOptions rows;
  rows.path = kernel::NtkOptions::Path::kJacobian;
  EXPECT_LE(relative_error(kernel::empirical_ntk(net.model(), x, rows).theta, expected), tolerance);
  expect_operator_agrees(net, x, J, tolerance);

  // JᵀSSᵀJ [P, P], of networks whose P that allows.
  constexpr int64_t kMostParameters = 2000;
  if (J.size(1) <= kMostParameters) {
    const int64_t width = J.size(0) / x.size(0);
    const Tensor S = torch::randn({x.size(0), width, 2}, torch::kFloat64).to(x.device());
    const Tensor rows_of_S =
        S.transpose(1, 2).bmm(J.view({x.size(0), width, -1})).reshape({-1, J.size(1)});
    const Tensor gram = kernel::parameter_gram(net.model(), x, S);
    EXPECT_LE(relative_error(gram, rows_of_S.t().mm(rows_of_S)), tolerance);
  }

  // Θ(x, x′)
  const Tensor other = inputs(5, net, options);
  const Tensor J_other = brute_force_jacobian(net, other);
  EXPECT_LE(relative_error(kernel::empirical_ntk(net.model(), x, other).theta, J.mm(J_other.t())),
            tolerance);
}

}  // namespace cdt::test
