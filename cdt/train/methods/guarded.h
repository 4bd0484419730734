/// Guarded CDT, a trust-region method in function space: every step is checked (guard.h).
#pragma once

#include <cdt/train/method.h>

namespace cdt::train {

std::unique_ptr<StepMethod> make_guarded(std::shared_ptr<const Setup> setup);

}  // namespace cdt::train
