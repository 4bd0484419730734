/// Rows drawn at random, in memory for those that are drawn and none for the others.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::train {

/// `count` different ones of 0, …, all − 1, ascending [count], int64; each subset as likely as
/// another. The beginning of a shuffle by Fisher and Yates, of which only what it has moved is
/// kept: the rows that torch::randperm of all would have had in front, for the same seed.
/// @throws InvalidArgument unless 0 ≤ count ≤ all.
torch::Tensor draw_rows(int64_t all, int64_t count, uint64_t seed);

}  // namespace cdt::train
