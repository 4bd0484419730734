/// Rows of a table that belong together, such as those of one customer or one day.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

namespace cdt::data {

/// A number for each row, equal for equal values of the column; missing values have their own.
std::vector<int64_t> group_numbers(const Table& table, const std::string& column);

/// Numbers that ascend with the column's time, a number or a date (cdt/data/dates.h), and are equal
/// for equal times.
/// @throws InvalidArgument, naming the line, if one of `rows` has no value, or text is not a date.
///   Other rows are not checked.
std::vector<int64_t> time_numbers(const Table& table, const std::string& column,
                                  const std::vector<int64_t>& rows);

}  // namespace cdt::data
