/// Cuts a kernel into blocks that fit the memory limit.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/factor/factors.h>

#include <vector>

namespace cdt::kernel {

/// Rows of the Jacobian for some samples and some outputs.
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

  /// Blocks for all samples with `width` outputs each, samples in the outer loop.
  std::vector<Block> blocks(int64_t all_samples, int64_t width) const;
};

/// One block if factors and graph of all samples fit. Otherwise blocks of which `at_a_time` fit: of
/// all outputs if a block then has enough samples for an efficient backward pass, else of fewer
/// outputs.
/// @throws InvalidArgument if one output of one sample does not fit.
BlockPlan plan_blocks(const FactorCost& cost, int64_t samples, int64_t memory_bytes,
                      int64_t at_a_time = 2);

}  // namespace cdt::kernel
