#include "cdt/data/targets.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cdt/core/error.h"

namespace cdt::data {
namespace {

/// Beyond this, labels are whole numbers that float64 no longer tells apart.
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

/// The label as text, the way classes are named. It must be there.
std::string label_of(const Table& table, const Column& column, int64_t row) {
  const auto i = static_cast<size_t>(row);
  if (column.type == ColumnType::kText)
    return column.categories[static_cast<size_t>(column.codes[i])];
  const double value = column.numbers[i];
  CDT_REQUIRE(value == std::floor(value) && std::abs(value) < kLargestLabel, table.source, ":",
              table.lines[i], ": expected text or a whole number as class in column ",
              in_quotes(column.name), ", but came ", value,
              "; a number is learned as a target that is not a class, with a quadratic loss");
  return std::to_string(static_cast<int64_t>(value));
}

}  // namespace

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
    for (int64_t row = 0; row < table.rows(); ++row) {
      if (column.is_missing(row)) continue;
      label_of(table, column, row);  // checks
      values.insert(column.numbers[static_cast<size_t>(row)]);
    }
    for (const double value : values)
      target.classes.push_back(std::to_string(static_cast<int64_t>(value)));
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
    const std::string label = label_of(table, column, row);
    const auto found = std::find(target.classes.begin(), target.classes.end(), label);
    CDT_REQUIRE(found != target.classes.end(), table.source, ":",
                table.lines[static_cast<size_t>(row)], ": expected a known class in column ",
                in_quotes(target.name), ", but came ", in_quotes(label), "; known are ",
                list_names(target.classes));
    indices.push_back(found - target.classes.begin());
  }
  return indices;
}

}  // namespace cdt::data
