// Plain gradient descent, for comparison.
#include <cdt/control/designs/designs.h>

namespace cdt::control {

Design descent_design() {
  return {"descent", "plain descent, which asks nothing of the labels",
          [](const Plant& plant, const ControlProblem& problem) -> std::unique_ptr<Controller> {
            require_scalar_weights(problem, "descent");
            return std::make_unique<ModalController>(plant, descent());
          }};
}

}  // namespace cdt::control
