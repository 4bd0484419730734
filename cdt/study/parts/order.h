/// Tables whose rows have an order: rows held out at random lie between others that are like them,
/// and new ones mostly come behind the last. Both errors are measured.
#pragma once

#include <cdt/study/predictor.h>

namespace cdt::study {

struct RowOrder {
  std::string by;             ///< "the column \"day\"", "their place in the table"
  std::vector<int64_t> rows;  ///< of all_rows(), the first of the order first
};

/// By the first column of dates there is; else by the lines of the table, where targets of
/// neighbours are alike (a correlation above kLikeNeighbours, and above what chance gives), unless
/// the table is sorted by its target. Nothing of fewer than kLeastOrdered rows, of pictures, of
/// rows that are split by time, or shared by several ranks.
std::optional<RowOrder> find_order(const data::Table& table, const Problem& problem);
inline constexpr double kLikeNeighbours = 0.3;
inline constexpr int64_t kLeastOrdered = 50;

/// Puts into `expected` the error on the last fifth of the order: of one network that has learned
/// from rows before, kMostBefore at most, as far along its path as `learned` went.
void measure_later(const Problem& problem, const LearnOptions& options, const Learned& learned,
                   const RowOrder& order, const LearnHooks& hooks,
                   std::vector<Expectation>& expected);
inline constexpr int64_t kMostBefore = 3000;

}  // namespace cdt::study
