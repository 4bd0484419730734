// Draws without replacement: each row once, each equally likely, the same on every platform.
#include <cdt/core/error.h>
#include <cdt/data/split.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <set>

namespace cdt::data {
namespace {

TEST(Split, DrawsEachRowOnceAndSplits) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Split split = split_rows(2930, 512, 357, seed);
    EXPECT_EQ(split.train.size(), 357u);
    EXPECT_EQ(split.validation.size(), 155u);
    std::set<int64_t> all(split.train.begin(), split.train.end());
    all.insert(split.validation.begin(), split.validation.end());
    EXPECT_EQ(all.size(), 512u);
    EXPECT_GE(*all.begin(), 0);
    EXPECT_LT(*all.rbegin(), 2930);
  }
  std::vector<int64_t> everything = sample_rows(100, 100, 7);
  EXPECT_FALSE(std::is_sorted(everything.begin(), everything.end()));
  std::sort(everything.begin(), everything.end());
  std::vector<int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(everything, expected);
  EXPECT_TRUE(sample_rows(5, 0, 1).empty());
}

TEST(Split, SeedsRepeatAndDiffer) {
  EXPECT_EQ(sample_rows(1000, 50, 1), sample_rows(1000, 50, 1));
  EXPECT_NE(sample_rows(1000, 50, 1), sample_rows(1000, 50, 2));
  // A larger sample continues a smaller one.
  const auto fifty = sample_rows(1000, 50, 1);
  auto hundred = sample_rows(1000, 100, 1);
  hundred.resize(50);
  EXPECT_EQ(fifty, hundred);
}

// The standard fixes mt19937_64 (its 10000th draw is given there); the rest is ours, recomputed
// here from the definition: pick among the rows left, by rank in the array that swaps leave.
TEST(Split, TheSameOnEveryPlatform) {
  std::mt19937_64 standard;
  standard.discard(9999);
  EXPECT_EQ(standard(), 9981545732273789042u);
  std::mt19937_64 generator(1);
  std::vector<int64_t> left{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<int64_t> expected;
  for (uint64_t remaining = 10; remaining > 5; --remaining) {
    const size_t pick = generator() % remaining;  // no draw is near enough to 2⁶⁴ to be refused
    expected.push_back(left[pick]);
    left[pick] = left[0];
    left.erase(left.begin());
  }
  EXPECT_EQ(sample_rows(10, 5, 1), expected);
}

TEST(Split, DrawsAreUniform) {
  // χ² with 6 degrees of freedom: above 30 once in 25 000.
  for (uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 generator(seed);
    std::vector<double> counts(7, 0);
    for (int i = 0; i < 70000; ++i) ++counts[draw_below(7, generator)];
    double chi2 = 0;
    for (const double count : counts) chi2 += (count - 10000) * (count - 10000) / 10000;
    EXPECT_LT(chi2, 30) << "seed " << seed;
    // Each row is drawn equally often, wherever it stands.
    std::vector<double> drawn(7, 0);
    for (uint64_t k = 0; k < 7000; ++k)
      for (const int64_t row : sample_rows(7, 3, seed * 1000000 + k))
        ++drawn[static_cast<size_t>(row)];
    for (const double count : drawn) EXPECT_NEAR(count, 3000, 6 * std::sqrt(3000.0 * 4 / 7));
  }
  // A quarter of the draws lie beyond this bound; reduced instead of refused they would make the
  // lowest third as likely as the other two together.
  std::mt19937_64 generator(4);
  const uint64_t third = uint64_t{1} << 62;
  int low = 0;
  for (int i = 0; i < 3000; ++i) low += draw_below(3 * third, generator) < third ? 1 : 0;
  EXPECT_NEAR(low, 1000, 6 * std::sqrt(3000 * 2.0 / 9));
}

TEST(Split, RefusesWhatDoesNotFit) {
  std::mt19937_64 generator(1);
  EXPECT_THROW(draw_below(0, generator), InvalidArgument);
  EXPECT_THROW(sample_rows(10, 11, 1), InvalidArgument);
  EXPECT_THROW(sample_rows(10, -1, 1), InvalidArgument);
  EXPECT_THROW(split_rows(10, 5, 6, 1), InvalidArgument);
  EXPECT_THROW(split_rows(10, 5, 0, 1), InvalidArgument);
  EXPECT_THROW(split_rows(10, 11, 3, 1), InvalidArgument);
}

}  // namespace
}  // namespace cdt::data
