/// Amount of memory.
#pragma once

#include <c10/core/Device.h>
#include <cdt/core/error.h>

#include <cstdint>
#include <string_view>

namespace cdt {

/// Bytes that the system could provide now, as far as it reports.
int64_t available_memory();

/// Peak memory of this process in bytes.
int64_t peak_memory();
/// Peak bytes of tensors on a GPU; 0 on the CPU, and if LibTorch (before 2.11) does not report it.
int64_t peak_memory_of(c10::Device device);

/// @throws InvalidArgument if less memory is available; the message begins with `what`, and gives
///   both amounts.
void require_memory(double bytes, std::string_view what);

}  // namespace cdt
