/// How counts and numbers are written; for the sources of this project alone.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cdt {

/// "3 rows" or "1 row".
inline std::string count_of(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// A factor per step; one that is nearly 1 by its distance from it.
inline std::string radius_text(double radius) {
  const bool close = radius < 1 && radius > 1 - 1e-4;
  return close ? fmt::format("1 − {:.3g}", 1 - radius) : fmt::format("{:.6g}", radius);
}

/// JSON has no infinite or unknown numbers: they are null.
inline nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace cdt
