/// Rows of the Jacobian of residuals that belong to no samples: backward passes for many vectors at
/// once, over all of the residuals.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <vector>

namespace cdt::kernel {

/// J [n, P] of residuals with their graph, any shape, in their dtype; columns by parameter. The
/// graph stays.
/// @throws InvalidArgument if J, and a copy in float64 that products want, take more than so many
///   bytes.
torch::Tensor batched_rows(const torch::Tensor& residuals,
                           const std::vector<torch::Tensor>& parameters, int64_t memory_bytes);

}  // namespace cdt::kernel
