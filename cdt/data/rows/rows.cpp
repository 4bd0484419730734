#include "cdt/data/rows/rows.h"

#include <algorithm>
#include <numeric>

#include "cdt/core/error.h"

namespace cdt::data {
namespace {

/// −1, 0 or 1; NaN is less than all numbers.
int compare_numbers(double a, double b) {
  const bool no_a = a != a, no_b = b != b;
  if (no_a || no_b) return static_cast<int>(no_b) - static_cast<int>(no_a);
  return static_cast<int>(a > b) - static_cast<int>(a < b);
}

int compare(const Column& column, size_t a, size_t b) {
  if (column.type == ColumnType::kNumeric) {
    return compare_numbers(column.numbers[a], column.numbers[b]);
  }
  const int32_t left = column.codes[a], right = column.codes[b];
  return static_cast<int>(left > right) - static_cast<int>(left < right);
}

}  // namespace

std::vector<int64_t> rows_by_content(const Table& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) {
    for (const Column& column : table.columns) {
      const int order = compare(column, static_cast<size_t>(a), static_cast<size_t>(b));
      if (order != 0) return order < 0;
    }
    return false;
  });
  return rows;
}

Table take_rows(const Table& table, const std::vector<int64_t>& rows) {
  for (const int64_t row : rows) {
    CDT_REQUIRE(row >= 0 && row < table.rows(), table.source, ": expected rows from 0 to ",
                table.rows() - 1, ", got ", row);
  }
  const auto taken = [&](const auto& values) {
    std::vector<typename std::decay_t<decltype(values)>::value_type> found;
    found.reserve(values.empty() ? 0 : rows.size());
    for (const int64_t row : rows) {
      if (!values.empty()) found.push_back(values[static_cast<size_t>(row)]);
    }
    return found;
  };
  Table some;
  some.source = table.source;
  some.checksum = table.checksum;
  some.delimiter = table.delimiter;
  some.inputs = table.inputs;
  some.pictures = table.pictures;
  some.lines = taken(table.lines);
  some.left_out = table.left_out;
  for (const Column& column : table.columns) {
    some.columns.push_back({column.name, column.type, taken(column.numbers), taken(column.codes),
                            column.categories, column.not_numeric, column.format, column.dates,
                            column.understood, column.warning});
  }
  return some;
}

}  // namespace cdt::data
