/// How much memory there is.
#pragma once

#include <c10/core/Device.h>
#include <cdt/core/error.h>

#include <cstdint>
#include <string_view>

namespace cdt {

/// Bytes that the system could hand out now, as far as it tells.
int64_t available_memory();

/// The most bytes that this process has held so far.
int64_t peak_memory();
/// The most bytes of tensors that it has held on a GPU; 0 on the CPU, and where LibTorch (before
/// 2.11) does not tell.
int64_t peak_memory_of(c10::Device device);

/// @throws InvalidArgument if there is not so much: the message begins with `what`, and says how
///   much it needs and what there is.
void require_memory(double bytes, std::string_view what);

}  // namespace cdt
