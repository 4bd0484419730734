// The local model and the second derivative against finite differences, brute force and the true
// remainder.
#include <cdt/core/error.h>
#include <cdt/dynamics/bounds.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/local_model.h>
#include <cdt/kernel/path.h>
#include <gmock/gmock.h>

#include "kernel/networks.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using test::relative_error;
using torch::Tensor;

using test::kDouble;
using test::shift;

/// ∂²ŷ/∂θ² [n, P, P] by brute force: the Hessian of every output, column by column.
Tensor hessians(const test::Network& net, const Tensor& x) {
  const auto model = net.model();
  const int64_t P = model.parameter_count();
  const int64_t n = model.forward(x).numel();
  Tensor H = torch::zeros({n, P, P}, kDouble);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor w = torch::eye(n, kDouble)[i];
    for (int64_t j = 0; j < P; ++j) {
      H[i][j] = kernel::hessian_vector_product(model, x, w, torch::eye(P, kDouble)[j]);
    }
  }
  return H;
}

/// Its norm by many starts of the symmetric iteration, run to the end.
double brute_force_norm(const Tensor& H) {
  double best = 0;
  for (int start = 0; start < 10; ++start) {
    Tensor u = torch::randn({H.size(1)}, kDouble);
    u = u / u.norm();
    for (int k = 0; k < 40; ++k) {
      const Tensor bent = H.matmul(u).mv(u);
      best = std::max(best, bent.norm().item<double>());
      const Tensor matrix = (H * (bent / bent.norm()).view({-1, 1, 1})).sum(0);
      // The best direction for these weights, exactly.
      const auto [values, vectors] = torch::linalg_eigh(matrix);
      u = vectors.select(1, values.abs().argmax().item<int64_t>());
    }
  }
  return best;
}

TEST(SecondDerivative, AgreesWithFiniteDifferencesAndHessians) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const auto net = test::mlp(3, 2, true, true, false, kDouble);
    const auto model = net.model();
    const Tensor x = test::inputs(4, net, kDouble);
    const Tensor u = torch::randn({model.parameter_count()}, kDouble);
    const Tensor v = torch::randn({model.parameter_count()}, kDouble);
    const Tensor found = kernel::second_derivative(model, x, u, v);
    const Tensor w = torch::randn({8}, kDouble);
    EXPECT_NEAR(torch::dot(w, found).item<double>(),
                torch::dot(v, kernel::hessian_vector_product(model, x, w, u)).item<double>(),
                test::tol::kKernel64 * found.norm().item<double>());
    constexpr double h = 1e-5;
    shift(model, v, h);
    const Tensor above = kernel::jacobian_vector_product(model, x, u);
    shift(model, v, -2 * h);
    const Tensor below = kernel::jacobian_vector_product(model, x, u);
    EXPECT_LE(relative_error(found, (above - below) / (2 * h)), test::tol::kFiniteDifference);
  }
  const Tensor weight = torch::randn({4, 2}, kDouble).requires_grad_();
  const kernel::Model linear([&](const Tensor& x) { return x.mm(weight); }, {weight});
  const Tensor one = torch::ones({8}, kDouble);
  EXPECT_EQ(kernel::second_derivative(linear, torch::ones({3, 4}, kDouble), one, one)
                .norm()
                .item<double>(),
            0);
  EXPECT_THROW(kernel::second_derivative(linear, torch::ones({3, 4}, kDouble), one,
                                         torch::ones({7}, kDouble)),
               InvalidArgument);
}

TEST(LocalModel, IsTheTangentAndLeavesTheNetworkAlone) {
  torch::manual_seed(4);
  const auto net = test::mlp(3, 2, true, false, false, kDouble);
  const auto model = net.model();
  const Tensor x = test::inputs(5, net, kDouble);
  const Tensor J = test::brute_force_jacobian(net, x);
  const Tensor before = model.forward(x).detach().reshape({-1});
  const kernel::LocalModel local(model, x);
  EXPECT_EQ(local.error(), 0);
  const Tensor move = torch::randn({model.parameter_count()}, kDouble);
  shift(model, move, 0.1);
  const Tensor there = model.forward(x).detach().clone();
  const void* storage = model.parameters()[0].data_ptr();
  EXPECT_LE(relative_error(local.displacement(), 0.1 * move), test::tol::kKernel64);
  EXPECT_LE(relative_error(local.predict(), before + 0.1 * J.mv(move)), test::tol::kKernel64);
  EXPECT_LE(relative_error(local.outputs(), before), 1e-15);
  EXPECT_NEAR(local.error(), (there.reshape({-1}) - local.predict()).norm().item<double>(), 1e-12);
  EXPECT_TRUE(torch::equal(model.forward(x), there));  // bit by bit
  EXPECT_EQ(model.parameters()[0].data_ptr(), storage);
  EXPECT_TRUE(model.parameters()[0].requires_grad());
  EXPECT_THROW(local.predict(move.narrow(0, 0, 3)), InvalidArgument);
  EXPECT_TRUE(torch::equal(model.forward(x), there));  // also after a refusal
}

TEST(LocalModel, ComesFromAnOriginAndMayBeAskedDuringAPass) {
  torch::manual_seed(4);
  const auto net = test::mlp(3, 2, true, false, false, kDouble);
  const auto model = net.model();
  const Tensor x = test::inputs(5, net, kDouble);
  const kernel::LocalModel first(model, x);
  shift(model, torch::randn({model.parameter_count()}, kDouble), 0.1);
  const kernel::LocalModel again(model, x, first.origin(), first.outputs());
  EXPECT_TRUE(torch::equal(again.displacement(), first.displacement()));
  EXPECT_TRUE(torch::equal(again.predict(), first.predict()));
  const auto gradients = [&](bool asked) {
    const Tensor outputs = model.forward(x);
    if (asked) first.predict();
    return kernel::flatten(model, torch::autograd::grad({outputs.sum()}, model.parameters()));
  };
  EXPECT_TRUE(torch::equal(gradients(true), gradients(false)));
  EXPECT_THROW(kernel::LocalModel(model, x, {first.origin()[0]}, first.outputs()), InvalidArgument);
}

TEST(Curvature, TendsToTheNormFromBelow) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const auto net = test::mlp(2, 2, true, false, false, kDouble);
    const auto model = net.model();
    const Tensor x = test::inputs(3, net, kDouble);
    const double truth = brute_force_norm(hessians(net, x));
    kernel::CurvatureOptions options;
    options.seed = seed;
    options.products = 40;
    const auto quick = kernel::hessian_norm(model, x, options);
    EXPECT_LE(quick.products, 40);
    EXPECT_GT(quick.accuracy, 0.01);
    EXPECT_LE(quick.norm, truth * (1 + test::tol::kKernel64));
    EXPECT_GE(quick.norm, 0.5 * truth);
    options.products = 150;
    const auto patient = kernel::hessian_norm(model, x, options);
    EXPECT_LE(patient.norm, truth * (1 + test::tol::kKernel64));
    // A local maximum of the trilinear form may keep it below: an estimate, not a bound.
    EXPECT_GE(patient.norm, 0.9 * truth);
    EXPECT_GE(patient.norm, quick.norm);
  }
  kernel::CurvatureOptions none;
  none.products = -1;
  const Tensor weight = torch::randn({4, 2}, kDouble).requires_grad_();
  const kernel::Model linear([&](const Tensor& x) { return x.mm(weight); }, {weight});
  EXPECT_EQ(kernel::hessian_norm(linear, torch::ones({3, 4}, kDouble)).norm, 0);
  EXPECT_THROW(kernel::hessian_norm(linear, torch::ones({3, 4}, kDouble), none), InvalidArgument);
}

/// The largest of many climbs, each to the end, on the whole tensor.
TEST(Curvature, FindsTheNormOfSmallTanhNetworks) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const auto net = test::mlp(3, 2, true, true, false, kDouble);
    const auto model = net.model();
    const Tensor x = test::inputs(4, net, kDouble);
    const Tensor H = hessians(net, x);
    double truth = 0;
    for (int k = 0; k < 4; ++k) truth = std::max(truth, brute_force_norm(H));
    const auto usual = kernel::hessian_norm(model, x);
    EXPECT_LE(usual.norm, truth * (1 + test::tol::kKernel64));
    EXPECT_LE(usual.products, 400);
    EXPECT_GE(usual.norm, 0.95 * truth);
    EXPECT_GE(usual.norm * (1 + usual.accuracy), truth);
    kernel::CurvatureOptions patient;
    patient.products = 2000;
    patient.starts = 24;
    patient.tolerance = 1e-5;
    const auto found = kernel::hessian_norm(model, x, patient);
    EXPECT_LE(found.norm, truth * (1 + test::tol::kKernel64));
    EXPECT_GE(found.norm, 0.99 * truth);
    EXPECT_GE(found.norm * (1 + found.accuracy), truth);
    EXPECT_EQ(kernel::hessian_norm(model, x, patient).norm, found.norm);  // the same starts
  }
}

TEST(Curvature, MoreProductsLookInMorePlaces) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const auto net = test::mlp(2, 1, true, true, false, kDouble);
    const auto model = net.model();
    const Tensor x = test::inputs(6, net, kDouble);
    const double truth = brute_force_norm(hessians(net, x));
    kernel::CurvatureOptions options;
    const auto usual = kernel::hessian_norm(model, x, options);
    options.products = 1500;
    const auto found = kernel::hessian_norm(model, x, options);
    EXPECT_GT(found.products, 400);
    EXPECT_GE(found.norm, 0.999 * truth);
    EXPECT_GE(usual.norm * (1 + usual.accuracy), truth);
    EXPECT_GE(found.norm * (1 + found.accuracy), truth);
    // Eight climbs that agree are no certainty.
    EXPECT_GE(usual.accuracy, 0.1 / 8);
    EXPECT_GE(found.accuracy, 0.1 / 30);
  }
}

// Taylor with the remainder of Lagrange: the true linearization error stays below, on every sampled
// displacement, also with the default budget.
TEST(Curvature, TheLagrangeBoundHoldsAlongSegments) {
  for (uint64_t seed : {1, 2, 3, 4, 5}) {
    for (double length : {0.01, 0.1, 0.5}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " length " << length);
      torch::manual_seed(seed);
      const auto net = test::mlp(3, 2, true, true, false, kDouble);
      const auto model = net.model();
      const Tensor x = test::inputs(6, net, kDouble);
      const kernel::LocalModel local(model, x);
      const Tensor direction = torch::randn({model.parameter_count()}, kDouble);
      const Tensor move = direction * (length / direction.norm());
      const auto curvature = kernel::hessian_norm_on_segment(model, x, move);
      EXPECT_LE(curvature.products, 400);
      EXPECT_GE(curvature.norm, curvature.along_path);
      shift(model, move, 1);
      const double error = local.error();
      EXPECT_GT(error, 0);
      EXPECT_LE(error, dynamics::lagrange_bound(curvature.norm, length));
      // To first order in the length the error is that of the curvature along the path.
      if (length < 0.05) {
        EXPECT_NEAR(error / dynamics::lagrange_bound(curvature.along_path, length), 1, 0.1);
      }
    }
  }
  torch::manual_seed(1);
  const auto net = test::mlp(2, 1, true, false, false, kDouble);
  const Tensor x = test::inputs(2, net, kDouble);
  const auto model = net.model();
  const Tensor nowhere = torch::zeros({model.parameter_count()}, kDouble);
  EXPECT_GT(kernel::hessian_norm_on_segment(model, x, nowhere).norm, 0);
  // Along the last bias the network is straight; the norm is found elsewhere.
  Tensor straight = nowhere.clone();
  straight[-1] = 1;
  const auto beside = kernel::hessian_norm_on_segment(model, x, straight);
  EXPECT_EQ(beside.along_path, 0);
  EXPECT_GT(beside.norm, 0);
  EXPECT_LE(beside.products, 400);
  kernel::CurvatureOptions options;
  options.points = 1;
  EXPECT_THROW(kernel::hessian_norm_on_segment(model, x, nowhere, options), InvalidArgument);
  options.products = 8;
  options.points = 9;
  EXPECT_THROW(kernel::hessian_norm_on_segment(model, x, nowhere, options), InvalidArgument);
}

// As printed, the norm is taken at the iterates. One step from −1 to 1 over a bend in between has
// none at either end: the remainder belongs to the segment.
TEST(Curvature, TheNormAtTheIteratesIsNoBound) {
  const Tensor theta = torch::full({1}, -1.0, kDouble).requires_grad_();
  const kernel::Model model([&](const Tensor& x) { return torch::softplus(theta * x, 20); },
                            {theta});
  const Tensor x = torch::ones({1, 1}, kDouble);
  const kernel::LocalModel local(model, x);
  const Tensor move = torch::full({1}, 2.0, kDouble);
  kernel::CurvatureOptions options;
  const double at_ends = kernel::hessian_norm_on_segment(model, x, move, options).norm;
  options.points = 5;
  const double between = kernel::hessian_norm_on_segment(model, x, move, options).norm;
  shift(model, move, 1);
  EXPECT_GT(local.error(), dynamics::lagrange_bound(at_ends, 2));
  EXPECT_LE(local.error(), dynamics::lagrange_bound(between, 2));
}

// While the parameters stay within the radius, no step of the network itself grows by more than the
// robust contraction.
TEST(Curvature, RobustContractionBoundsTheNetworksOwnSteps) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const auto net = test::mlp(2, 1, true, false, false, kDouble);
    const auto model = net.model();
    const Tensor x = test::inputs(3, net, kDouble);
    const Tensor J = test::brute_force_jacobian(net, x);
    const Tensor eigenvalues = torch::linalg_eigvalsh(J.mm(J.t()));
    const double largest = eigenvalues[2].item<double>();
    const double rate = 1 / largest;
    const double kappa = 1 - rate * eigenvalues[0].item<double>();
    const Tensor y = model.forward(x).detach().reshape({-1}) + 0.05 * torch::randn({3}, kDouble);
    const kernel::LocalModel local(model, x);
    double previous = 0, curvature = 0;
    for (int k = 0; k < 30; ++k) {
      const Tensor e = model.forward(x).detach().reshape({-1}) - y;
      const double size = e.norm().item<double>();
      curvature = std::max(curvature, kernel::hessian_norm(model, x).norm);
      if (k > 0) {
        const double r = local.displacement().norm().item<double>();
        EXPECT_LE(size, previous *
                            dynamics::robust_contraction(kappa, rate, largest, 1.2 * curvature, r));
      }
      previous = size;
      shift(model, kernel::vector_jacobian_product(model, x, e), -rate);
    }
  }
}

TEST(Path, IsGradientDescentOnACopy) {
  torch::manual_seed(6);
  const auto net = test::mlp(3, 2, true, false, false, kDouble);
  const auto model = net.model();
  const Tensor x = test::inputs(4, net, kDouble);
  const Tensor y = torch::randn({8}, kDouble);
  const Tensor before = model.forward(x).detach().reshape({-1});
  const auto seed = [&](const Tensor& outputs) { return outputs - y; };
  kernel::PathOptions options;
  options.steps = 7;
  const auto path = kernel::record_path(model, x, 0.02, seed, options);
  EXPECT_TRUE(torch::equal(model.forward(x).reshape({-1}), before));  // bit by bit
  ASSERT_EQ(path.outputs.size(0), 8);
  EXPECT_GT(path.curvature.norm, 0);
  EXPECT_GT(path.curvature.products, 8);
  EXPECT_LT(path.curvature.accuracy, 0.2);
  // The same by autograd on the network itself.
  const kernel::LocalModel local(model, x);
  for (int k = 0; k <= 7; ++k) {
    EXPECT_LE(relative_error(path.outputs[k], model.forward(x).reshape({-1})), 1e-12);
    EXPECT_LE(relative_error(path.local_outputs[k], local.predict()), 1e-12);
    EXPECT_NEAR(path.displacements[k].item<double>(), local.displacement().norm().item<double>(),
                1e-12);
    const Tensor loss = 0.5 * (model.forward(x).reshape({-1}) - y).square().sum();
    const auto gradients = torch::autograd::grad({loss}, model.parameters());
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < gradients.size(); ++i) model.parameters()[i].sub_(0.02 * gradients[i]);
  }
  // A divergence ends it, with the row that shows it, and leaves the network alone.
  const Tensor here = model.forward(x).detach().clone();
  options.steps = 500;
  const auto lost = kernel::record_path(model, x, 1e60, seed, options);
  EXPECT_LT(lost.outputs.size(0), 500);
  EXPECT_FALSE(torch::isfinite(lost.local_outputs[-1]).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(lost.outputs[-2]).all().item<bool>());
  EXPECT_GT(lost.curvature.norm, 0);
  EXPECT_TRUE(torch::equal(model.forward(x), here));
  options.steps = 0;
  EXPECT_THROW(kernel::record_path(model, x, 0.1, seed, options), InvalidArgument);
  EXPECT_THROW(kernel::record_path(model, x, -1, seed), InvalidArgument);
}

}  // namespace
}  // namespace cdt
