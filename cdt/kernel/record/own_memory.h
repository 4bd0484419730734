/// Whether the entries of a parameter can be written one by one.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// Whether two entries of a tensor lie at one place of its memory: an expanded view, or windows
/// that overlap.
bool entries_share_memory(const torch::Tensor& tensor);

/// For all that moves parameters, or puts them back.
/// @throws InvalidArgument if entries of a parameter share memory; the message has its place.
void require_own_memory(const Model& model);

}  // namespace cdt::kernel
