/// Rows of a table that belong together: of one customer, of one day.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

namespace cdt::data {

/// A number for each row, the same for the same text or number in the column; missing ones have one
/// of their own.
std::vector<int64_t> group_numbers(const Table& table, const std::string& column);

/// Ascending with the column's time, equal for equal ones: a number, or a date (cdt/data/dates.h).
/// @throws InvalidArgument, naming the line, if one of `rows` has none, or text is no date. Rows
///   that are not asked for may be what they like.
std::vector<int64_t> time_numbers(const Table& table, const std::string& column,
                                  const std::vector<int64_t>& rows);

}  // namespace cdt::data
