/// Rows drawn without replacement and split into training, validation and test, the same on every
/// platform for the same seed.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <random>
#include <string>
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
  std::vector<int64_t> test;  ///< not looked at until the end
};

/// Draws `count` rows; the first `train` of them train, the others validate.
/// @throws InvalidArgument unless 1 ≤ train ≤ count ≤ rows.
Split split_rows(int64_t rows, int64_t count, int64_t train, uint64_t seed);

/// Which rows may be drawn, how many go where, and which stay together.
struct SplitRules {
  std::vector<int64_t> rows;  ///< of the table, each once
  int64_t count = 0;          ///< of them to draw
  int64_t test = 0;           ///< of those, drawn first
  int64_t train = 0;          ///< of those that are left; what is left then validates
  /// By row of the table: rows of one number stay on one side, so that the parts come out as near
  /// to their sizes as whole blocks allow. Empty: each row by itself.
  std::vector<int64_t> blocks;
  /// Blocks of larger numbers are later: the latest test, those before them validate, and nothing
  /// is left to chance but which rows are drawn.
  bool by_time = false;
  std::string blocks_are = "groups";  ///< for messages
};

/// Without blocks, the first `test` rows drawn test, and the next `train` train. Rows come in the
/// order drawn.
/// @throws InvalidArgument unless 1 ≤ train, 0 ≤ test, train + test ≤ count ≤ rows, or if blocks
/// are
///   too few for each part to have one.
Split split_rows(const SplitRules& rules, uint64_t seed);

}  // namespace cdt::data
