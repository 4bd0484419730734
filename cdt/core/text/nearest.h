/// Finds the known name closest to a mistyped one.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace cdt {

/// ASCII letters in lower case.
inline std::string lower(std::string_view text) {
  std::string found(text);
  for (char& c : found) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return found;
}

/// Letters to insert, delete, substitute or swap with the next one; uses the first 64 bytes of long
/// names.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  constexpr size_t kLongest = 64;
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  std::vector<size_t> row(b.size() + 1), before, earlier;
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    earlier = before;
    before = row;
    ++row[0];
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({before[j] + (a[i] == b[j] ? 0 : 1), before[j + 1] + 1, row[j] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], earlier[j - 1] + 1);
    }
  }
  return row[b.size()];
}

/// The first of the names nearest to `name`, ignoring case; "" if all differ in more than a third
/// of its letters.
inline std::string nearest_name(const std::vector<std::string>& known, std::string_view name) {
  const std::string wanted = lower(name);
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  std::string found;
  for (const std::string& each : known) {
    const size_t distance = edit_distance(lower(each), wanted);
    if (distance < std::min(least, each.size())) {
      least = distance;
      found = each;
    }
  }
  return found;
}

}  // namespace cdt
