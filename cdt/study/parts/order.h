/// Tables with ordered rows: rows held out at random lie between similar ones, but new rows usually
/// follow the last. Measures both errors.
#pragma once

#include <cdt/study/predictor.h>

namespace cdt::study {

struct RowOrder {
  std::string by;             ///< "the column \"day\"", "their place in the table"
  std::vector<int64_t> rows;  ///< of all_rows(), in order
};

/// By the first column of dates, if any; else by the lines of the table, if targets of neighbours
/// are similar (a correlation above kLikeNeighbours, and above chance), unless the table is sorted
/// by its target. None for fewer than kLeastOrdered rows, for pictures, for rows split by time, or
/// shared by several ranks.
std::optional<RowOrder> find_order(const data::Table& table, const Problem& problem);
inline constexpr double kLikeNeighbours = 0.3;
inline constexpr int64_t kLeastOrdered = 50;

/// Adds to `expected` the error on the last fifth of the order: of one network trained on earlier
/// rows, at most kMostBefore, as far along its path as `learned`.
void measure_later(const Problem& problem, const LearnOptions& options, const Learned& learned,
                   const RowOrder& order, const LearnHooks& hooks,
                   std::vector<Expectation>& expected);
inline constexpr int64_t kMostBefore = 3000;

}  // namespace cdt::study
