/// Products of two blocks of Jacobian factors: a block of the kernel.
#pragma once

#include <cdt/kernel/factors.h>

#include <vector>

namespace cdt::kernel {

/// Some samples of a block.
struct SampleRange {
  const Factors& factors;
  int64_t first = 0;
  int64_t count = 0;
};

/// Adds the product of the rows of `a` and `b` to `cells` [a.count, c, b.count, c′], c and c′ being
/// the outputs of the blocks, and adds weight·(v_aᵀ Θ_g v_b) for each group g to `probes`.
/// Temporaries have about `slice` entries.
void add_product(const torch::Tensor& cells, const SampleRange& a, const SampleRange& b,
                 double weight, int64_t slice, std::vector<double>& probes);

}  // namespace cdt::kernel
