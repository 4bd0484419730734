#include <cdt/control/controller.h>
#include <cdt/control/general.h>
#include <cdt/core/check.h>
#include <fmt/format.h>

namespace cdt::control {
namespace {

using torch::Tensor;

/// The gain of general weights, from the Riccati equation of the plant.
GainController::Gain general_gain(const Plant& plant, const ControlProblem& problem) {
  dynamics::Modes modes = plant.modes();
  if (const double ridge = plant.ridge(); ridge > 0) modes.values = modes.values + ridge;
  const auto weight = [&](const Tensor& given, double scalar) {
    return given.defined() ? given.to(modes.values.options())
                           : torch::full({plant.size()}, scalar, modes.values.options());
  };
  const auto found = design_general(modes, plant.step_scale(), weight(problem.Q, problem.q),
                                    weight(problem.R, problem.p));
  return {.steering = found.steering,
          .cost = found.P,
          .name = "lqr with weights Q and R, a gain matrix",
          .optimal = "the sum of e'Qe + y_u'R y_u over all steps",
          .residual = found.relative_residual,
          .radius = found.closed_loop_radius};
}

std::unique_ptr<Controller> make_lqr(const Plant& plant, const ControlProblem& problem) {
  if (!problem.Q.defined() && !problem.R.defined()) {
    return std::make_unique<ModalController>(plant, lqr(problem.q, problem.p, problem.shape));
  }
  CDT_REQUIRE(!problem.shape,
              "weights Q and R and spectral shaping exclude each other: weighted "
              "errors have no common eigenbasis with the kernel");
  return std::make_unique<GainController>(
      plant, general_gain(plant, problem),
      [problem](const Plant& next) { return general_gain(next, problem); });
}

void require_scalar_weights(const ControlProblem& problem, std::string_view name) {
  CDT_REQUIRE(!problem.Q.defined() && !problem.R.defined() && !problem.shape, "the design ", name,
              " takes numbers q and p alone, no Q, R or shape; lqr does");
}

}  // namespace

std::vector<Design> designs() {
  return {{"lqr", "least cost q|e|^2 + p|y_u|^2 over all steps to come", make_lqr},
          {"damped", "least |e|^2 + mu|step|^2 after one step, as far as lqr in slow modes",
           [](const Plant& plant, const ControlProblem& problem) -> std::unique_ptr<Controller> {
             require_scalar_weights(problem, "damped");
             return std::make_unique<ModalController>(plant,
                                                      damped(damping_like(problem.q, problem.p)));
           }},
          {"descent", "plain descent, which asks nothing of the labels",
           [](const Plant& plant, const ControlProblem& problem) -> std::unique_ptr<Controller> {
             require_scalar_weights(problem, "descent");
             return std::make_unique<ModalController>(plant, descent());
           }}};
}

std::unique_ptr<Controller> design(const Plant& plant, const ControlProblem& problem,
                                   std::string_view name, const std::vector<Design>& table) {
  std::string known;
  for (const Design& each : table) {
    if (each.name == name) return each.make(plant, problem);
    known += (known.empty() ? "" : ", ") + each.name;
  }
  throw InvalidArgument(fmt::format("a design must be one of {}, not '{}'", known, name));
}

}  // namespace cdt::control
