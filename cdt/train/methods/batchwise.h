/// Guarded training by the form of batches (batch_momentum.h): a batch a step, and the guard of
/// epochs (epoch_guard.h) over all of them.
#pragma once

#include <cdt/train/method.h>

namespace cdt::train {

/// What make_guarded makes of the form kBatch.
std::unique_ptr<StepMethod> make_batchwise(std::shared_ptr<const Setup> setup);

}  // namespace cdt::train
