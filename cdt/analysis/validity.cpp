#include <cdt/analysis/validity.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/bounds.h>

#include <cmath>

namespace cdt::analysis {
namespace {

using torch::Tensor;

void require_rows(const Tensor& values, c10::IntArrayRef shape, std::string_view name) {
  require_floating(values, name);
  require_shape(values, shape, name);
  CDT_REQUIRE(values.scalar_type() == torch::kFloat64, name, " must be float64, got ",
              values.scalar_type());
}

/// Rows before the first that is not finite in either tensor.
int64_t finite_rows(const Tensor& a, const Tensor& b) {
  const Tensor finite = torch::isfinite(a).all(1).logical_and(torch::isfinite(b).all(1)).cpu();
  int64_t rows = 0;
  while (rows < finite.size(0) && finite[rows].item<bool>()) ++rows;
  return rows;
}

}  // namespace

double lipschitz_estimate(const Tensor& trajectory) {
  require_rows(trajectory, {-1, -1}, "trajectory");
  require_finite(trajectory, "trajectory");
  if (trajectory.size(0) < 3) return 0;
  constexpr int64_t kExactDistances = 2;  // not through inner products, which cancel
  const Tensor distances = torch::cdist(trajectory, trajectory, 2.0, kExactDistances);
  const int64_t last = trajectory.size(0) - 1;
  const Tensor before = distances.narrow(0, 0, last).narrow(1, 0, last);
  const Tensor after = distances.narrow(0, 1, last).narrow(1, 1, last);
  const Tensor sizes = trajectory.narrow(0, 0, last).norm(2, 1);
  const Tensor apart = before > tol::kDistinctOutputs * (sizes.unsqueeze(1) + sizes);
  if (!apart.any().item<bool>()) return 0;
  return (after.masked_select(apart) / before.masked_select(apart)).max().item<double>();
}

bool ValidityBound::violated(double local_distance, double lagrange) const {
  return !(local_distance <= distance - lagrange + tol::kValiditySlack * initial_distance);
}

TrialFindings assess_trial(const Trial& trial) {
  require_rows(trial.outputs, {-1, -1}, "outputs");
  const int64_t rows = trial.outputs.size(0);
  CDT_REQUIRE(rows >= 2, "a trial needs at least one step; it has ", rows, " rows of outputs");
  require_rows(trial.local_outputs, trial.outputs.sizes(), "local_outputs");
  require_rows(trial.displacements, {rows}, "displacements");
  require_rows(trial.target, {trial.outputs.size(1)}, "target");
  require_finite(trial.target, "target");
  require_finite(trial.outputs[0], "the first outputs");
  require_finite(trial.local_outputs[0], "the first local outputs");
  require_non_negative(trial.hessian_norm, "hessian_norm");

  TrialFindings found;
  found.controlled = trial.controlled;
  const Tensor lengths = trial.displacements.cpu();
  int64_t finite = finite_rows(trial.outputs, trial.local_outputs);
  // Parameters may overflow while the outputs do not yet: tanh hides it.
  const Tensor overflown = torch::isfinite(lengths).logical_not().nonzero();
  if (overflown.numel() > 0) finite = std::min(finite, overflown.min().item<int64_t>());
  found.steps = finite - 1;
  found.diverged = finite < rows;
  found.hessian_norm = trial.hessian_norm;
  found.hessian_accuracy = trial.hessian_accuracy;
  const Tensor outputs = trial.outputs.narrow(0, 0, finite);
  const Tensor local = trial.local_outputs.narrow(0, 0, finite);
  found.lipschitz = lipschitz_estimate(outputs);
  found.lipschitz_local = trial.kappa;
  found.linearization_error = (outputs[-1] - local[-1]).norm().item<double>();
  const double way = (outputs[-1] - outputs[0]).norm().item<double>();
  found.relative_error = way > 0 ? found.linearization_error / way : 0;
  const Tensor distances = (local - trial.target).norm(2, 1).cpu();
  ValidityBound bound{distances[0].item<double>()};
  for (int64_t k = 0; k < finite; ++k) {
    found.lagrange_bound = dynamics::lagrange_bound(trial.hessian_norm, lengths[k].item<double>());
    bound.distance = dynamics::global_bound(trial.gamma, trial.kappa, k, bound.initial_distance, 0);
    if (!found.kc && bound.violated(distances[k].item<double>(), found.lagrange_bound))
      found.kc = k;
  }
  if (found.diverged && !found.kc) found.kc = finite;
  return found;
}

void TrialFindings::fields(Fields& f) {
  f.spelled(
      "method", controlled, [](bool steered) { return steered ? "cdt" : "gd"; },
      [](std::string_view text) { return text == "cdt"; });
  f("steps", steps);
  f("diverged", diverged);
  f("lipschitz", lipschitz);
  f("lipschitz_local", lipschitz_local);
  f("linearization_error", linearization_error);
  f("linearization_error_relative", relative_error);
  f("lagrange_bound", lagrange_bound);
  f("hessian_norm", hessian_norm);
  f("hessian_norm_accuracy", hessian_accuracy);
  f("kc", kc);
}

}  // namespace cdt::analysis
