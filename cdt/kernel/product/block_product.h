/// Products of two blocks of Jacobian factors: a block of the kernel.
#pragma once

#include <cdt/kernel/factor/factors.h>

#include <vector>

namespace cdt::kernel {

/// Some samples of a block.
struct SampleRange {
  const Factors& factors;
  int64_t first = 0;
  int64_t count = 0;
};

/// The cells as a matrix [ni·c, nj·c′]; undefined where they have no such view, being some outputs
/// of several samples.
torch::Tensor as_matrix(const torch::Tensor& cells);

/// Adds the product of the rows of `a` and `b` that belong to group g of the parameters to `cells`
/// [a.count, c, b.count, c′], c and c′ being the outputs of the blocks, and weight·(Θ_g v_b) to
/// `image`, a vector of all rows of a's block, unless that is undefined. Of the product of a range
/// with itself the upper triangle alone is sure to be whole. Temporaries have about `slice`
/// entries.
void add_product(const torch::Tensor& cells, const SampleRange& a, const SampleRange& b, size_t g,
                 double weight, int64_t slice, const torch::Tensor& image);

}  // namespace cdt::kernel
