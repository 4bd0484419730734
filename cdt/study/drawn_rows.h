/// Which rows of a table train, which validate, and which test.
#pragma once

#include <cdt/data/pictures.h>
#include <cdt/data/split.h>
#include <cdt/study/options.h>

namespace cdt::study {

struct DrawnRows {
  data::SplitRules rules;
  data::Split split;
  std::vector<std::string> notes;  ///< which rows are left out and why
  std::vector<data::Pictures::Unreadable> skipped;
};

/// Of `among`, without rows that cannot be learned from. Where pictures that cannot be read may be
/// left out, draws again without them until all can be.
/// @throws InvalidArgument if the options contradict each other or the table.
DrawnRows draw_rows(const data::Table& table, std::vector<int64_t> among,
                    const DataOptions& options, uint64_t seed);

/// The groups of rows that train, then of those that validate, numbered from 0.
std::vector<int64_t> number_groups(const DrawnRows& drawn);

}  // namespace cdt::study
