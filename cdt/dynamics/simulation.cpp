#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/simulation.h>

namespace cdt::dynamics {
namespace {

using torch::Tensor;

/// Runs e⁺ = e − S(e − y_u(k, e)); y_u is undefined for gradient descent.
template <class Augment>
Trajectory run(const Tensor& S, const Tensor& initial_error, int64_t steps,
               const Augment& augment) {
  require_square(S, "S");
  const int64_t n = S.size(0);
  require_shape(initial_error, {n}, "initial_error");
  require_finite(initial_error, "initial_error");
  CDT_REQUIRE(steps >= 0, "steps must be zero or more, got ", steps);
  Trajectory trajectory{torch::empty({steps + 1, n}, S.options()),
                        torch::zeros({steps, n}, S.options())};
  trajectory.errors[0].copy_(initial_error);
  for (int64_t k = 0; k < steps; ++k) {
    const Tensor e = trajectory.errors[k];
    const Tensor augments = augment(k, e);
    if (augments.defined()) trajectory.augments[k].copy_(augments);
    trajectory.errors[k + 1].copy_(e - S.mv(e - trajectory.augments[k]));
  }
  if (!torch::isfinite(trajectory.errors).all().item<bool>()) {
    throw NumericalError(c10::str("the local dynamics overflows within ", steps, " steps"));
  }
  return trajectory;
}

}  // namespace

Tensor step_matrix(const Tensor& theta, double step_scale) {
  require_kernel(theta);
  require_non_negative(step_scale, "step_scale");
  return theta * step_scale;
}

Trajectory simulate(const Tensor& S, const Tensor& initial_error, int64_t steps,
                    const std::optional<Tensor>& K) {
  require_square(S, "S");
  if (K) {
    require_square(*K, "K");
    require_shape(*K, {S.size(0), S.size(0)}, "K");
  }
  return run(S, initial_error, steps,
             [&](int64_t, const Tensor& e) { return K ? -K->mv(e) : Tensor(); });
}

Trajectory simulate_augments(const Tensor& S, const Tensor& initial_error, const Tensor& augments) {
  require_square(S, "S");
  require_shape(augments, {-1, S.size(0)}, "augments");
  require_finite(augments, "augments");
  return run(S, initial_error, augments.size(0),
             [&](int64_t k, const Tensor&) { return augments[k]; });
}

}  // namespace cdt::dynamics
