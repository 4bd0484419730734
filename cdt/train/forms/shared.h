/// A linearization of rows that several ranks share.
#pragma once

#include <cdt/kernel/linearization.h>
#include <cdt/train/ranks.h>

#include <memory>

namespace cdt::train {

/// Wraps `own`, the linearization of this rank's samples, as part of that of all samples. Products
/// with J and vectors of outputs belong to this rank; sums over samples (JᵀV, then in float64, the
/// Gram matrix, trace and dot) run over all ranks. There is no kernel of all samples. With a single
/// rank, returns `own`.
kernel::LinearizationPtr shared(kernel::LinearizationPtr own, std::shared_ptr<const Ranks> ranks);

}  // namespace cdt::train
