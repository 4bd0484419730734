/// Memory required for a tensor shape from a file.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <cdt/core/error.h>

#include <algorithm>
#include <string>

namespace cdt {

/// Bytes of a tensor. Empty dimensions count as one in the overflow check, since strides are
/// products too.
/// @throws InvalidArgument, starting with `where`, if the number overflows.
inline int64_t byte_count(c10::ScalarType dtype, c10::IntArrayRef shape, const std::string& where) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  bool empty = false;
  bool overflow = false;
  for (const int64_t size : shape) {
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  }
  CDT_REQUIRE(!overflow, where, "expected a shape whose bytes can be counted in 63 bits, got ",
              shape);
  return empty ? 0 : bytes;
}

}  // namespace cdt
