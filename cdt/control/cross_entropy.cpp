#include <cdt/control/cross_entropy.h>
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

void require_logits(const Tensor& logits, int64_t samples, int64_t classes) {
  require_floating(logits, "logits");
  require_shape(logits, {samples, classes}, "logits");
  require_finite(logits, "logits");
}

/// ξ [r·(C − 1)]: where the logits are, from the equilibrium, without the common shift.
Tensor state(const CrossEntropyPlant& plant, const Tensor& logits) {
  require_logits(logits, plant.samples, plant.classes);
  const Tensor z = logits.detach().to(plant.equilibrium.options());
  return (z - plant.equilibrium).mm(plant.basis).reshape({-1});
}

Tensor in_logits(const CrossEntropyPlant& plant, const Tensor& coordinates) {
  return coordinates.view({plant.samples, -1}).mm(plant.basis.t());
}

void require_smoothing(double smoothing) {
  CDT_REQUIRE(
      smoothing > 0 && smoothing < 1,
      "smoothing must be above 0 (hard labels have no finite equilibrium) and below 1, got ",
      smoothing);
}

/// Everything that labels and smoothing decide.
CrossEntropyPlant at_labels(const Tensor& labels, double smoothing,
                            const torch::TensorOptions& options) {
  require_floating(labels, "labels");
  CDT_REQUIRE(labels.dim() == 2 && labels.size(0) > 0 && labels.size(1) >= 2,
              "labels must be [samples, classes] with two classes or more, got shape ",
              labels.sizes());
  require_distributions(labels, "labels");
  require_smoothing(smoothing);
  CrossEntropyPlant plant;
  plant.samples = labels.size(0);
  plant.classes = labels.size(1);
  plant.basis = zero_sum_basis(plant.classes, options);
  plant.targets = (1 - smoothing) * labels.detach().to(options) +
                  smoothing / static_cast<double>(plant.classes);
  const Tensor log_targets = plant.targets.log();
  plant.equilibrium = log_targets - log_targets.mean(1, true);
  return plant;
}

/// The smallest definite correction of H (that of BFGS) with which Hξ is the gradient g exactly, so
/// that the loop rests where the loss does. Both are [r, C − 1]; convexity makes gᵀξ positive.
Tensor through_gradient(const Tensor& H, const Tensor& xi, const Tensor& g) {
  const Tensor v = xi.unsqueeze(2);
  const Tensor w = g.unsqueeze(2);
  const Tensor Hv = H.matmul(v);
  const Tensor vHv = v.transpose(1, 2).matmul(Hv);
  const Tensor vw = v.transpose(1, 2).matmul(w);
  const Tensor corrected =
      H - Hv.matmul(Hv.transpose(1, 2)) / vHv + w.matmul(w.transpose(1, 2)) / vw;
  // At the equilibrium the quotients are rounding, and H needs no correction.
  const Tensor clear = vw.gt(tol::kStationary * tol::kStationary).logical_and(vHv.gt(0));
  return torch::where(clear, (corrected + corrected.transpose(1, 2)) / 2, H);
}

void take_roots(CrossEntropyPlant& plant) {
  const auto [values, vectors] = torch::linalg_eigh(plant.curvature);
  const auto power = [&, values = values, vectors = vectors](double exponent) {
    return (vectors * values.pow(exponent).unsqueeze(1)).matmul(vectors.transpose(1, 2));
  };
  plant.root = power(0.5);
  plant.inverse_root = power(-0.5);
}

/// blockdiag(blocks)·v
Tensor apply_blocks(const Tensor& blocks, const Tensor& v) {
  return blocks.matmul(v.view({blocks.size(0), -1, 1})).reshape({-1});
}

}  // namespace

CrossEntropyPlant cross_entropy_plant(const Tensor& labels, double smoothing,
                                      const Tensor& curvature) {
  CrossEntropyPlant plant = at_labels(labels, smoothing, curvature.options());
  require_shape(curvature, {plant.samples, plant.classes - 1, plant.classes - 1}, "curvature");
  plant.curvature = curvature.contiguous();
  take_roots(plant);
  return plant;
}

CrossEntropyPlant cross_entropy_plant_at(const Tensor& logits, const Tensor& labels,
                                         double smoothing) {
  CrossEntropyPlant plant =
      at_labels(labels, smoothing, logits.options().dtype(torch::kFloat64).requires_grad(false));
  require_logits(logits, plant.samples, plant.classes);
  // Simpson's mean of the Hessian from here to the equilibrium (definite, since it is there),
  // corrected.
  const Tensor& Z = plant.basis;
  const Tensor from = (logits.detach().to(plant.basis.options()) - plant.equilibrium).mm(Z);
  const Tensor here = plant.equilibrium + from.mm(Z.t());
  plant.curvature =
      (zero_sum_hessian(here, Z) + 4 * zero_sum_hessian((here + plant.equilibrium) / 2, Z) +
       zero_sum_hessian(plant.equilibrium, Z)) /
      6;
  plant.curvature = through_gradient(plant.curvature, from,
                                     (torch::softmax(here, 1) - plant.targets).mm(plant.basis));
  take_roots(plant);
  return plant;
}

CrossEntropyPlant linearize_cross_entropy(const Tensor& theta, const Tensor& logits,
                                          const Tensor& labels, double smoothing,
                                          torch::ScalarType network_dtype) {
  require_kernel(theta);
  CrossEntropyPlant plant = cross_entropy_plant_at(logits.to(theta.device()), labels, smoothing);
  const int64_t n = plant.samples * plant.classes;
  require_shape(theta, {n, n}, "kernel");
  const Tensor scaled = plant.kernel_of_state(theta);
  // Beside the network's rounding that of four more products in float64.
  const double products = 16 * tol::rank_of_computed(scaled.size(0), torch::kFloat64);
  plant.modes = dynamics::decompose(
      scaled, std::max(products, tol::rank_of_computed(scaled.size(0), network_dtype)));
  return plant;
}

Tensor CrossEntropyPlant::kernel_of_state(const Tensor& theta) const {
  const Tensor scaled = blocks_times(root, times_blocks(zero_sum_kernel(theta, basis), root));
  return (scaled + scaled.t()) / 2;
}

double CrossEntropyPlant::unit_rate() const {
  return modes.rank > 0 ? static_cast<double>(samples) / modes.largest() : 1;
}

Tensor CrossEntropyPlant::coordinates(const Tensor& z) const {
  return apply_blocks(root, state(*this, z));
}

Tensor CrossEntropyPlant::logits(const Tensor& zeta) const {
  return equilibrium + in_logits(*this, apply_blocks(inverse_root, zeta));
}

Tensor CrossEntropyPlant::seed(const Tensor& zeta) const {
  return in_logits(*this, apply_blocks(root, zeta)) / static_cast<double>(samples);
}

double CrossEntropyPlant::excess_loss(const Tensor& z) const {
  require_logits(z, samples, classes);
  const Tensor log_p = torch::log_softmax(z.detach().to(targets.options()), 1);
  return (targets * (targets.log() - log_p)).sum().item<double>() / static_cast<double>(samples);
}

CrossEntropyController design_cross_entropy(const Tensor& theta, const Tensor& logits,
                                            const Tensor& labels, double learning_rate,
                                            const CrossEntropyOptions& options) {
  require_positive(learning_rate, "learning_rate");
  return design_cross_entropy(
      linearize_cross_entropy(theta, logits, labels, options.smoothing, options.network_dtype),
      learning_rate, options);
}

CrossEntropyController design_cross_entropy(const CrossEntropyPlant& plant, double learning_rate,
                                            const CrossEntropyOptions& options) {
  require_positive(learning_rate, "learning_rate");
  const dynamics::Modes& modes = plant.modes;
  dynamics::require_complete(modes, "a controller for the cross entropy");
  CDT_REQUIRE(modes.rank > 0, "no label moves a sample's logits against each other");
  CrossEntropyController controller;
  controller.plant = plant;
  controller.lr_max = 2 * plant.unit_rate();
  const double step = learning_rate / static_cast<double>(plant.samples);
  const auto modal = design_spectral(modes, step, {options.q, options.rho, {}});
  const Tensor G = modal.steering_matrix();  // I + K in ζ
  controller.closed_loop_radius = modal.closed_loop_radius();
  controller.steering = blocks_times(plant.root, times_blocks(G, plant.root));
  const Tensor& V = modes.vectors;
  const Tensor in_zeta =
      torch::eye(modes.size(), V.options()) - (V * (step * modes.values)).mm(V.t().mm(G));
  controller.closed_loop = blocks_times(plant.inverse_root, times_blocks(in_zeta, plant.root));
  return controller;
}

Tensor CrossEntropyController::seed(const Tensor& logits) const {
  const Tensor steered = in_logits(plant, steering.mv(state(plant, logits)));
  return (steered / static_cast<double>(plant.samples)).to(logits.device(), logits.scalar_type());
}

Tensor CrossEntropyController::augment(const Tensor& logits) const {
  const Tensor steered = in_logits(plant, steering.mv(state(plant, logits)));
  const Tensor z = logits.detach().to(steered.options());
  return (torch::softmax(z, 1) - steered).to(logits.device(), logits.scalar_type());
}

Tensor CrossEntropyController::predict(const Tensor& logits) const {
  return plant.equilibrium + in_logits(plant, closed_loop.mv(state(plant, logits)));
}

}  // namespace cdt::control
