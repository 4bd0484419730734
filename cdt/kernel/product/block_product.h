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

/// The cells as a matrix [ni·c, nj·c′]; undefined if they have no such view, as for some outputs of
/// several samples.
torch::Tensor as_matrix(const torch::Tensor& cells);

/// Adds the product of the rows of `a` and `b` for parameter group g to `cells` [a.count, c,
/// b.count, c′], c and c′ the outputs of the blocks, and weight·(Θ_g v_b) to `image`, a vector of
/// all rows of a's block, unless undefined. For the product of a range with itself only the upper
/// triangle is guaranteed. Temporaries have about `slice` entries.
void add_product(const torch::Tensor& cells, const SampleRange& a, const SampleRange& b, size_t g,
                 double weight, int64_t slice, const torch::Tensor& image);

}  // namespace cdt::kernel
