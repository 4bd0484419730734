#include "cdt/data/split.h"

#include <limits>
#include <numeric>
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
              " rows, which is all there are, but came ", count);
  std::mt19937_64 generator(seed);
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  // Fisher and Yates, stopped after `count`.
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::swap(order[i], order[i + draw_below(order.size() - i, generator)]);
  }
  order.resize(static_cast<size_t>(count));
  return order;
}

Split split_rows(int64_t rows, int64_t count, int64_t train, uint64_t seed) {
  CDT_REQUIRE(train >= 1 && train <= count, "expected 1 to ", count,
              " training rows out of that many, but came ", train);
  const std::vector<int64_t> drawn = sample_rows(rows, count, seed);
  return {{drawn.begin(), drawn.begin() + train}, {drawn.begin() + train, drawn.end()}};
}

}  // namespace cdt::data
