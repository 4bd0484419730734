/// Detects columns that identify rows; what is learned from them does not hold for other rows.
#pragma once

#include <cdt/data/table.h>

namespace cdt::data {

/// Why a column is an identifier, or empty if it is not: text that differs in nearly every row (9
/// of 10) and is not a date, or integers that number the rows of the table, ascending or
/// descending. Always empty for fewer than 20 rows.
std::optional<std::string> identifier_reason(const Table& table, const Column& column);

}  // namespace cdt::data
