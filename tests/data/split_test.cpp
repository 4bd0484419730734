// Draws without replacement: each row once, each equally likely, the same on every platform.
#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/rows/blocks.h>
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

SplitRules rules_for(int64_t rows, int64_t test, int64_t train) {
  SplitRules rules;
  for (int64_t row = 0; row < rows; ++row) rules.rows.push_back(2 * row);  // every other one
  rules.count = rows;
  rules.test = test;
  rules.train = train;
  return rules;
}

/// Each row once, and of those that may be drawn.
void expect_parts(const Split& split, size_t count) {
  std::set<int64_t> all;
  for (const auto* part : {&split.train, &split.validation, &split.test})
    all.insert(part->begin(), part->end());
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(split.train.size() + split.validation.size() + split.test.size(), count);
  for (const int64_t row : all) EXPECT_EQ(row % 2, 0);
}

TEST(Split, TestRowsComeFirst) {
  const Split split = split_rows(rules_for(50, 10, 30), 4);
  EXPECT_EQ(split.test.size(), 10U);
  EXPECT_EQ(split.train.size(), 30U);
  expect_parts(split, 50);
  // The order drawn is that of sample_rows: test, train, validation.
  const auto drawn = sample_rows(50, 50, 4);
  EXPECT_EQ(split.test[0], 2 * drawn[0]);
  EXPECT_EQ(split.train[0], 2 * drawn[10]);
  EXPECT_EQ(split.validation[0], 2 * drawn[40]);
  // Other sizes of training leave the test rows as they are.
  EXPECT_EQ(split_rows(rules_for(50, 10, 5), 4).test, split.test);
  EXPECT_THROW(split_rows(rules_for(50, 50, 1), 1), InvalidArgument);
  EXPECT_THROW(split_rows(rules_for(50, 10, 41), 1), InvalidArgument);
  EXPECT_THROW(split_rows(rules_for(50, 10, 0), 1), InvalidArgument);
  EXPECT_THROW(split_rows(rules_for(50, -1, 10), 1), InvalidArgument);
  SplitRules rules = rules_for(50, 10, 20);
  rules.count = 51;
  EXPECT_THROW(split_rows(rules, 1), InvalidArgument);
}

TEST(Split, BlocksStayTogether) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(seed);
    SplitRules rules = rules_for(100, 20, 60);
    rules.blocks.resize(200);
    // One block of half of the rows, others of two to four.
    for (int64_t row = 0; row < 100; ++row)
      rules.blocks[static_cast<size_t>(2 * row)] = row < 50 ? 1000 : row / 3;
    const Split split = split_rows(rules, seed);
    expect_parts(split, 100);
    const auto blocks = [&](const std::vector<int64_t>& rows) {
      std::set<int64_t> found;
      for (const int64_t row : rows) found.insert(rules.blocks[static_cast<size_t>(row)]);
      return found;
    };
    for (const int64_t block : blocks(split.test)) {
      EXPECT_FALSE(blocks(split.train).contains(block));
      EXPECT_FALSE(blocks(split.validation).contains(block));
    }
    for (const int64_t block : blocks(split.validation))
      EXPECT_FALSE(blocks(split.train).contains(block));
    // The large one does not fit into what was asked of the others.
    EXPECT_TRUE(blocks(split.train).contains(1000));
    EXPECT_NEAR(static_cast<double>(split.test.size()), 20, 2);
    EXPECT_NEAR(static_cast<double>(split.validation.size()), 20, 2);
    EXPECT_EQ(split_rows(rules, seed).test, split.test);
  }
  SplitRules rules = rules_for(10, 2, 6);
  rules.blocks.assign(20, 0);
  rules.blocks[0] = 1;
  EXPECT_THROW(split_rows(rules, 1), InvalidArgument);
  rules.blocks[2] = 2;
  const Split three = split_rows(rules, 1);
  EXPECT_EQ(three.train.size(), 8U);
  EXPECT_EQ(three.validation.size(), 1U);
  EXPECT_EQ(three.test.size(), 1U);
}

TEST(Split, TheLatestBlocksTestAndThoseBeforeThemValidate) {
  SplitRules rules = rules_for(30, 6, 18);
  rules.blocks.resize(60);
  for (int64_t row = 0; row < 30; ++row) rules.blocks[static_cast<size_t>(2 * row)] = row / 4;
  rules.by_time = true;
  const Split split = split_rows(rules, 9);
  expect_parts(split, 30);
  const auto sorted = [](std::vector<int64_t> rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  // Times 7 (rows 28, 29) and 6 (24 to 27) are six rows; 5 (20 to 23) and half of 4 would be six.
  EXPECT_EQ(sorted(split.test).front(), 48);
  EXPECT_EQ(split.test.size(), 6U);
  EXPECT_EQ(sorted(split.validation).front(), 32);
  EXPECT_EQ(split.validation.size(), 8U);
  EXPECT_EQ(sorted(split_rows(rules, 1).train), sorted(split.train));
}

TEST(Split, NumbersOfGroupsAndTimes) {
  const Table table = parse_csv(
      "g,n,d\nb,5,2024-03-01\na,-1,2023-01-01\n,5,2024-03-01 12:00\nb,,soon\nNA,2,2024/02/29\n",
      "a.csv");
  const auto groups = group_numbers(table, "g");
  EXPECT_EQ(groups[0], groups[3]);
  EXPECT_EQ(groups[2], groups[4]);
  EXPECT_EQ((std::set(groups.begin(), groups.end()).size()), 3U);
  EXPECT_EQ(group_numbers(table, "n"), (std::vector<int64_t>{2, 0, 2, 3, 1}));
  EXPECT_EQ(time_numbers(table, "n", {0, 1, 2, 4}), (std::vector<int64_t>{2, 0, 2, 3, 1}));
  const auto days = time_numbers(table, "d", {0, 1, 2, 4});
  EXPECT_THAT((std::vector<int64_t>{days[1], days[4], days[0], days[2]}),
              testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(
      [&] {
        time_numbers(table, "d", {0, 3});
      },
      testing::ThrowsMessage<InvalidArgument>(
          testing::AllOf(testing::HasSubstr("a.csv:5"), testing::HasSubstr("\"soon\""))));
  EXPECT_THAT([&] { time_numbers(table, "n", {3}); },
              testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("a missing value")));
}

}  // namespace
}  // namespace cdt::data
