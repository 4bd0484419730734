/// A linearization of rows that several ranks share.
#pragma once

#include <cdt/kernel/linearization.h>
#include <cdt/train/ranks.h>

#include <memory>

namespace cdt::train {

/// `own` on the samples of this rank, as part of that of all: products with J and vectors of
/// outputs are this rank's, and whatever is a sum over samples, JᵀV (then in float64), Gram matrix,
/// trace and dot, is over those of all ranks. There is no kernel of all. One rank alone has it as
/// it is.
kernel::LinearizationPtr shared(kernel::LinearizationPtr own, std::shared_ptr<const Ranks> ranks);

}  // namespace cdt::train
