/// Columns that name rows instead of saying something about them: nothing is learned from them that
/// holds for other rows.
#pragma once

#include <cdt/data/table.h>

namespace cdt::data {

/// Why a column is one, in words, or nothing if it is none: text that is different in nearly every
/// row (9 of 10) and no date, or whole numbers that count the rows of the table, up or down. Of
/// fewer than 20 rows nothing is said.
std::optional<std::string> identifier_reason(const Table& table, const Column& column);

}  // namespace cdt::data
