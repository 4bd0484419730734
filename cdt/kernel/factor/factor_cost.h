/// Which of two forms the factors of a weight take, by what they cost. What they cost as a whole,
/// factors.h declares.
#pragma once

#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/record/recorder.h>

#include <set>

namespace cdt::kernel {

/// Weights whose J is cheaper as rows, by the positions of all their uses; those that meet
/// themselves in other shapes; and all that has to do with computed operands.
std::set<size_t> weights_as_rows(const Model& model, const Recording& recording,
                                 const FactorOptions& options);

}  // namespace cdt::kernel
