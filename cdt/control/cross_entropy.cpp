#include <cdt/control/cross_entropy.h>
#include <cdt/control/general.h>
#include <cdt/control/spectral.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/loss_linearization.h>

#include <cmath>

namespace cdt::control {
namespace {

using dynamics::times_blocks;
using torch::Tensor;

/// Helmert's basis: column j is (1, …, 1, −j, 0, …)/√(j(j + 1)).
Tensor zero_sum_basis(int64_t classes, const torch::TensorOptions& options) {
  Tensor Z = torch::zeros({classes, classes - 1}, torch::kFloat64);
  for (int64_t j = 1; j < classes; ++j) {
    const double size = std::sqrt(static_cast<double>(j * (j + 1)));
    Z.select(1, j - 1).narrow(0, 0, j).fill_(1 / size);
    Z[j][j - 1] = -static_cast<double>(j) / size;
  }
  return Z.to(options);
}

/// ZᵀXZ for each block of X [r, C, C] or each pair of samples of a kernel [rC, rC].
Tensor zero_sum_kernel(const Tensor& theta, const Tensor& Z) {
  const int64_t C = Z.size(0);
  const int64_t m = theta.size(0) / C * (C - 1);
  const Tensor right = theta.reshape({-1, C}).mm(Z).view({theta.size(0), m});
  const Tensor both = right.t().reshape({-1, C}).mm(Z).view({m, m});
  return (both + both.t()) / 2;
}

Tensor zero_sum_hessian(const Tensor& logits, const Tensor& Z) {
  const Tensor H = dynamics::softmax_hessian(torch::softmax(logits, 1));
  return Z.t().matmul(H.matmul(Z));
}

/// blockdiag(blocks)·X
Tensor blocks_times(const Tensor& blocks, const Tensor& X) {
  return times_blocks(X.t().contiguous(), blocks.transpose(1, 2)).t();
}

Tensor dense(const Tensor& blocks) {
  const int64_t m = blocks.size(0) * blocks.size(1);
  return times_blocks(torch::eye(m, blocks.options()), blocks);
}

void require_logits(const Tensor& logits, int64_t samples, int64_t classes) {
  require_floating(logits, "logits");
  require_shape(logits, {samples, classes}, "logits");
  require_finite(logits, "logits");
}

void require_labels(const Tensor& labels) {
  require_finite(labels, "labels");
  CDT_REQUIRE(labels.min().item<double>() >= 0, "labels must be distributions; the smallest is ",
              labels.min().item<double>());
  const double gap = (labels.sum(1) - 1).abs().max().item<double>();
  CDT_REQUIRE(gap <= tol::kDistribution, "each sample's labels must sum to 1; one is off by ", gap);
}

/// ξ [r·(C − 1)]: where the logits are, from the equilibrium, without the common shift.
Tensor state(const CrossEntropyController& controller, const Tensor& logits) {
  require_logits(logits, controller.samples, controller.classes);
  const Tensor z = logits.detach().to(controller.equilibrium.options());
  return (z - controller.equilibrium).mm(controller.basis).reshape({-1});
}

Tensor in_logits(const CrossEntropyController& controller, const Tensor& coordinates) {
  return coordinates.view({controller.samples, -1}).mm(controller.basis.t());
}

}  // namespace

CrossEntropyController design_cross_entropy(const Tensor& theta, const Tensor& logits,
                                            const Tensor& labels, double learning_rate,
                                            const CrossEntropyOptions& options) {
  require_floating(labels, "labels");
  CDT_REQUIRE(labels.dim() == 2 && labels.size(0) > 0 && labels.size(1) >= 2,
              "labels must be [samples, classes] with two classes or more, not of shape ",
              labels.sizes());
  const int64_t r = labels.size(0);
  const int64_t C = labels.size(1);
  require_square(theta, "kernel");
  require_shape(theta, {r * C, r * C}, "kernel");
  require_logits(logits, r, C);
  require_labels(labels);
  require_positive(learning_rate, "learning_rate");
  CDT_REQUIRE(
      options.smoothing > 0 && options.smoothing < 1,
      "smoothing must be above 0 (hard labels have no finite equilibrium) and below 1, not ",
      options.smoothing);

  CrossEntropyController controller;
  controller.samples = r;
  controller.classes = C;
  controller.basis = zero_sum_basis(C, theta.options());
  controller.targets = (1 - options.smoothing) * labels.detach().to(theta.options()) +
                       options.smoothing / static_cast<double>(C);
  const Tensor log_targets = controller.targets.log();
  controller.equilibrium = log_targets - log_targets.mean(1, true);

  // Simpson's mean of the Hessian from here to the equilibrium: definite, since it is there.
  const Tensor& Z = controller.basis;
  const Tensor here = in_logits(controller, state(controller, logits)) + controller.equilibrium;
  controller.curvature =
      (zero_sum_hessian(here, Z) + 4 * zero_sum_hessian((here + controller.equilibrium) / 2, Z) +
       zero_sum_hessian(controller.equilibrium, Z)) /
      6;
  const auto [values, vectors] = torch::linalg_eigh(controller.curvature);
  const auto power = [&, values = values, vectors = vectors](double exponent) {
    return (vectors * values.pow(exponent).unsqueeze(1)).matmul(vectors.transpose(1, 2));
  };
  const Tensor root = power(0.5);
  const Tensor inverse_root = power(-0.5);

  const Tensor kernel = zero_sum_kernel(theta, Z);
  Tensor scaled = blocks_times(root, times_blocks(kernel, root));  // H^½ΘH^½
  scaled = (scaled + scaled.t()) / 2;
  const auto spectrum = dynamics::decompose(
      scaled, tol::rank_of_computed(scaled.size(0), torch::kFloat32), torch::kFloat32);
  CDT_REQUIRE(spectrum.rank > 0, "no label moves a sample's logits against each other");
  const double step = learning_rate / static_cast<double>(r);
  controller.lr_max = 2 * static_cast<double>(r) / spectrum.largest();
  Tensor G;  // I + K in ζ
  if (options.cost == CrossEntropyOptions::Cost::kLoss) {
    const auto modal =
        design_spectral(spectrum, step, dynamics::Loss::kSse, {options.q, options.rho, {}, {}});
    G = modal.steering_matrix();
    controller.closed_loop_radius = modal.closed_loop_radius();
  } else {
    require_positive(options.q, "q");
    require_positive(options.rho, "rho");
    const auto general =
        design_general(spectrum, step, dynamics::Loss::kSse, options.q * dense(power(-1)),
                       options.rho * dense(controller.curvature));
    G = general.steering;
    controller.closed_loop_radius = general.closed_loop_radius;
  }
  controller.steering = blocks_times(root, times_blocks(G, root));
  const Tensor in_zeta = torch::eye(scaled.size(0), scaled.options()) - step * scaled.mm(G);
  controller.closed_loop = blocks_times(inverse_root, times_blocks(in_zeta, root));
  return controller;
}

Tensor CrossEntropyController::seed(const Tensor& logits) const {
  const Tensor steered = steering.mv(state(*this, logits)) / static_cast<double>(samples);
  return in_logits(*this, steered).to(logits.device(), logits.scalar_type());
}

Tensor CrossEntropyController::augment(const Tensor& logits) const {
  const Tensor z = logits.detach().to(equilibrium.options());
  const Tensor steered = in_logits(*this, steering.mv(state(*this, logits)));
  return (torch::softmax(z, 1) - steered).to(logits.device(), logits.scalar_type());
}

Tensor CrossEntropyController::predict(const Tensor& logits) const {
  return equilibrium + in_logits(*this, closed_loop.mv(state(*this, logits)));
}

double CrossEntropyController::excess_loss(const Tensor& logits) const {
  require_logits(logits, samples, classes);
  const Tensor log_p = torch::log_softmax(logits.detach().to(equilibrium.options()), 1);
  return (targets * (targets.log() - log_p)).sum().item<double>() / static_cast<double>(samples);
}

}  // namespace cdt::control
