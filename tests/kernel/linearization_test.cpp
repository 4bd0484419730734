// Every way to a linearization against Jacobian rows by brute force: outputs, products, their being
// each other's transpose, kernel, Gram matrix, trace; what stays when parameters move.
#include <cdt/core/error.h>
#include <cdt/kernel/factor/batched_rows.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/step_engine.h>
#include <gmock/gmock.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using kernel::Linearization;
using kernel::LinearizationOptions;
using kernel::LinearizationPtr;
using test::kDouble;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;
using ProductsBy = LinearizationOptions::Products;

constexpr double kNear = test::tol::kKernel64;

/// Blocks S_i [n_L, k] along a diagonal.
Tensor along_diagonal(const Tensor& S) { return torch::block_diag(S.unbind(0)); }

void expect_products_of(const Linearization& found, const Tensor& J) {
  const Tensor U = torch::randn({J.size(1), 3}, kDouble);
  const Tensor V = torch::randn({J.size(0), 3}, kDouble);
  EXPECT_LE(relative_error(found.push_forward(U), J.mm(U)), kNear);
  EXPECT_LE(relative_error(found.pull_back(V), J.t().mm(V)), kNear);
  EXPECT_LE(relative_error(found.push_forward(U.select(1, 1)), J.mv(U.select(1, 1))), kNear);
  EXPECT_LE(relative_error(found.pull_back(V.select(1, 2)), J.t().mv(V.select(1, 2))), kNear);
  // ⟨JU, V⟩ = ⟨U, JᵀV⟩
  const double there = found.dot(found.push_forward(U), V);
  const double back = (U * found.pull_back(V)).sum().item<double>();
  EXPECT_NEAR(there, back, kNear * J.norm().item<double>() * (U.norm() * V.norm()).item<double>());
}

void expect_is(const Linearization& found, const Tensor& outputs, const Tensor& J) {
  EXPECT_LE(relative_error(found.outputs(), outputs), kNear);
  EXPECT_EQ(found.outputs().sizes(), outputs.sizes());
  EXPECT_EQ(found.outputs().scalar_type(), torch::kFloat64);
  const kernel::Sizes sizes = found.sizes();
  EXPECT_EQ(sizes.samples, outputs.size(0));
  EXPECT_EQ(sizes.outputs, outputs.size(1));
  EXPECT_EQ(sizes.parameters, J.size(1));
  EXPECT_EQ(sizes.size(), J.size(0));
  expect_products_of(found, J);
  const Tensor theta = J.mm(J.t());
  for (int again = 0; again < 2; ++again) {
    const Tensor kernel = found.kernel();
    EXPECT_LE(relative_error(kernel, theta), kNear);
    EXPECT_TRUE(torch::equal(kernel, kernel.t()));
  }
  const Tensor V = torch::randn({J.size(0), 2}, kDouble);
  EXPECT_LE(relative_error(found.kernel_times(V), theta.mm(V)), kNear);
  EXPECT_LE(relative_error(found.kernel_times(V.select(1, 0)), theta.mv(V.select(1, 0))), kNear);
  EXPECT_NEAR(found.trace(), theta.trace().item<double>(), kNear * theta.trace().item<double>());
  const Tensor S = torch::randn({outputs.size(0), outputs.size(1), 2}, kDouble);
  const Tensor rows = along_diagonal(S).t().mm(J);
  EXPECT_LE(relative_error(found.gram(S), rows.t().mm(rows)), kNear);
  EXPECT_LE(relative_error(found.gram(), J.t().mm(J)), kNear);
}

/// No more than what a class of one's own must have.
class Own : public Linearization {
 public:
  Own(Tensor outputs, Tensor J, double wrong = 0)
      : outputs_(std::move(outputs)), J_(std::move(J)), wrong_(wrong) {}
  const Tensor& outputs() const override { return outputs_; }
  torch::ScalarType dtype() const override { return torch::kFloat64; }
  int64_t parameter_count() const override { return J_.size(1); }
  Tensor push_forward(const Tensor& U) const override { return (1 + wrong_) * J_.matmul(U); }
  Tensor pull_back(const Tensor& V) const override { return J_.t().matmul(V); }

 private:
  Tensor outputs_, J_;
  double wrong_;
};

std::vector<test::Network> some_networks() {
  auto networks = test::tricky_networks(kDouble);  // some of them by rows of the Jacobian
  networks.push_back(test::mlp(3, 2, true, true, false, kDouble));
  networks.push_back(test::mlp(2, 6, true, false, false, kDouble));  // products by its graph
  return networks;
}

std::vector<LinearizationOptions> all_ways() {
  std::vector<LinearizationOptions> ways;
  for (const auto products :
       {ProductsBy::kByThemselves, ProductsBy::kWithKernel, ProductsBy::kAnew}) {
    for (const int64_t memory : {int64_t{2} << 30, int64_t{1} << 15}) {
      LinearizationOptions options;
      options.products = products;
      options.kernel.memory_bytes = memory;
      ways.push_back(options);
    }
  }
  return ways;
}

class Linearizations : public testing::TestWithParam<uint64_t> {};

TEST_P(Linearizations, AreTheJacobianInEveryWay) {
  torch::manual_seed(GetParam());
  for (const auto& net : some_networks()) {
    SCOPED_TRACE(net.name);
    const auto model = net.model();
    const Tensor x = test::inputs(5, net, kDouble);
    const Tensor J = test::brute_force_jacobian(net, x);
    const Tensor outputs = net.forward(net.parameters, x).detach().reshape({5, -1});
    {
      SCOPED_TRACE("the default");
      expect_is(*kernel::linearize(model, x), outputs, J);
    }
    for (const LinearizationOptions& options : all_ways()) {
      SCOPED_TRACE(testing::Message() << "products " << static_cast<int>(options.products)
                                      << ", memory " << options.kernel.memory_bytes);
      expect_is(*kernel::linearize(model, x, options), outputs, J);
    }
    {
      SCOPED_TRACE("rows");
      expect_is(*kernel::from_rows(outputs, [&] { return J; }), outputs, J);
    }
    {
      SCOPED_TRACE("a class of one's own");
      expect_is(Own(outputs, J), outputs, J);
    }
    {
      SCOPED_TRACE("residuals of an engine");
      kernel::ResidualEngine engine(model, int64_t{1} << 30);
      expect_is(*engine.linearization(x), outputs, J);
    }
  }
}

TEST_P(Linearizations, GoToOtherSamplesAndFewerOutputs) {
  torch::manual_seed(GetParam());
  const auto net = test::mlp(3, 3, true, true, false, kDouble);
  const Tensor x = test::inputs(6, net, kDouble), other = test::inputs(4, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  const Tensor outputs = net.forward(net.parameters, x).detach();
  const Tensor D = torch::randn({3, 2}, kDouble);
  const Tensor projection = along_diagonal(D.expand({6, 3, 2})).t();
  const LinearizationPtr network = kernel::linearize(net.model(), x);
  EXPECT_TRUE(torch::equal(network->inputs(), x));
  expect_is(*network->at(other, {}), net.forward(net.parameters, other).detach(),
            test::brute_force_jacobian(net, other));
  expect_is(*network->projected(D), outputs.mm(D), projection.mm(J));
  const LinearizationPtr rows = kernel::from_rows(outputs, [&] { return J; });
  expect_is(*rows->projected(D), outputs.mm(D), projection.mm(J));
  EXPECT_FALSE(rows->inputs().defined());
  EXPECT_THROW(rows->at(other, {}), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Linearizations, testing::Values(1, 2, 3));

TEST(Linearization, StaysWhereItWasMade) {
  torch::manual_seed(4);
  for (const int64_t outputs : {2, 6}) {
    for (const LinearizationOptions& options : all_ways()) {
      for (const bool asked : {false, true}) {  // before the parameters move
        SCOPED_TRACE(testing::Message()
                     << outputs << " outputs, products " << static_cast<int>(options.products)
                     << ", asked " << asked);
        const auto net = test::mlp(3, outputs, true, false, false, kDouble);  // graphs hold weights
        const auto model = net.model();
        const Tensor x = test::inputs(5, net, kDouble);
        const Tensor J = test::brute_force_jacobian(net, x);
        const Tensor before = model.forward(x).detach();
        const LinearizationPtr network = kernel::linearize(model, x, options);
        EXPECT_TRUE(network->lasts());
        if (asked) expect_products_of(*network, J);
        test::shift(model, torch::randn({J.size(1)}, kDouble), 1);
        const Tensor moved = model.forward(x).detach();
        expect_is(*network, before, J);
        EXPECT_TRUE(torch::equal(model.forward(x).detach(), moved));
      }
    }
  }
}

TEST(Linearization, MayLastByItsFactorsAlone) {
  torch::manual_seed(5);
  const auto net = test::mlp(3, 1, true, true, false, kDouble);
  const auto model = net.model();
  const Tensor x = test::inputs(5, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  LinearizationOptions options;
  options.keeps_parameters = false;
  std::vector<LinearizationPtr> lasting;
  for (const auto products : {ProductsBy::kByThemselves, ProductsBy::kWithKernel}) {
    options.products = products;
    lasting.push_back(kernel::linearize(model, x, options));
    EXPECT_TRUE(lasting.back()->lasts());
  }
  options.products = ProductsBy::kAnew;
  EXPECT_FALSE(kernel::linearize(model, x, options)->lasts());
  test::shift(model, torch::randn({J.size(1)}, kDouble), 1);
  for (const LinearizationPtr& network : lasting) expect_products_of(*network, J);
}

TEST(Linearization, HasTheDigitsOfItsVectors) {
  torch::manual_seed(6);
  const auto net = test::mlp(3, 1, true, true, false, torch::kFloat32);
  const Tensor x = test::inputs(9, net, torch::kFloat32);
  const Tensor J = test::brute_force_jacobian(net, x);
  const Tensor u = torch::randn({J.size(1)}, kDouble), v = torch::randn({9}, kDouble);
  std::vector<LinearizationPtr> ways{
      kernel::from_rows(net.forward(net.parameters, x), [&] { return J.to(torch::kFloat32); })};
  for (const LinearizationOptions& options : all_ways()) {
    ways.push_back(kernel::linearize(net.model(), x, options));
  }
  for (const LinearizationPtr& network : ways) {
    EXPECT_EQ(network->dtype(), torch::kFloat32);
    for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
      EXPECT_EQ(network->push_forward(u.to(dtype)).scalar_type(), dtype);
      EXPECT_EQ(network->pull_back(v.to(dtype)).scalar_type(), dtype);
      EXPECT_LE(relative_error(network->push_forward(u.to(dtype)), J.mv(u)), test::tol::kKernel32);
      EXPECT_LE(relative_error(network->pull_back(v.to(dtype)), J.t().mv(v)), test::tol::kKernel32);
    }
    EXPECT_THROW(network->push_forward(v), InvalidArgument);
    EXPECT_THROW(network->pull_back(u), InvalidArgument);
    EXPECT_THROW(network->push_forward(u.to(torch::kInt64)), InvalidArgument);
  }
}

/// Residuals as of a differential equation: of second order, over samples, of any shape.
TEST(Residuals, HaveTheRowsOfAutograd) {
  for (const uint64_t seed : {1, 2, 3}) {
    torch::manual_seed(seed);
    for (const int64_t samples : {3, 150}) {  // 6 rows, and 300: more than one block
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", samples " << samples);
      const auto net = test::mlp(3, 1, true, false, false, kDouble);
      auto parameters = net.parameters;
      parameters.push_back(test::parameter({2, 2}, kDouble));  // moves nothing
      const Tensor points = test::inputs(samples, net, kDouble).requires_grad_();
      const auto residuals_of = [&] {
        const Tensor y = net.forward(net.parameters, points);
        const Tensor slope =
            torch::autograd::grad({y.sum()}, {points}, {}, true, /*create_graph=*/true)[0];
        return torch::stack({slope.sum(1) * y.squeeze(1), slope.square().sum(1)});
      };
      const Tensor residuals = residuals_of();
      std::vector<Tensor> expected;
      const Tensor flat = residuals.reshape({-1});
      for (int64_t i = 0; i < flat.size(0); ++i) {
        const auto parts = torch::autograd::grad({flat[i]}, parameters, {}, true, false, true);
        std::vector<Tensor> row;
        for (size_t p = 0; p < parts.size(); ++p) {
          row.push_back((parts[p].defined() ? parts[p] : torch::zeros_like(parameters[p]))
                            .detach()
                            .reshape({-1}));
        }
        expected.push_back(torch::cat(row));
      }
      const Tensor J = torch::stack(expected);
      EXPECT_LE(relative_error(kernel::batched_rows(residuals, parameters, 1 << 30), J), kNear);

      const kernel::Model model(
          [&](const Tensor&) {
            return residuals_of().reshape({1, -1});
          },
          parameters);
      kernel::ResidualEngine engine(model, 1 << 30);
      const LinearizationPtr found = engine.linearization(torch::ones({1}, kDouble));
      EXPECT_LE(relative_error(found->kernel(), J.mm(J.t())), kNear);
      EXPECT_EQ(found->outputs().sizes(), torch::IntArrayRef({1, 2 * samples}));
      expect_products_of(*found, J);
    }
  }
}

TEST(Residuals, MustFitTheMemory) {
  torch::manual_seed(7);
  const auto net = test::mlp(2, 1, true, false, false, kDouble);
  kernel::ResidualEngine engine(net.model(), 100);
  const LinearizationPtr found = engine.linearization(test::inputs(4, net, kDouble));
  EXPECT_THAT([&] { found->kernel(); }, ThrowsMessage<InvalidArgument>(HasSubstr("more memory")));
}

TEST(Linearization, RefutesWhatIsNoJacobian) {
  torch::manual_seed(8);
  const Tensor J = torch::randn({6, 10}, kDouble), outputs = torch::randn({3, 2}, kDouble);
  const auto pull_back = [&](const Tensor& v) { return J.t().mv(v); };
  EXPECT_LE(relative_error(kernel::from_rows(
                               outputs, [&] { return J; }, pull_back)
                               ->kernel(),
                           J.mm(J.t())),
            kNear);
  const auto wrong = [&](const Tensor& rows) {
    return kernel::from_rows(
        outputs, [rows] { return rows; }, pull_back);
  };
  const Tensor S = torch::ones({3, 2, 1}, kDouble);
  const auto refuted = ThrowsMessage<NumericalError>(HasSubstr("do not agree with autograd"));
  EXPECT_THAT([&] { wrong(J.flip(0))->kernel(); }, refuted);
  EXPECT_THAT([&] { wrong(J.flip(0))->gram(S); }, refuted);
  EXPECT_THAT([&] { wrong(J * NAN)->trace(); }, refuted);
  EXPECT_THROW(wrong(J.narrow(0, 0, 5))->kernel(), InvalidArgument);
  EXPECT_THROW(wrong(J)->gram(torch::ones({2, 2, 1}, kDouble)), InvalidArgument);
  EXPECT_THAT([&] { Own(outputs, J, 1e-3).kernel(); },
              ThrowsMessage<NumericalError>(HasSubstr("do not agree")));
}

}  // namespace
}  // namespace cdt
