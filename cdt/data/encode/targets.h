/// Encodes target columns as numbers or classes; part of the preprocessing.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/preprocess.h>

namespace cdt::data {

/// Whether the column is numeric with exactly two distinct values, like classes 0 and 1.
bool has_two_values(const Column& column);

/// The target's values in `rows`.
/// @throws InvalidArgument if the column is text, or a value is missing (the message names lines).
std::vector<double> target_values(const Table& table, const std::string& name,
                                  const std::vector<int64_t>& rows);

/// The classes of a column over the whole table, so that a class of validation rows only is known:
/// its texts, or its integers in ascending order.
/// @throws InvalidArgument if a label is missing in `rows` (the message names lines) or not an
///   integer, `rows` have a single class, or the table has fewer than two rows per class.
TargetColumn fit_classes(const Table& table, const std::string& name,
                         const std::vector<int64_t>& rows);

/// The index of each row's class.
/// @throws InvalidArgument if one is missing or unknown (the message names the line).
std::vector<int64_t> class_indices(const Table& table, const TargetColumn& target,
                                   const std::vector<int64_t>& rows);

}  // namespace cdt::data
