/// Formatting of counts and numbers; internal to this project.
#pragma once

#include <cdt/core/text/wrap.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cdt {

/// "3 rows" or "1 row".
inline std::string count_of(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// "3, 17, 40", truncated for long lists.
inline std::string list_rows(const std::vector<int64_t>& rows) {
  constexpr size_t kShown = 8;
  const size_t shown = std::min(rows.size(), kShown);
  std::string text = fmt::format("{}", fmt::join(rows.begin(), rows.begin() + shown, ", "));
  if (rows.size() > shown) text += fmt::format(" and {} more", rows.size() - shown);
  return text;
}

/// A number with this many significant digits; integers below ten millions in full, not as 2.3e+04.
inline std::string plain(double value, int digits = 4) {
  const double size = std::abs(value);
  return size >= std::pow(10, digits) && size < 1e7 ? fmt::format("{:.0f}", value)
                                                    : fmt::format("{:.{}g}", value, digits);
}

/// A factor per step; if nearly 1, by its distance from 1.
inline std::string radius_text(double radius) {
  const bool close = radius < 1 && radius > 1 - 1e-4;
  return close ? fmt::format("1 − {:.3g}", 1 - radius) : fmt::format("{:.6g}", radius);
}

/// JSON has no non-finite numbers: they become null.
inline nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

/// A line of a report of verdicts.
inline std::string verdict_line(std::string_view subject, std::string_view word,
                                std::string_view detail) {
  return wrap(fmt::format("  {:<20}{:<14}{}\n", subject, word, detail), 36);
}

/// A title with wrapped bullet points; nothing if there are none.
inline void append_section(std::string& out, const std::string& title,
                           const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  out += "\n" + title + "\n";
  for (const std::string& line : lines) out += wrap("  • " + line, 4) + "\n";
}

}  // namespace cdt
