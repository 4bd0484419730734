// The design of guarded steps: the least error after one step.
#include <cdt/control/designs/designs.h>

namespace cdt::control {

Design damped_design() {
  return {"damped", "least |e|^2 + mu|step|^2 after one step, as far as lqr in slow modes",
          [](const Plant& plant, const ControlProblem& problem) -> std::unique_ptr<Controller> {
            require_scalar_weights(problem, "damped");
            return std::make_unique<ModalController>(plant,
                                                     damped(damping_like(problem.q, problem.p)));
          }};
}

}  // namespace cdt::control
