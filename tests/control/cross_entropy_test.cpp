// The cross-entropy controller against the general Riccati solver, its local model, and networks
// that plain descent ruins.
#include <cdt/control/controller.h>
#include <cdt/control/riccati.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/loss_linearization.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/mlp.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using loss::LossPtr;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;
const auto kLoss = loss::cross_entropy();

Tensor one_hot(int64_t samples, int64_t classes, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::one_hot(torch::randint(classes, {samples}), classes).to(torch::kFloat64);
}

/// The controller of classes, and what it does to logits.
struct Logits {
  control::ModalController controller;
  loss::ClassCoordinates at;

  Logits(const Tensor& theta, const Tensor& z, const Tensor& y, double rate)
      : controller(control::Plant::of_classes(theta, loss::class_coordinates_at(z, y), rate),
                   control::lqr(1, 0.1)),
        at(*controller.plant().classes()) {}

  double lr_max() const { return 2 * controller.plant().unit_rate(); }
  /// ∂L/∂z to start the backward pass with.
  Tensor seed(const Tensor& z) const { return at.seed(controller.steer(at.state(z))); }
  Tensor predict(const Tensor& z) const { return at.outputs(controller.predict(at.state(z))); }
  /// blockdiag(Z, …) [rC, r(C − 1)]
  Tensor block_basis() const { return torch::kron(torch::eye(at.samples, kDouble), at.basis); }
};

Tensor dense(const Tensor& blocks) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < blocks.size(0); ++i) all.push_back(blocks[i]);
  return torch::block_diag(all);
}

TEST(CrossEntropy, SolvesTheRiccatiEquationOfTheLogits) {
  for (uint64_t seed : {1, 2, 3}) {
    for (double rate : {0.5, 20.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " rate " << rate);
      const int64_t r = 3, C = 4, n = r * C;
      const Tensor theta = test::random_kernel(n, 2 * n, 4.0, seed);
      const Tensor z = torch::randn({r, C}, kDouble);
      const Logits c(theta, z, one_hot(r, C, seed), rate);
      const Tensor Z = c.block_basis();
      const Tensor H = dense(c.at.curvature);
      const Tensor B = rate / r * Z.t().mm(theta).mm(Z);
      const Tensor A = torch::eye(r * (C - 1), kDouble) - B.mm(H);
      const Tensor inverse = torch::linalg_inv(H);
      const auto dense_solution =
          control::solve_riccati(A, B, (H + H.t()) / 2, 0.1 * (inverse + inverse.t()) / 2);
      EXPECT_LE(relative_error(c.at.scaled(c.controller.matrix()), H + dense_solution.K), 1e-7);
      const Tensor& V = c.controller.plant().modes().vectors;
      const Tensor in_zeta = (V * c.controller.closed_loop()).mm(V.t());
      const Tensor loop = dense(c.at.inverse_root).mm(in_zeta).mm(dense(c.at.root));
      EXPECT_LE(relative_error(loop, A - B.mm(dense_solution.K)), 1e-7);
      const double radius = c.controller.closed_loop_radius();
      EXPECT_NEAR(radius, dense_solution.closed_loop_radius, 1e-7);
      EXPECT_LT(radius, 1);
    }
  }
}

TEST(CrossEntropy, MovesTheLogitsAsPromised) {
  const int64_t r = 4, C = 3, n = r * C;
  const Tensor theta = test::random_kernel(n, 7, 2.0, 5);  // without full rank
  const Tensor y = one_hot(r, C, 6);
  const Tensor z = torch::randn({r, C}, kDouble);
  const double rate = 9.0;
  const Logits c(theta, z, y, rate);
  // At the equilibrium the gradient of the smoothed loss is zero, and so is the seed.
  EXPECT_LE(relative_error(torch::softmax(c.at.equilibrium, 1), 0.9 * y + 0.1 / C), 1e-14);
  EXPECT_LE(c.seed(c.at.equilibrium).norm().item<double>(), 1e-13);
  EXPECT_LE(std::abs(c.at.excess_loss(c.at.equilibrium)), 1e-15);
  EXPECT_NEAR(c.at.excess_loss(z),
              dynamics::output_loss(kLoss, z, c.at.targets) -
                  dynamics::output_loss(kLoss, c.at.equilibrium, c.at.targets),
              1e-13);
  // H is a secant: Hξ is the gradient.
  const Tensor near = c.at.equilibrium + 0.5 * torch::randn({r, C}, kDouble);
  const Logits there(theta, near, y, rate);
  const Tensor xi = (near - c.at.equilibrium).mm(c.at.basis).unsqueeze(2);
  EXPECT_LE(relative_error(there.at.curvature.matmul(xi).squeeze(2),
                           (torch::softmax(near, 1) - c.at.targets).mm(c.at.basis)),
            1e-12);
  // A shift of a sample's logits changes nothing.
  const Tensor shifted = z + torch::randn({r, 1}, kDouble);
  EXPECT_LE(relative_error(c.seed(shifted), c.seed(z)), 1e-12);
  EXPECT_LE(c.seed(z).sum(1).abs().max().item<double>(), 1e-14);
  // The augmented label has exactly that gradient, whatever its entries.
  const Tensor augmented = c.controller.augment(z);
  EXPECT_LE(relative_error(dynamics::loss_gradient(kLoss, z, augmented), c.seed(z)), 1e-12);
  EXPECT_LE((augmented.sum(1) - 1).abs().max().item<double>(), 1e-13);
  // One step of the local model, by hand.
  const Tensor after = z - rate * theta.mv(c.seed(z).reshape({-1})).view({r, C});
  EXPECT_LE(relative_error(c.predict(z), after - after.mean(1, true)), 1e-10);
  EXPECT_EQ(c.controller.augment(z.to(torch::kFloat32)).scalar_type(), torch::kFloat32);
  EXPECT_THROW(c.controller.augment(z, y), InvalidArgument);
  // As what kernel::empirical_ntk returns it is the same, with the usual smoothing.
  struct {
    Tensor theta, outputs;
    torch::ScalarType network_dtype = torch::kFloat32;
  } kernel{theta, z};
  const auto same = control::design(control::Plant::of(kernel, kLoss, rate, y));
  EXPECT_TRUE(torch::equal(same->augment(z), augmented));
}

/// A classification problem that a tanh network of some width can learn.
struct Problem {
  nn::Mlp net{nullptr};
  Tensor x;
  Tensor y;
};

Problem problem(int64_t classes, int64_t width, uint64_t seed) {
  torch::manual_seed(seed);
  nn::MlpOptions shape;
  shape.inputs = 4;
  shape.hidden = {width};
  shape.outputs = classes;
  shape.activation = nn::Activation::kTanh;
  shape.parametrization = nn::Parametrization::kNtk;
  shape.sigma_w = 1.5;
  Problem p;
  p.net = nn::Mlp(shape, seed, torch::kFloat64);
  p.x = torch::randn({20, 4}, kDouble);
  p.y = torch::one_hot(p.x.narrow(1, 0, classes).argmax(1), classes).to(torch::kFloat64);
  return p;
}

/// Trains with the given seed of the backward pass and returns the true loss after each step.
template <class Seed>
std::vector<double> train(const Problem& p, double rate, int64_t steps, const Seed& seed) {
  std::vector<double> losses;
  for (int64_t k = 0; k < steps; ++k) {
    auto net = p.net;
    const Tensor logits = net->forward(p.x);
    const auto gradients =
        torch::autograd::grad({logits}, net->parameters(), {seed(logits.detach())});
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < gradients.size(); ++i) net->parameters()[i].sub_(rate * gradients[i]);
    losses.push_back(dynamics::output_loss(kLoss, net->forward(p.x), p.y));
  }
  return losses;
}

TEST(CrossEntropy, LearnsWherePlainDescentDiverges) {
  for (uint64_t seed : {1, 2, 3}) {
    for (int64_t classes : {2, 3}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " classes " << classes);
      const auto plain = problem(classes, 512, seed);
      const auto steered = problem(classes, 512, seed);
      const auto kernel = kernel::empirical_ntk(steered.net, steered.x);
      const Tensor z = kernel.outputs.to(torch::kFloat64);
      const double start = dynamics::output_loss(kLoss, z, plain.y);
      const double rate = 30 * Logits(kernel.theta, z, plain.y, 1.0).lr_max();
      const Logits c(kernel.theta, z, plain.y, rate);
      const auto descent = train(plain, rate, 40, [&](const Tensor& logits) {
        return dynamics::loss_gradient(kLoss, logits, plain.y);
      });
      const auto controlled =
          train(steered, rate, 40, [&](const Tensor& logits) { return c.seed(logits); });
      EXPECT_GT(*std::max_element(descent.begin(), descent.end()), 3 * start);
      EXPECT_LT(controlled.back(), 0.3 * start);
      EXPECT_LT(*std::max_element(controlled.begin(), controlled.end()), 1.2 * start);
    }
  }
}

TEST(CrossEntropy, TakesTheRankFromTheNetworksPrecision) {
  // One sample learns 2.5·10⁻¹⁴ as fast as the others: more than float64 rounds (16·3·2·10⁻¹⁶),
  // less than float32 does (3·1.4·10⁻¹⁴).
  const Tensor speeds = torch::tensor({2.5e-14, 2.5e-14, 1.0, 1.0, 1.0, 1.0}, kDouble);
  const Tensor theta = torch::diag(speeds);
  const Tensor z = torch::zeros({3, 2}, kDouble);
  const Tensor y = one_hot(3, 2, 1);
  const auto rank = [&](torch::ScalarType network) {
    const auto classes = loss::class_coordinates_at(z, y);
    return control::Plant::of_classes(theta, classes, 0.1, network).modes().rank;
  };
  EXPECT_EQ(rank(torch::kFloat32), 2);
  EXPECT_EQ(rank(torch::kFloat64), 3);
}

TEST(CrossEntropy, RefusesBadInput) {
  const Tensor theta = torch::eye(6, kDouble);
  const Tensor z = torch::zeros({3, 2}, kDouble);
  const Tensor y = one_hot(3, 2, 1);
  const auto make = [](const Tensor& theta, const Tensor& z, const Tensor& y, double rate,
                       double smoothing = 0.1) {
    return control::design(
        control::Plant::of_classes(theta, loss::class_coordinates_at(z, y, smoothing), rate));
  };
  EXPECT_NO_THROW(make(theta, z, y, 0.1));
  EXPECT_THAT([&] { make(theta, z, y, 0.1, 0); },
              ThrowsMessage<InvalidArgument>(HasSubstr("no finite equilibrium")));
  EXPECT_THROW(make(theta, z, y, 0), InvalidArgument);
  EXPECT_THROW(make(theta, z, 2 * y, 0.1), InvalidArgument);
  EXPECT_THROW(make(theta, z, -y, 0.1), InvalidArgument);
  EXPECT_THROW(make(theta, z * NAN, y, 0.1), InvalidArgument);
  EXPECT_THROW(make(torch::eye(5, kDouble), z, y, 0.1), InvalidArgument);
  EXPECT_THROW(make(torch::eye(3, kDouble), torch::zeros({3, 1}, kDouble),
                    torch::ones({3, 1}, kDouble), 0.1),
               InvalidArgument);
  // A kernel that only shifts a sample's logits together.
  EXPECT_THROW(make(torch::ones({6, 6}, kDouble), z, y, 0.1), InvalidArgument);
  EXPECT_THROW(make(theta, z, y, 0.1)->augment(torch::zeros({2, 3}, kDouble)), InvalidArgument);
}

}  // namespace
}  // namespace cdt
