/// LibTorch's own optimizers as baselines.
#pragma once

#include <cdt/train/method.h>

namespace cdt::train {

/// Nesterov momentum 0.9.
std::unique_ptr<StepMethod> make_momentum(std::shared_ptr<const Setup> setup);
std::unique_ptr<StepMethod> make_adam(std::shared_ptr<const Setup> setup);
/// With a strong Wolfe line search; 20 iterations a step.
std::unique_ptr<StepMethod> make_lbfgs(std::shared_ptr<const Setup> setup);

}  // namespace cdt::train
