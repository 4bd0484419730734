/// Rows that repeat: equal in everything that a model may learn from, as joins and oversampling
/// make them.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/pictures.h>
#include <cdt/data/table.h>

#include <functional>

namespace cdt::data {

/// Sets of two and more of `rows` that are equal in these columns; missing values are equal, and so
/// are both zeros. Each set is in the order of `rows`, and sets are in the order of their first.
std::vector<std::vector<int64_t>> equal_rows(const std::vector<const Column*>& columns,
                                             const std::vector<int64_t>& rows);

/// Those of the columns that number rows: whole numbers, no two of `rows` the same.
std::vector<const Column*> row_numbers(const std::vector<const Column*>& columns,
                                       const std::vector<int64_t>& rows);

/// Pairs of rows that would be equal in all these columns by chance, if each took its values
/// independently of the others: n²/2 over the product of the numbers of different values.
double equal_pairs_by_chance(const std::vector<const Column*>& columns,
                             const std::vector<int64_t>& rows);

/// Of columns, those in which rows that are equal in `target` mostly agree, though they need not:
/// a row that was copied before some columns were joined or disturbed still has the others, and its
/// target. None where targets that are equal say nothing.
std::vector<const Column*> copied_columns(const std::vector<const Column*>& columns,
                                          const Column& target, const std::vector<int64_t>& rows);

/// The same of pictures that are equal in every pixel.
/// @throws InvalidArgument if one cannot be read.
std::vector<std::vector<int64_t>> equal_pictures(const Pictures& pictures,
                                                 const std::vector<int64_t>& rows);

/// The same of columns: of `count` whole columns, by number.
std::vector<std::vector<int64_t>> equal_columns(const std::vector<Column>& columns);

/// Numbers from 0 of the things that the first, second, … is one of, in the order in which they
/// appear.
std::vector<int64_t> numbered(const std::vector<int64_t>& names);

}  // namespace cdt::data
