// Rows in the order of their content.
#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/rows/rows.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace cdt::data {
namespace {

constexpr const char* kRowsHeader = "kind,area,id\n";
const std::vector<std::string> kRowLines{"hut,3,1\n",   ",3,2\n",   "flat,,3\n",
                                         "flat,-2,4\n", "hut,,5\n", "flat,10,6\n"};

Table rows_in_order(const std::vector<size_t>& order) {
  std::string text = kRowsHeader;
  for (const size_t line : order) text += kRowLines[line];
  return parse_csv(text, "test.csv");
}

TEST(Rows, ComeInTheSameOrderHoweverTheTableHasThem) {
  std::vector<size_t> order(kRowLines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 generator(1);
  for (int trial = 0; trial < 10; ++trial) {
    const Table table = rows_in_order(order);
    const Table sorted = take_rows(table, rows_by_content(table));
    // Missing first, then by bytes; within a kind by numbers, missing first.
    EXPECT_EQ(sorted.at("id").numbers.to_vector(), (std::vector<double>{2, 3, 4, 6, 5, 1}));
    std::shuffle(order.begin(), order.end(), generator);
  }
}

TEST(Rows, AreTakenWithTheirLines) {
  const Table table = rows_in_order({0, 1, 2, 3});
  const Table some = take_rows(table, {3, 0});
  EXPECT_EQ(some.lines, (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(some.rows(), 2);
  EXPECT_EQ(some.at("area").numbers.to_vector(), (std::vector<double>{-2, 3}));
  EXPECT_EQ(some.at("kind").codes, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(some.at("kind").categories, (std::vector<std::string>{"flat", "hut"}));
  EXPECT_THROW(take_rows(table, {4}), InvalidArgument);
}

}  // namespace
}  // namespace cdt::data
