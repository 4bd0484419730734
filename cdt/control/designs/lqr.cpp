// The paper's controller: the least cost over all future steps.
#include <cdt/control/designs/designs.h>
#include <cdt/control/designs/weighted_gain.h>
#include <cdt/core/check.h>

namespace cdt::control {
namespace {

using torch::Tensor;

GainController::Gain gain_of(const Plant& plant, const ControlProblem& problem) {
  const auto options = plant.modes().values.options();
  const auto weight = [&](const Tensor& given, double scalar) {
    return given.defined() ? given.to(options) : torch::full({plant.size()}, scalar, options);
  };
  return weighted_gain(plant, weight(problem.Q, problem.q), weight(problem.R, problem.p));
}

std::unique_ptr<Controller> make_lqr(const Plant& plant, const ControlProblem& problem) {
  CDT_REQUIRE(plant.classes() == nullptr || plant.modes().rank > 0,
              "no label moves a sample's logits against each other");
  if (!problem.Q.defined() && !problem.R.defined()) {
    return std::make_unique<ModalController>(plant, lqr(problem.q, problem.p, problem.shape));
  }
  CDT_REQUIRE(!problem.shape,
              "weights Q and R and spectral shaping exclude each other: weighted "
              "errors have no common eigenbasis with the kernel");
  return std::make_unique<GainController>(
      plant, gain_of(plant, problem),
      [problem](const Plant& next) { return gain_of(next, problem); });
}

}  // namespace

Design lqr_design() {
  return {"lqr", "least cost q|e|^2 + p|y_u|^2 over all steps to come", make_lqr};
}

}  // namespace cdt::control
