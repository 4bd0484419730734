/// The decay path: from the linear model at the start to interpolation, one linearization a point
/// (docs/explanation/guard.md). What picks a point on it learns to predict.
///
/// Point k lowers F_k = ‖e‖² + τ_k‖θ − θ₀‖² (of the cross entropy Σ loss + ½τ_k‖θ − θ₀‖²) by one
/// guarded step from the point before, and τ falls by a factor after each. The recorded objective
/// is F_k in the units of the loss; since τ only falls, it never rises.
#pragma once

#include <cdt/train/method.h>

namespace cdt::train {

std::unique_ptr<StepMethod> make_path(std::shared_ptr<const Setup> setup);

}  // namespace cdt::train
