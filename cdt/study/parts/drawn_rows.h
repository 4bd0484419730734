/// Which rows of a table train, which validate, and which test.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/pictures.h>
#include <cdt/data/split.h>
#include <cdt/study/options.h>

namespace cdt::study {

struct DrawnRows {
  data::SplitRules rules;
  data::Split split;
  /// By row of the table: the first of the drawn rows that it equals in every feature, mostly
  /// itself. Empty: no row repeats. Equal ones are on one side of the split, whatever their
  /// targets.
  std::vector<int64_t> first;
  std::vector<std::string> notes;  ///< which rows are left out and why, and how many repeat
  std::vector<data::Pictures::Unreadable> skipped;
};

/// Of `among`, without rows that cannot be learned from. Where pictures that cannot be read may be
/// left out, draws again without them until all can be.
/// @throws InvalidArgument if the options contradict each other or the table.
DrawnRows draw_rows(const data::Table& table, std::vector<int64_t> among,
                    const DataOptions& options, uint64_t seed);

/// Of rows that train, then of those that validate, what `names` has for these rows of the table,
/// numbered from 0.
std::vector<int64_t> numbers_of(const data::Split& split, const std::vector<int64_t>& names);

}  // namespace cdt::study
