#include "cdt/data/rows/blocks.h"

#include <algorithm>
#include <cmath>

#include "cdt/core/error.h"
#include "cdt/data/dates.h"

namespace cdt::data {
namespace {

/// The rank of each number among the distinct ones; NaN comes last.
std::vector<int64_t> ranks(const Numbers& numbers) {
  std::vector<double> sorted = numbers.to_vector();
  std::erase_if(sorted, [](double x) { return std::isnan(x); });
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<int64_t> found;
  found.reserve(numbers.size());
  for (const double number : numbers) {
    // Comparisons with NaN are false, so lower_bound would put it first.
    found.push_back(std::isnan(number)
                        ? static_cast<int64_t>(sorted.size())
                        : std::lower_bound(sorted.begin(), sorted.end(), number) - sorted.begin());
  }
  return found;
}

}  // namespace

std::vector<int64_t> group_numbers(const Table& table, const std::string& name) {
  const Column& column = table.at(name);
  if (column.type == ColumnType::kNumeric) return ranks(column.numbers);
  return {column.codes.begin(), column.codes.end()};
}

std::vector<int64_t> time_numbers(const Table& table, const std::string& name,
                                  const std::vector<int64_t>& rows) {
  const Column& column = table.at(name);
  std::vector<double> times = column.numbers.to_vector();
  if (column.type == ColumnType::kText) {
    const std::string open = open_dates(column);
    CDT_REQUIRE(open.empty(), table.source, ": column ", in_quotes(name),
                ", which says the time: ", open);
    const DateOrder order = date_order(column).value_or(DateOrder::kYearFirst);
    for (const int32_t code : column.codes) {
      const auto date =
          code < 0 ? std::nullopt : parse_date(column.categories[static_cast<size_t>(code)], order);
      times.push_back(date ? date->instant : NAN);
    }
  }
  for (const int64_t row : rows) {
    const auto i = static_cast<size_t>(row);
    CDT_REQUIRE(!std::isnan(times[i]), table.source, ":", table.lines[i],
                ": expected a number or a date (2024-02-29) in column ", in_quotes(name),
                ", which says the time, got ",
                column.is_missing(row)
                    ? "a missing value"
                    : in_quotes(column.categories[static_cast<size_t>(column.codes[i])]));
  }
  return ranks(times);
}

}  // namespace cdt::data
