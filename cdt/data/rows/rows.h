/// Rows of a table in an order of their own.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

namespace cdt::data {

/// The rows ordered by what stands in them, column by column, missing values first: the same rows
/// in another order of the table come in the same order. (Equal rows may change places.)
std::vector<int64_t> rows_by_content(const Table& table);

/// These rows, in this order, with the lines that they have. Categories stay, also those that no
/// row has any more.
/// @throws InvalidArgument if a row does not exist.
Table take_rows(const Table& table, const std::vector<int64_t>& rows);

}  // namespace cdt::data
