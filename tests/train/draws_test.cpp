// Draws without replacement against a shuffle of all rows.
#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/train/loop/draws.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cdt::train {
namespace {

std::vector<int64_t> shuffled_front(int64_t all, int64_t count, uint64_t seed) {
  const auto made = at::detail::createCPUGenerator(seed);
  auto* const generator = at::check_generator<at::CPUGeneratorImpl>(made);
  std::vector<int64_t> order(static_cast<size_t>(all));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = 0; i + 1 < all; ++i) {
    const int64_t place = i + static_cast<int64_t>(generator->random() % (all - i));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(place)]);
  }
  order.resize(static_cast<size_t>(count));
  std::ranges::sort(order);
  return order;
}

std::vector<int64_t> drawn(int64_t all, int64_t count, uint64_t seed) {
  const torch::Tensor rows = draw_rows(all, count, seed);
  return {rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel()};
}

TEST(Draws, AreTheFrontOfAShuffleOfAll) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const auto& [all, count] :
         {std::pair{1, 1}, {10, 10}, {10, 9}, {50, 20}, {3000, 2000}, {100000, 2000}}) {
      EXPECT_EQ(drawn(all, count, seed), shuffled_front(all, count, seed))
          << count << " of " << all << ", seed " << seed;
    }
  }
  EXPECT_TRUE(drawn(5, 0, 1).empty());
  EXPECT_THROW(draw_rows(5, 6, 1), InvalidArgument);
  EXPECT_THROW(draw_rows(5, -1, 1), InvalidArgument);
}

// More rows than a machine has memory for, and than 32 bits count.
TEST(Draws, OfAnyNumberOfRowsAreUniform) {
  constexpr int64_t kAll = int64_t{1} << 40, kCount = 20000;
  const std::vector<int64_t> rows = drawn(kAll, kCount, 7);
  ASSERT_EQ(rows.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(std::ranges::adjacent_find(rows, std::ranges::greater_equal()), rows.end());
  EXPECT_GE(rows.front(), 0);
  EXPECT_LT(rows.back(), kAll);
  // χ² of sixteen parts, 15 degrees of freedom: above 50 once in 100 000.
  std::vector<double> parts(16, 0);
  for (const int64_t row : rows) ++parts[static_cast<size_t>(row >> 36)];
  double chi2 = 0;
  for (const double count : parts) chi2 += std::pow(count - kCount / 16.0, 2) / (kCount / 16.0);
  EXPECT_LT(chi2, 50);
}

}  // namespace
}  // namespace cdt::train
