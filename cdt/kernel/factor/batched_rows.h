/// Jacobian rows of residuals that belong to no samples, by backward passes for many vectors at
/// once.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <vector>

namespace cdt::kernel {

/// J [n, P] of residuals with their graph, any shape, in their dtype; columns by parameter. Keeps
/// the graph.
/// @throws InvalidArgument if J and its float64 copy for products exceed `memory_bytes`.
torch::Tensor batched_rows(const torch::Tensor& residuals,
                           const std::vector<torch::Tensor>& parameters, int64_t memory_bytes);

}  // namespace cdt::kernel
