/// Plants of a kernel or its modes at a step αc, and the two kinds of optimal controllers for them.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/control/designs/weighted_gain.h>
#include <cdt/core/tolerance.h>

namespace cdt::test {

inline control::Plant plant_of(const torch::Tensor& theta, double step,
                               torch::ScalarType network_dtype = torch::kFloat32) {
  return control::Plant::of_kernel(theta, cdt::tol::rank_of_computed(theta.size(0), network_dtype),
                                   {.rate = step});
}
inline control::Plant plant_of(const dynamics::Modes& modes, double step) {
  return control::Plant::of_modes(modes, {.rate = step});
}

/// The optimal controller for scalar weights q and p, mode by mode.
template <class Kernel>
control::ModalController lqr_of(const Kernel& kernel, double step, double q = 1, double p = 0.1) {
  return {plant_of(kernel, step), control::lqr(q, p)};
}

/// The optimal gain for weight matrices Q and R.
inline control::GainController::Gain gain_of(const dynamics::Modes& modes, double step,
                                             const torch::Tensor& Q, const torch::Tensor& R,
                                             const control::RiccatiOptions& options = {}) {
  return control::weighted_gain(plant_of(modes, step), Q, R, options);
}
inline control::GainController weighted_of(const dynamics::Modes& modes, double step,
                                           const torch::Tensor& Q, const torch::Tensor& R) {
  return {plant_of(modes, step), gain_of(modes, step, Q, R)};
}

}  // namespace cdt::test
