#include <cdt/control/designs/weighted_gain.h>
#include <cdt/control/riccati/detectability.h>
#include <cdt/control/riccati/doubling.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

namespace cdt::control {
namespace {

using torch::Tensor;

/// Throws if a mode that grows under gradient descent has no weight in Q; names the fastest.
void require_detectable(const dynamics::Modes& modes, double step_scale, const Tensor& Q) {
  const auto found = assess_detectability(modes, step_scale, Q);
  if (found.detectable) return;
  throw NumericalError(c10::str(
      "Q gives no weight to a mode that gradient descent multiplies by ", found.worst_factor,
      " each step (not detectable); give every sample some weight, or lower the learning "
      "rate"));
}

}  // namespace

GainController::Gain weighted_gain(const Plant& plant, const Tensor& Q, const Tensor& R,
                                   const RiccatiOptions& options) {
  const double step_scale = plant.step_scale();
  dynamics::Modes modes = plant.modes();
  if (const double ridge = plant.ridge(); ridge > 0) modes.values = modes.values + ridge;
  dynamics::require_complete(modes, "a controller for arbitrary weights");
  CDT_REQUIRE(modes.rank > 0, "the kernel is zero: no label moves any output");
  const int64_t n = modes.size();
  const Tensor steps = modes.values * step_scale;
  const int64_t rank = (steps >= tol::kSlowestStep).sum().item<int64_t>();
  CDT_REQUIRE(rank > 0, "every mode takes more than ", 1 / tol::kSlowestStep,
              " steps; the largest is s = ", steps.max().item<double>(),
              ". Raise the learning rate");
  const Tensor state = require_state_weight(Q, n);
  const Tensor input = require_input_weight(R, n);
  require_detectable(modes, step_scale, Q);

  // Balanced coordinates z = Λ^(−½)Vᵀe on the reachable subspace, with Λ now the steps s: z⁺ = (I −
  // Λ)z + Λ^½Vᵀy_u. The solution there stays bounded as s → 0, where P grows like 1/s.
  const int64_t first = n - rank;
  const Tensor V = modes.vectors.narrow(1, first, rank);
  const Tensor s = steps.narrow(0, first, rank);
  const Tensor root = s.sqrt();
  const Tensor B = root.unsqueeze(1) * V.t();  // [rank, n]
  const Tensor A = torch::diag(1 - s);
  Tensor weight = root.unsqueeze(1) * V.t().mm(state.mm(V)) * root;
  weight = (weight + weight.t()) / 2;
  const Tensor RB = R.dim() == 1 ? B.t() / R.unsqueeze(1)
                                 : torch::cholesky_solve(B.t(), torch::linalg_cholesky(input));
  Tensor effect = B.mm(RB);
  effect = (effect + effect.t()) / 2;
  const auto doubled =
      refine_modes(s, effect, weight, double_riccati(A, effect, weight, options), options);
  if (!doubled.converged) {
    throw NumericalError(
        c10::str("the Riccati iteration did not converge in ", doubled.iterations, " iterations"));
  }

  // In all eigenvectors U of Θ, M = R + BᵀPB is R plus Λ^½P_zΛ^½ on the reachable block, and
  //   K = M⁻¹Λ^½P_z(I − Λ)Λ^(−½),   I + K = M⁻¹(R + Λ^½P_zΛ^(−½)).
  // M is graded by the steps, and its Cholesky factors keep the digits of every mode.
  const Tensor& U = modes.vectors;
  const auto on_reachable = [&](const Tensor& block) {
    return torch::constant_pad_nd(block, {first, 0, first, 0});
  };
  const Tensor R_modal = U.t().mm(input.mm(U));
  const Tensor left = root.unsqueeze(1) * doubled.P;  // Λ^½P_z
  const Tensor M = R_modal + on_reachable(left * root);
  const Tensor sides =
      torch::cat({on_reachable(left * ((1 - s) / root)), R_modal + on_reachable(left / root)}, 1);
  const auto [factor, failed] = torch::linalg_cholesky_ex((M + M.t()) / 2);
  if (failed.item<int>() != 0) {
    throw NumericalError("R + BᵀPB is not positive definite: the problem is too ill-conditioned");
  }
  const Tensor solved = torch::cholesky_solve(sides, factor);
  const auto from_modal = [&](const Tensor& modal) { return U.mm(modal.mm(U.t())); };

  GainController::Gain found;
  found.name = "lqr with weights Q and R, a gain matrix";
  found.optimal = "the sum of e'Qe + y_u'R y_u over all steps";
  found.rank = rank;
  found.gain = from_modal(solved.narrow(1, 0, n));
  found.steering = from_modal(solved.narrow(1, n, n));
  const Tensor back = V / root;  // VΛ^(−½)
  found.cost = back.mm(doubled.P.mm(back.t()));
  found.iterations = doubled.iterations;
  found.residual = relative_residual(A, doubled.P, weight, doubled.closed);
  found.radius = spectral_radius(doubled.closed);
  require_converged({doubled.P, found.gain, found.residual, found.radius, found.iterations});
  return found;
}

}  // namespace cdt::control
