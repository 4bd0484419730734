// Conflicting samples against a comparison of all pairs.
#include <cdt/core/error.h>
#include <cdt/data/rows/conflicts.h>
#include <gmock/gmock.h>

#include "support/compare.h"

namespace cdt::data {
namespace {

using testing::ElementsAre;
using torch::Tensor;

TEST(Conflicts, AreThoseOfAllPairs) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const int64_t r = 60;
    const Tensor x = torch::randint(0, 3, {r, 3}, test::kDouble);
    const Tensor y = torch::randint(0, 2, {r, 2}, test::kDouble);
    std::vector<std::vector<int64_t>> expected;
    std::vector<bool> seen(static_cast<size_t>(r), false);
    for (int64_t i = 0; i < r; ++i) {
      if (seen[static_cast<size_t>(i)]) continue;
      std::vector<int64_t> group;
      bool differ = false;
      for (int64_t j = i; j < r; ++j) {
        if (!torch::equal(x[i], x[j])) continue;
        seen[static_cast<size_t>(j)] = true;
        differ = differ || !torch::equal(y[i], y[j]);
        group.push_back(j);
      }
      if (differ) expected.push_back(group);
    }
    ASSERT_FALSE(expected.empty());
    const auto found = find_conflicts(x, y);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k) {
      EXPECT_EQ(found[k].rows, expected[k]);
      const Tensor values = y.index_select(0, torch::tensor(expected[k], torch::kInt64));
      for (int64_t t = 0; t < 2; ++t) {
        const Tensor column = values.select(1, t);
        EXPECT_EQ(found[k].gaps[static_cast<size_t>(t)],
                  column.max().item<double>() - column.min().item<double>());
      }
    }
  }
}

TEST(Conflicts, NeedEqualFeaturesAndDifferentTargets) {
  const Tensor x = torch::tensor({{1.0, 2.0}, {1.0, 2.0}, {1.0, 2.0 + 1e-15}}, test::kDouble);
  EXPECT_TRUE(find_conflicts(x, torch::tensor({{5.0}, {5.0}, {7.0}}, test::kDouble)).empty());
  const auto found = find_conflicts(x, torch::tensor({{5.0}, {5.5}, {7.0}}, test::kDouble));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].rows, ElementsAre(0, 1));
  EXPECT_THAT(found[0].gaps, ElementsAre(0.5));
  EXPECT_TRUE(find_conflicts(x.narrow(0, 0, 0), torch::zeros({0, 1}, test::kDouble)).empty());
  EXPECT_THROW(find_conflicts(x, torch::zeros({2, 1}, test::kDouble)), InvalidArgument);
  EXPECT_THROW(find_conflicts(x.to(torch::kFloat32), torch::zeros({3, 1}, test::kDouble)),
               InvalidArgument);
}

TEST(Conflicts, RowsThatComeInBlocksAreSuspectedOfEquality) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    torch::manual_seed(seed);
    const Tensor x = torch::randint(0, 6, {90, 3}, test::kDouble);
    RowHashes hashes;
    for (const auto& [first, count] : {std::pair{0, 40}, {40, 0}, {40, 50}}) {
      hashes.add(x.narrow(0, first, count));
    }
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < 90; ++i) {
      int64_t equal = 0;
      for (int64_t j = 0; j < 90; ++j) equal += torch::equal(x[i], x[j]) ? 1 : 0;
      if (equal > 1) expected.push_back(i);
    }
    ASSERT_GT(expected.size(), 20U);
    EXPECT_THAT(hashes.suspects(90), ElementsAre(expected));
    // In parts, all of a kind in one of them.
    std::vector<int64_t> all;
    const auto parts = hashes.suspects(10);
    EXPECT_GT(parts.size(), 1U);
    for (const std::vector<int64_t>& part : parts) {
      EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
      EXPECT_LT(part.size(), 30U);
      for (const int64_t i : part) {
        for (const int64_t j : expected) {
          if (!torch::equal(x[i], x[j])) continue;
          EXPECT_TRUE(std::binary_search(part.begin(), part.end(), j)) << i << " and " << j;
        }
      }
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, expected);
  }
  EXPECT_TRUE(RowHashes().suspects(10).empty());
}

}  // namespace
}  // namespace cdt::data
