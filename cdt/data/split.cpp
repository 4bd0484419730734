#include "cdt/data/split.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "cdt/core/error.h"

namespace cdt::data {

uint64_t draw_below(uint64_t bound, std::mt19937_64& generator) {
  CDT_REQUIRE(bound > 0, "expected a bound above zero to draw below");
  // The largest multiple of bound that fits: draws beyond it would favour small numbers.
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const uint64_t limit = kMax - kMax % bound;
  uint64_t draw = generator();
  while (draw >= limit) draw = generator();
  return draw % bound;
}

std::vector<int64_t> sample_rows(int64_t rows, int64_t count, uint64_t seed) {
  CDT_REQUIRE(count >= 0 && count <= rows, "expected to draw at most ", rows,
              " rows, which is all there are, got ", count);
  std::mt19937_64 generator(seed);
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  // Fisher–Yates shuffle, stopped after `count`.
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::swap(order[i], order[i + draw_below(order.size() - i, generator)]);
  }
  order.resize(static_cast<size_t>(count));
  return order;
}

Split split_rows(int64_t rows, int64_t count, int64_t train, uint64_t seed) {
  SplitRules rules;
  rules.rows.resize(static_cast<size_t>(rows));
  std::iota(rules.rows.begin(), rules.rows.end(), int64_t{0});
  rules.count = count;
  rules.train = train;
  return split_rows(rules, seed);
}

namespace {

enum class Side : int8_t { kTrain, kValidation, kTest };

struct Block {
  int64_t rows = 0;
  Side side = Side::kTrain;
};

/// Moves blocks from training to a side, in this order, until it has about `wanted` rows, at least
/// one; leaves `others` for later sides. By time, no block is skipped.
void fill_side(std::vector<Block>& blocks, const std::vector<size_t>& order, Side side,
               int64_t wanted, int64_t others, bool in_time) {
  if (wanted == 0) return;
  int64_t has = 0;
  int64_t left = std::count_if(blocks.begin(), blocks.end(),
                               [](const Block& block) { return block.side == Side::kTrain; });
  Block* smallest = nullptr;
  for (const size_t i : order) {
    Block& block = blocks[i];
    if (block.side != Side::kTrain) continue;
    if (smallest == nullptr || (!in_time && block.rows < smallest->rows)) smallest = &block;
    // Closest to the wanted size: a block is left out if more than half of it would be too much.
    const bool fits = 2 * has + block.rows <= 2 * wanted;
    if (left <= others) break;
    if (fits) {
      block.side = side;
      has += block.rows;
      --left;
    } else if (in_time) {
      break;
    }
  }
  if (has == 0 && smallest != nullptr) smallest->side = side;
}

Split split_blocks(const SplitRules& rules, const std::vector<int64_t>& drawn, uint64_t seed) {
  std::vector<int64_t> numbers;
  for (const int64_t row : drawn) numbers.push_back(rules.blocks.at(static_cast<size_t>(row)));
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::unordered_map<int64_t, size_t> index;
  for (size_t i = 0; i < numbers.size(); ++i) index[numbers[i]] = i;
  std::vector<Block> blocks(numbers.size());
  for (const int64_t row : drawn) ++blocks[index.at(rules.blocks[static_cast<size_t>(row)])].rows;

  const int64_t validation = rules.count - rules.test - rules.train;
  const int64_t validates = validation > 0 ? 1 : 0;
  const auto sides = static_cast<size_t>(1 + validates + (rules.test > 0 ? 1 : 0));
  CDT_REQUIRE(blocks.size() >= sides, "expected rows of ", sides, " different ",
              rules.by_time ? "times" : rules.blocks_are,
              " or more, for the parts of the split to have one each, but there are ",
              blocks.size());
  std::vector<size_t> order;
  if (rules.by_time) {
    for (size_t i = blocks.size(); i-- > 0;) order.push_back(i);
  } else {
    const auto count = static_cast<int64_t>(blocks.size());
    for (const int64_t i : sample_rows(count, count, seed)) order.push_back(static_cast<size_t>(i));
  }
  fill_side(blocks, order, Side::kTest, rules.test, 1 + validates, rules.by_time);
  fill_side(blocks, order, Side::kValidation, validation, 1, rules.by_time);
  Split split;
  for (const int64_t row : drawn) {
    const Side side = blocks[index.at(rules.blocks[static_cast<size_t>(row)])].side;
    (side == Side::kTrain        ? split.train
     : side == Side::kValidation ? split.validation
                                 : split.test)
        .push_back(row);
  }
  return split;
}

}  // namespace

Split split_rows(const SplitRules& rules, uint64_t seed) {
  const auto available = static_cast<int64_t>(rules.rows.size());
  CDT_REQUIRE(rules.test >= 0 && rules.test < rules.count, "expected fewer test rows than ",
              rules.count, ", got ", rules.test);
  CDT_REQUIRE(rules.train >= 1 && rules.train <= rules.count - rules.test, "expected 1 to ",
              rules.count - rules.test, " training rows out of that many, got ", rules.train);
  std::vector<int64_t> drawn = sample_rows(available, rules.count, seed);
  for (int64_t& row : drawn) row = rules.rows[static_cast<size_t>(row)];
  if (!rules.blocks.empty()) return split_blocks(rules, drawn, seed);
  const auto train = drawn.begin() + rules.test, validation = train + rules.train;
  return {{train, validation}, {validation, drawn.end()}, {drawn.begin(), train}};
}

}  // namespace cdt::data
