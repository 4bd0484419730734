#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/loss/residuals.h>

#include <algorithm>
#include <cmath>

namespace cdt::loss {
namespace {

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

/// ZᵀXZ for each pair of samples of a kernel X [rC, rC].
Tensor zero_sum_kernel(const Tensor& theta, const Tensor& Z) {
  const int64_t C = Z.size(0);
  const int64_t m = theta.size(0) / C * (C - 1);
  const Tensor right = theta.reshape({-1, C}).mm(Z).view({theta.size(0), m});
  const Tensor both = right.t().reshape({-1, C}).mm(Z).view({m, m});
  return (both + both.t()) / 2;
}

Tensor zero_sum_hessian(const Tensor& logits, const Tensor& Z) {
  const Tensor H = softmax_hessian(torch::softmax(logits, 1));
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

Tensor in_logits(const ClassCoordinates& at, const Tensor& zero_sum) {
  return zero_sum.view({at.samples, -1}).mm(at.basis.t());
}

void require_smoothing(double smoothing) {
  CDT_REQUIRE(
      smoothing > 0 && smoothing < 1,
      "smoothing must be above 0 (hard labels have no finite equilibrium) and below 1, got ",
      smoothing);
}

/// Everything that labels and smoothing decide.
ClassCoordinates at_labels(const Tensor& labels, double smoothing,
                           const torch::TensorOptions& options) {
  require_floating(labels, "labels");
  CDT_REQUIRE(labels.dim() == 2 && labels.size(0) > 0 && labels.size(1) >= 2,
              "labels must be [samples, classes] with two classes or more, got shape ",
              labels.sizes());
  require_distributions(labels, "labels");
  require_smoothing(smoothing);
  ClassCoordinates found;
  found.samples = labels.size(0);
  found.classes = labels.size(1);
  found.basis = zero_sum_basis(found.classes, options);
  found.targets = (1 - smoothing) * labels.detach().to(options) +
                  smoothing / static_cast<double>(found.classes);
  const Tensor log_targets = found.targets.log();
  found.equilibrium = log_targets - log_targets.mean(1, true);
  return found;
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

void take_roots(ClassCoordinates& at) {
  const auto [values, vectors] = torch::linalg_eigh(at.curvature);
  const auto power = [&, values = values, vectors = vectors](double exponent) {
    return (vectors * values.pow(exponent).unsqueeze(1)).matmul(vectors.transpose(1, 2));
  };
  at.root = power(0.5);
  at.inverse_root = power(-0.5);
}

/// blockdiag(blocks)·v
Tensor apply_blocks(const Tensor& blocks, const Tensor& v) {
  return blocks.matmul(v.view({blocks.size(0), -1, 1})).reshape({-1});
}

}  // namespace

Tensor softmax_hessian(const Tensor& p) {
  return torch::diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1);
}

ClassCoordinates class_coordinates_with(const Tensor& curvature, const Tensor& labels,
                                        double smoothing) {
  ClassCoordinates found = at_labels(labels, smoothing, curvature.options());
  require_shape(curvature, {found.samples, found.classes - 1, found.classes - 1}, "curvature");
  found.curvature = curvature.contiguous();
  take_roots(found);
  return found;
}

ClassCoordinates class_coordinates_at(const Tensor& logits, const Tensor& labels,
                                      double smoothing) {
  ClassCoordinates found =
      at_labels(labels, smoothing, logits.options().dtype(torch::kFloat64).requires_grad(false));
  require_logits(logits, found.samples, found.classes);
  // Simpson's mean of the Hessian from here to the equilibrium (definite, since it is there),
  // corrected.
  const Tensor& Z = found.basis;
  const Tensor from = (logits.detach().to(Z.options()) - found.equilibrium).mm(Z);
  const Tensor here = found.equilibrium + from.mm(Z.t());
  found.curvature =
      (zero_sum_hessian(here, Z) + 4 * zero_sum_hessian((here + found.equilibrium) / 2, Z) +
       zero_sum_hessian(found.equilibrium, Z)) /
      6;
  found.curvature = through_gradient(found.curvature, from,
                                     (torch::softmax(here, 1) - found.targets).mm(found.basis));
  take_roots(found);
  return found;
}

Tensor ClassCoordinates::state(const Tensor& logits) const {
  require_logits(logits, samples, classes);
  const Tensor z = logits.detach().to(equilibrium.options());
  return apply_blocks(root, (z - equilibrium).mm(basis).reshape({-1}));
}

Tensor ClassCoordinates::outputs(const Tensor& zeta) const {
  return equilibrium + in_logits(*this, apply_blocks(inverse_root, zeta));
}

Tensor ClassCoordinates::seed(const Tensor& zeta) const {
  return in_logits(*this, apply_blocks(root, zeta)) / static_cast<double>(samples);
}

Tensor ClassCoordinates::label(const Tensor& logits, const Tensor& zeta) const {
  const Tensor steered = in_logits(*this, apply_blocks(root, zeta));
  return torch::softmax(logits.detach().to(steered.options()), 1) - steered;
}

Tensor ClassCoordinates::kernel(const Tensor& theta) const {
  const Tensor M = scaled(zero_sum_kernel(theta, basis));
  return (M + M.t()) / 2;
}

Tensor ClassCoordinates::scaled(const Tensor& M) const {
  return blocks_times(root, times_blocks(M, root));
}

double ClassCoordinates::rank_tolerance(torch::ScalarType network_dtype) const {
  // Beside the network's rounding that of four more products in float64.
  return std::max(16 * tol::rank_of_computed(size(), torch::kFloat64),
                  tol::rank_of_computed(size(), network_dtype));
}

double ClassCoordinates::excess_loss(const Tensor& logits) const {
  require_logits(logits, samples, classes);
  const Tensor log_p = torch::log_softmax(logits.detach().to(targets.options()), 1);
  return (targets * (targets.log() - log_p)).sum().item<double>() / static_cast<double>(samples);
}

}  // namespace cdt::loss
