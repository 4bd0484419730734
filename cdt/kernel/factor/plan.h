/// How a kernel is cut into blocks that fit a memory budget.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/factor/factors.h>

#include <vector>

namespace cdt::kernel {

/// Rows of the Jacobian: those of some samples and some outputs.
struct Block {
  int64_t first = 0;
  int64_t samples = 0;
  int64_t first_output = 0;
  int64_t outputs = 0;
};

/// The largest block of a plan.
struct BlockPlan {
  int64_t samples = 1;
  int64_t outputs = 1;

  /// All rows of so many samples with `width` outputs each, samples in the outer loop.
  std::vector<Block> blocks(int64_t all_samples, int64_t width) const;
};

/// One block if factors and graph of all samples fit. Otherwise blocks of which `at_a_time` fit:
/// of all outputs where that leaves enough samples for one backward pass to be worth its while,
/// of fewer outputs where it does not.
/// @throws InvalidArgument if one output of one sample does not fit.
BlockPlan plan_blocks(const FactorCost& cost, int64_t samples, int64_t memory_bytes,
                      int64_t at_a_time = 2);

}  // namespace cdt::kernel
