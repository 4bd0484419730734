/// Reordering of a table's rows.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

namespace cdt::data {

/// The rows sorted by content, column by column, missing values first, independent of their order
/// in the table. (Equal rows may be exchanged.)
std::vector<int64_t> rows_by_content(const Table& table);

/// A table of these rows, in this order, with their lines. Categories are kept, even if unused.
/// @throws InvalidArgument if a row does not exist.
Table take_rows(const Table& table, const std::vector<int64_t>& rows);

}  // namespace cdt::data
