#include <cdt/control/doubling.h>
#include <cdt/control/general.h>
#include <cdt/control/steering.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

#include <limits>

namespace cdt::control {
namespace {

using torch::Tensor;

/// Names the mode that grows under gradient descent and that Q does not see, if there is one.
void require_detectable(const Tensor& s, const Tensor& Q) {
  const Tensor seen = Q.norm(2, 0).to(torch::kCPU);
  const Tensor steps = s.to(torch::kCPU);
  const double largest = seen.max().item<double>();
  for (int64_t i = 0; i < steps.size(0); ++i) {
    const double step = steps[i].item<double>();
    if (step >= 2 && seen[i].item<double>() <= 1e-12 * largest) {
      throw NumericalError(
          c10::str("Q gives no weight to a mode that gradient descent multiplies by ", 1 - step,
                   " each step (not detectable); give every sample some weight, or lower the "
                   "learning rate"));
    }
  }
}

}  // namespace

GeneralController design_general(const dynamics::Spectrum& spectrum, double learning_rate,
                                 dynamics::Loss loss, const Tensor& Q, const Tensor& R,
                                 const RiccatiOptions& options) {
  require_positive(learning_rate, "learning_rate");
  CDT_REQUIRE(spectrum.rank > 0, "the kernel is zero: no label moves any output");
  const int64_t n = spectrum.size();
  const Tensor state = require_state_weight(Q, n);
  const Tensor input = require_input_weight(R, n);

  // Balanced coordinates z = Λ^(−½)Vᵀe on the reachable subspace, with Λ now the steps s: z⁺ = (I −
  // Λ)z + Λ^½Vᵀy_u. The solution there stays bounded as s → 0, where P grows like 1/s.
  const Tensor V = spectrum.reachable_vectors();
  const Tensor s =
      spectrum.reachable_values() * (learning_rate * dynamics::gradient_factor(loss, n));
  const Tensor root = s.sqrt();
  const Tensor B = root.unsqueeze(1) * V.t();  // [rank, n]
  const Tensor A = torch::diag(1 - s);
  const Tensor modal = V.t().mm(state.mm(V));
  Tensor weight = root.unsqueeze(1) * modal * root;
  weight = (weight + weight.t()) / 2;
  require_detectable(s, modal);
  const Tensor RB = R.dim() == 1 ? B.t() / R.unsqueeze(1)
                                 : torch::cholesky_solve(B.t(), torch::linalg_cholesky(input));
  Tensor effect = B.mm(RB);
  effect = (effect + effect.t()) / 2;
  const auto doubled = double_riccati(A, effect, weight, options);
  if (!doubled.converged) {
    throw NumericalError(
        c10::str("the Riccati iteration did not converge in ", doubled.iterations, " iterations"));
  }

  // K = M⁻¹BᵀP_z(I − Λ)Λ^(−½)Vᵀ and I + K = M⁻¹(R + BᵀP_zΛ^(−½)Vᵀ), with M = R + BᵀP_zB: one
  // factorisation for both.
  const Tensor BP = B.t().mm(doubled.P);  // [n, rank]
  const Tensor factor = torch::linalg_cholesky(input + BP.mm(B));
  const Tensor back = (V / root).t();  // Λ^(−½)Vᵀ [rank, n]
  const Tensor solved =
      torch::cholesky_solve(torch::cat({(BP * (1 - s)).mm(back), input + BP.mm(back)}, 1), factor);
  const Tensor closed = closed_loop(A, effect, doubled.P);

  GeneralController controller;
  controller.spectrum = spectrum;
  controller.K = solved.narrow(1, 0, n).contiguous();
  controller.steering = solved.narrow(1, n, n).contiguous();
  controller.P = back.t().mm(doubled.P.mm(back));
  controller.iterations = doubled.iterations;
  controller.relative_residual = relative_residual(A, doubled.P, weight, closed);
  controller.closed_loop_radius = spectral_radius(closed);
  require_converged({doubled.P, controller.K, controller.relative_residual,
                     controller.closed_loop_radius, controller.iterations});
  return controller;
}

Tensor GeneralController::augment(const Tensor& y_hat, const Tensor& y) const {
  return augmented_label(y_hat, y, K.size(0),
                         [this](const Tensor& e) { return steer(e.to(K.device())); });
}

double GeneralController::optimal_cost(const Tensor& error) const {
  const double stuck = spectrum.null_vectors().t().mv(error).norm().item<double>();
  if (stuck > tol::kUnreachableError * error.norm().item<double>()) {
    return std::numeric_limits<double>::infinity();
  }
  return 0.5 * torch::dot(error, P.mv(error)).item<double>();
}

}  // namespace cdt::control
