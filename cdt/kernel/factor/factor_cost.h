/// Chooses between outer products and rows for a weight's factors, by cost. factors.h declares the
/// total cost.
#pragma once

#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/record/recorder.h>

#include <set>

namespace cdt::kernel {

/// Weights whose J is cheaper as rows, given the positions of all their uses; weights used in
/// several shapes; and all that involve computed operands.
std::set<size_t> weights_as_rows(const Model& model, const Recording& recording,
                                 const FactorOptions& options);

}  // namespace cdt::kernel
