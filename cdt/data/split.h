/// Rows drawn without replacement and split into training and validation, the same on every
/// platform for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace cdt::data {

/// A whole number from 0 to bound − 1, each equally likely. (The distributions of the standard
/// library differ between implementations; its generators do not.)
uint64_t draw_below(uint64_t bound, std::mt19937_64& generator);

/// `count` different rows out of 0, …, rows − 1, in the order drawn: the first k of them are a
/// sample of k.
/// @throws InvalidArgument unless 0 ≤ count ≤ rows.
std::vector<int64_t> sample_rows(int64_t rows, int64_t count, uint64_t seed);

struct Split {
  std::vector<int64_t> train;
  std::vector<int64_t> validation;
};

/// Draws `count` rows; the first `train` of them train, the others validate.
/// @throws InvalidArgument unless 1 ≤ train ≤ count ≤ rows.
Split split_rows(int64_t rows, int64_t count, int64_t train, uint64_t seed);

}  // namespace cdt::data
