/// Determines which rows of a table train, validate and test.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/pictures.h>
#include <cdt/data/split.h>
#include <cdt/study/options.h>

namespace cdt::study {

struct DrawnRows {
  data::SplitRules rules;
  data::Split split;
  /// For each row of the table: the first of the drawn rows that equals it in every feature,
  /// usually itself. Empty if no rows repeat. Equal rows are on one side of the split, whatever
  /// their targets.
  std::vector<int64_t> first;
  std::vector<std::string> notes;  ///< which rows are left out and why, and the number of repeated
                                   ///< ones
  std::vector<data::Pictures::Unreadable> skipped;
};

/// Draws from `among`, without rows that cannot be learned from. If unreadable pictures may be left
/// out, redraws without them until all can be read.
/// @throws InvalidArgument if the options contradict each other or the table.
DrawnRows draw_rows(const data::Table& table, std::vector<int64_t> among,
                    const DataOptions& options, uint64_t seed);

/// For training rows, then validation rows: their entries of `names`, which are per row of the
/// table, renumbered from 0.
std::vector<int64_t> numbers_of(const data::Split& split, const std::vector<int64_t>& names);

}  // namespace cdt::study
