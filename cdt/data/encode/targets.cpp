#include "cdt/data/encode/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cdt/core/error.h"

namespace cdt::data {
namespace {

/// Larger integer labels cannot be distinguished in float64.
constexpr double kLargestLabel = 9007199254740992.0;

void require_present(const Table& table, const Column& column, const std::vector<int64_t>& rows) {
  std::vector<int64_t> missing;
  for (const int64_t row : rows) {
    if (column.is_missing(row)) missing.push_back(table.lines[static_cast<size_t>(row)]);
  }
  if (missing.empty()) return;
  std::sort(missing.begin(), missing.end());
  constexpr size_t kShown = 10;
  std::string lines;
  for (size_t i = 0; i < std::min(missing.size(), kShown); ++i)
    lines += (i > 0 ? ", " : "") + std::to_string(missing[i]);
  if (missing.size() > kShown) lines += c10::str(" and ", missing.size() - kShown, " more");
  throw InvalidArgument(c10::str(table.source, ": expected the target ", in_quotes(column.name),
                                 " in every row, but it is missing in line",
                                 missing.size() > 1 ? "s " : " ", lines));
}

bool is_label(double value) {
  return value == std::floor(value) && std::abs(value) < kLargestLabel;
}

std::string label_of(double value) {
  return is_label(value) ? std::to_string(static_cast<int64_t>(value)) : fmt::format("{}", value);
}

/// The label as text, as in class names. It must not be missing.
std::string label_at(const Column& column, int64_t row) {
  const auto i = static_cast<size_t>(row);
  return column.type == ColumnType::kText ? column.categories[static_cast<size_t>(column.codes[i])]
                                          : label_of(column.numbers[i]);
}

void require_label(const Table& table, const Column& column, int64_t row) {
  if (column.type == ColumnType::kText) return;
  const auto i = static_cast<size_t>(row);
  const double value = column.numbers[i];
  CDT_REQUIRE(is_label(value), table.source, ":", table.lines[i],
              ": expected text or a whole number as class in column ", in_quotes(column.name),
              ", got ", value,
              "; a number is learned as a target that is not a class, with a quadratic loss");
}

/// Finds the class by value if the texts differ: "1.0" is the class "1".
size_t class_of(const TargetColumn& target, const std::string& label) {
  const auto& classes = target.classes;
  const auto found = std::find(classes.begin(), classes.end(), label);
  if (found != classes.end()) return static_cast<size_t>(found - classes.begin());
  const auto key = value_key(label);
  const auto equals = [&](const std::string& each) { return key && value_key(each) == key; };
  const auto first = std::find_if(classes.begin(), classes.end(), equals);
  const bool one =
      first != classes.end() && std::find_if(first + 1, classes.end(), equals) == classes.end();
  return one ? static_cast<size_t>(first - classes.begin()) : classes.size();
}

}  // namespace

bool has_two_values(const Column& column) {
  std::optional<double> first, second;
  for (const double value : column.numbers) {
    if (std::isnan(value) || value == first || value == second) continue;
    if (second) return false;
    (first ? second : first) = value;
  }
  return second.has_value();
}

std::vector<double> target_values(const Table& table, const std::string& name,
                                  const std::vector<int64_t>& rows) {
  const Column& column = table.at(name);
  require_numeric(table, column, "the target",
                  "; text is learned as classes, with the loss cross-entropy");
  require_present(table, column, rows);
  std::vector<double> values;
  values.reserve(rows.size());
  for (const int64_t row : rows) values.push_back(column.numbers[static_cast<size_t>(row)]);
  return values;
}

TargetColumn fit_classes(const Table& table, const std::string& name,
                         const std::vector<int64_t>& rows) {
  const Column& column = table.at(name);
  require_present(table, column, rows);
  TargetColumn target;
  target.name = name;
  target.type = column.type;
  if (column.type == ColumnType::kText) {
    target.classes = column.categories;
  } else {
    std::set<double> values;
    const bool two = has_two_values(column);
    for (int64_t row = 0; row < table.rows(); ++row) {
      if (column.is_missing(row)) continue;
      if (!two) require_label(table, column, row);
      values.insert(column.numbers[static_cast<size_t>(row)]);
    }
    for (const double value : values) target.classes.push_back(label_of(value));
  }
  const auto count = static_cast<int64_t>(target.classes.size());
  CDT_REQUIRE(2 * count <= table.rows(), table.source, ": expected two rows or more a class, but ",
              in_quotes(name), " has ", count, " classes in ", table.rows(),
              " rows; is it a number to learn (loss mse, for example), or an identifier?");
  const std::vector<int64_t> seen = class_indices(table, target, rows);
  CDT_REQUIRE(std::any_of(seen.begin(), seen.end(), [&](int64_t i) { return i != seen.front(); }),
              table.source, ": expected two classes or more, but ", in_quotes(name), " is ",
              in_quotes(target.classes[static_cast<size_t>(seen.front())]), " in all ", rows.size(),
              " rows fitted on");
  return target;
}

std::vector<int64_t> class_indices(const Table& table, const TargetColumn& target,
                                   const std::vector<int64_t>& rows) {
  const Column& column = table.at(target.name);
  require_present(table, column, rows);
  std::vector<int64_t> indices;
  indices.reserve(rows.size());
  for (const int64_t row : rows) {
    const std::string label = label_at(column, row);
    const size_t found = class_of(target, label);
    if (found == target.classes.size()) require_label(table, column, row);
    CDT_REQUIRE(found < target.classes.size(), table.source, ":",
                table.lines[static_cast<size_t>(row)], ": expected a known class in column ",
                in_quotes(target.name), ", got ", in_quotes(label), "; known are ",
                list_nearest(target.classes, label));
    indices.push_back(static_cast<int64_t>(found));
  }
  return indices;
}

}  // namespace cdt::data
