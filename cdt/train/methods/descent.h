/// Gradient descent.
#pragma once

#include <cdt/train/method.h>

namespace cdt::train {

/// At α.
std::unique_ptr<StepMethod> make_gd(std::shared_ptr<const Setup> setup);
/// At α√(1 + q/p), what CDT does to slow modes: the fair baseline.
std::unique_ptr<StepMethod> make_gd_matched(std::shared_ptr<const Setup> setup);

}  // namespace cdt::train
