/// Finds repeated rows: equal in all that a model may learn from, as after joins and oversampling.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/pictures.h>
#include <cdt/data/table.h>

#include <functional>

namespace cdt::data {

/// Sets of two or more of `rows` that are equal in these columns. Missing values are equal, and so
/// are both zeros. Each set is in the order of `rows`; sets are ordered by their first row.
std::vector<std::vector<int64_t>> equal_rows(const std::vector<const Column*>& columns,
                                             const std::vector<int64_t>& rows);

/// Columns that number rows: integers that differ for all of `rows`.
std::vector<const Column*> row_numbers(const std::vector<const Column*>& columns,
                                       const std::vector<int64_t>& rows);

/// Expected number of pairs of rows equal in all these columns by chance, if columns were
/// independent: n²/2 divided by the product of the numbers of distinct values.
double equal_pairs_by_chance(const std::vector<const Column*>& columns,
                             const std::vector<int64_t>& rows);

/// Columns that are mostly equal in rows of equal `target`: a row that was copied before other
/// columns were joined or changed still has these values, and its target. Empty if no targets are
/// equal.
std::vector<const Column*> copied_columns(const std::vector<const Column*>& columns,
                                          const Column& target, const std::vector<int64_t>& rows);

/// The same for pictures that are equal in every pixel.
/// @throws InvalidArgument if one cannot be read.
std::vector<std::vector<int64_t>> equal_pictures(const Pictures& pictures,
                                                 const std::vector<int64_t>& rows);

/// The same for whole columns, by index.
std::vector<std::vector<int64_t>> equal_columns(const std::vector<Column>& columns);

/// Renumbers `names` from 0 in order of first occurrence.
std::vector<int64_t> numbered(const std::vector<int64_t>& names);

}  // namespace cdt::data
