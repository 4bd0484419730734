#include "cdt/data/table.h"

#include <algorithm>

#include "cdt/core/error.h"

namespace cdt::data {

const Column* Table::find(std::string_view name) const {
  const auto it = std::find_if(columns.begin(), columns.end(),
                               [&](const Column& column) { return column.name == name; });
  return it == columns.end() ? nullptr : &*it;
}

const Column& Table::at(std::string_view name) const {
  const Column* column = find(name);
  if (column != nullptr) return *column;
  std::vector<std::string> names;
  names.reserve(columns.size());
  for (const Column& other : columns) names.push_back(other.name);
  throw InvalidArgument(c10::str(source, ": expected a column ", in_quotes(name),
                                 ", but the columns are ", list_names(names)));
}

std::string to_string(ColumnType type) { return type == ColumnType::kNumeric ? "numeric" : "text"; }

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 40;
  size_t end = std::min(text.size(), kShown);
  // Not in the middle of a UTF-8 character.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  std::string shown = "\"";
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      shown += c;
    } else {
      shown += {'\\', 'x', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    }
  }
  return shown + (end < text.size() ? "...\"" : "\"");
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i > 0 ? ", " : "") + in_quotes(names[i]);
  }
  if (names.size() > kShown) text += c10::str(" and ", names.size() - kShown, " more");
  return text;
}

}  // namespace cdt::data
