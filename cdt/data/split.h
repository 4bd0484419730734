/// Random splits into training, validation and test rows, the same on every platform for the same
/// seed.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cdt::data {

/// An integer from 0 to bound − 1, all equally likely. (The distributions of the standard library
/// differ between implementations; its generators do not.)
uint64_t draw_below(uint64_t bound, std::mt19937_64& generator);

/// `count` distinct rows out of 0, …, rows − 1, in the order drawn: the first k of them are a
/// sample of k.
/// @throws InvalidArgument unless 0 ≤ count ≤ rows.
std::vector<int64_t> sample_rows(int64_t rows, int64_t count, uint64_t seed);

struct Split {
  std::vector<int64_t> train;
  std::vector<int64_t> validation;
  std::vector<int64_t> test;  ///< held out until the end
};

/// Draws `count` rows; the first `train` of them are for training, the others for validation.
/// @throws InvalidArgument unless 1 ≤ train ≤ count ≤ rows.
Split split_rows(int64_t rows, int64_t count, int64_t train, uint64_t seed);

/// Which rows are drawn, the size of each part, and which rows stay together.
struct SplitRules {
  std::vector<int64_t> rows;  ///< rows of the table, without repetition
  int64_t count = 0;          ///< number to draw
  int64_t test = 0;           ///< number of test rows, drawn first
  int64_t train = 0;          ///< number of training rows, drawn next; the others validate
  /// Block number of each row of the table: rows of a block stay in one part, and the parts come as
  /// close to their sizes as whole blocks allow. Empty: each row is its own block.
  std::vector<int64_t> blocks;
  /// Larger block numbers are later: the latest blocks test, those before them validate. Only the
  /// selection of rows is random.
  bool by_time = false;
  std::string blocks_are = "groups";  ///< name in messages
};

/// Without blocks, the first `test` rows drawn are for test, the next `train` for training. Rows
/// are in the order drawn.
/// @throws InvalidArgument unless 1 ≤ train, 0 ≤ test, train + test ≤ count ≤ rows, or if there are
///   too few blocks for each part to have one.
Split split_rows(const SplitRules& rules, uint64_t seed);

}  // namespace cdt::data
