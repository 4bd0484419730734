#include "cdt/data/encode/identifiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cdt/data/dates.h"

namespace cdt::data {
namespace {

/// With fewer rows any column may look like an identifier.
constexpr int64_t kFewestRows = 20;

bool counts_rows(const Column& column) {
  const auto& x = column.numbers;
  const double step = x[1] - x[0];
  if (std::abs(step) != 1 || x[0] != std::floor(x[0])) return false;
  // A missing value is NaN, which fails the comparison.
  return std::adjacent_find(x.begin(), x.end(),
                            [&](double a, double b) { return !(b - a == step); }) == x.end();
}

}  // namespace

std::optional<std::string> identifier_reason(const Table& table, const Column& column) {
  if (table.rows() < kFewestRows) return std::nullopt;
  if (column.type == ColumnType::kNumeric) {
    if (!counts_rows(column)) return std::nullopt;
    return fmt::format("it counts the rows, {:.15g} to {:.15g}", column.numbers.front(),
                       column.numbers.back());
  }
  const auto present = std::count_if(column.codes.begin(), column.codes.end(),
                                     [](int32_t code) { return code >= 0; });
  const auto distinct = static_cast<int64_t>(column.categories.size());
  if (present < kFewestRows || 10 * distinct < 9 * present || holds_dates(column)) {
    return std::nullopt;
  }
  return fmt::format("{} different texts in {} rows", distinct, present);
}

}  // namespace cdt::data
