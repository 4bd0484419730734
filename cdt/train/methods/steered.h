/// CDT, the paper's Algorithm 1: labels steered by a gain.
#pragma once

#include <cdt/train/method.h>

namespace cdt::train {

std::unique_ptr<StepMethod> make_steered(std::shared_ptr<const Setup> setup);

}  // namespace cdt::train
