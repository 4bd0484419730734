/// Draws random rows, with memory proportional to the number of rows drawn.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::train {

/// Draws `count` distinct numbers of 0, …, all − 1, ascending [count], int64; every subset is
/// equally likely. Uses the first steps of a Fisher-Yates shuffle and stores only moved entries.
/// The result has the rows that torch::randperm of all would put first with the same seed.
/// @throws InvalidArgument unless 0 ≤ count ≤ all.
torch::Tensor draw_rows(int64_t all, int64_t count, uint64_t seed);

}  // namespace cdt::train
