#include "cdt/data/table.h"

#include <algorithm>
#include <utility>

#include "cdt/core/error.h"
#include "cdt/core/text/nearest.h"
#include "cdt/core/text/text.h"

namespace cdt::data {
namespace {

/// "2,5" or "1,000": digits, a comma, digits.
bool has_number_with_comma(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const size_t comma = text.find(',');
  return comma != std::string_view::npos && comma > 0 && comma + 1 < text.size() &&
         text.find_first_not_of("0123456789,.") == std::string_view::npos;
}

}  // namespace

const Column* Table::find(std::string_view name) const {
  const size_t first = std::min(next.get(), columns.size());
  for (size_t k = 0; k < columns.size(); ++k) {
    const size_t i = first + k < columns.size() ? first + k : first + k - columns.size();
    if (columns[i].name != name) continue;
    next.set(i + 1);
    return &columns[i];
  }
  return nullptr;
}

const Column& Table::at(std::string_view name) const {
  const Column* column = find(name);
  if (column != nullptr) return *column;
  std::vector<std::string> names;
  names.reserve(columns.size());
  for (const Column& other : columns) names.push_back(other.name);
  names.insert(names.end(), left_out.begin(), left_out.end());
  refuse_column(source, name, names, delimiter);
}

void refuse_column(const std::string& source, std::string_view name,
                   const std::vector<std::string>& names, char delimiter) {
  std::string hint;
  const auto has = [&](std::string_view marks) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& each) {
      return each.find_first_of(marks) != std::string::npos;
    });
  };
  if (names.size() == 1 && has(",;\t|")) {
    hint = c10::str("; fields end at ", in_quotes({&delimiter, 1}), ": is the delimiter another?");
  } else if (has(",")) {
    hint = "; in a list, a name that has a comma stands in double quotes";
  } else if (const std::string meant = nearest_name(names, name); !meant.empty()) {
    hint = c10::str("; did you mean ", in_quotes(meant), "?");
  }
  throw InvalidArgument(c10::str(source, ": expected a column ", in_quotes(name),
                                 ", but the columns are ", list_nearest(names, name), hint));
}

void require_numeric(const Table& table, const Column& column, std::string_view role,
                     std::string_view advice) {
  if (column.type == ColumnType::kNumeric) return;
  const auto& why = column.not_numeric;
  CDT_REQUIRE(why, table.source, ": expected ", role, " ", in_quotes(column.name),
              " to be numeric, but ",
              column.understood.empty()
                  ? "it was read as text"
                  : "it has " + column.understood + ". Subtract what they have in common",
              advice);
  throw InvalidArgument(
      c10::str(table.source, ":", why->line, ": expected ", role, " ", in_quotes(column.name),
               " to be numeric, got ", in_quotes(why->text),
               why->others > 1
                   ? c10::str(" (", why->others, " cells are no numbers, ", why->numbers, " are)")
                   : "",
               advice));
}

std::vector<std::string> warnings_of(const Table& table) {
  std::vector<std::string> warnings;
  for (const Column& column : table.columns) {
    if (!column.warning.empty()) {
      warnings.push_back(
          c10::str(table.source, ": column ", in_quotes(column.name), ": ", column.warning));
      continue;
    }
    const auto& why = column.not_numeric;
    if (!why) continue;
    const bool comma = has_number_with_comma(why->text);
    if (!comma && why->numbers < 2 * why->others) continue;
    warnings.push_back(
        c10::str(table.source, ":", why->line, ": column ", in_quotes(column.name),
                 " is text, because of the cell ", in_quotes(why->text),
                 "; numbers: ", why->numbers, ", other cells: ", why->others,
                 comma ? " (write 2.5 and 1000 for numbers, not 2,5 or 1,000)" : ""));
  }
  return warnings;
}

std::string to_string(ColumnType type) { return type == ColumnType::kNumeric ? "numeric" : "text"; }

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 40;
  size_t end = std::min(text.size(), kShown);
  // Do not cut within a UTF-8 character.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return "\"" + printable_name(text.substr(0, end)) + (end < text.size() ? "...\"" : "\"");
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string list_nearest(std::vector<std::string> names, std::string_view name) {
  const std::string wanted = lower(name);
  std::vector<std::pair<size_t, std::string>> by_distance;
  for (std::string& each : names) {
    const size_t distance = 2 * edit_distance(lower(each), wanted) + (each == name ? 0 : 1);
    by_distance.emplace_back(distance, std::move(each));
  }
  std::ranges::stable_sort(by_distance, {}, [](const auto& each) { return each.first; });
  names.clear();
  for (auto& [distance, each] : by_distance) names.push_back(std::move(each));
  return list_names(names);
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
