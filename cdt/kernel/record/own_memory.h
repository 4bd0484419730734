/// Checks whether the entries of a parameter can be written independently.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// Whether two entries of a tensor share memory: an expanded view, or overlapping windows.
bool entries_share_memory(const torch::Tensor& tensor);

/// Call before moving or restoring parameters.
/// @throws InvalidArgument if entries of a parameter share memory; the message has its index.
void require_own_memory(const Model& model);

}  // namespace cdt::kernel
