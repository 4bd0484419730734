/// How much memory there is.
#pragma once

#include <cstdint>
#include <string_view>

namespace cdt {

/// Bytes that the system could hand out now, as far as it tells.
int64_t available_memory();

/// @throws InvalidArgument if there is not so much: the message begins with `what`, and says how
///   much it needs and what there is.
void require_memory(double bytes, std::string_view what);

}  // namespace cdt
