// Rows that repeat are found, whatever stands in them.
#include <cdt/data/csv.h>
#include <cdt/data/rows/equal_rows.h>
#include <gmock/gmock.h>

#include <numeric>

namespace cdt::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::vector<int64_t>> equal_in(const Table& table,
                                           const std::vector<std::string>& names) {
  std::vector<const Column*> columns;
  for (const std::string& name : names) columns.push_back(&table.at(name));
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return equal_rows(columns, rows);
}

TEST(EqualRows, AreThoseOfEqualCells) {
  const Table table = parse_csv(
      "a,b,y\n"
      "1,red,5\n"
      "0,red,1\n"
      "1.0,red,6\n"
      "NA,,7\n"
      "-0,red,2\n"
      ",NA,8\n"
      "1,blue,5\n",
      "t");
  EXPECT_THAT(equal_in(table, {"a", "b"}),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4), ElementsAre(3, 5)));
  EXPECT_THAT(equal_in(table, {"a"}),
              ElementsAre(ElementsAre(0, 2, 6), ElementsAre(1, 4), ElementsAre(3, 5)));
  EXPECT_THAT(equal_in(table, {"a", "b", "y"}), IsEmpty());
  EXPECT_THAT(equal_in(table, {}), IsEmpty());
  // Of some rows alone, in their order.
  EXPECT_THAT(equal_rows({&table.at("a"), &table.at("b")}, {5, 0, 3}),
              ElementsAre(ElementsAre(5, 3)));
}

TEST(EqualRows, CopiesAgreeInWhatWasThereBefore) {
  std::string text = "a,b,visit,y\n";
  for (int i = 0; i < 60; ++i) {  // 20 rows three times, and y = 0.5 by chance once more
    const int of = i % 20;
    text += c10::str(of * 0.37, ",", of % 3, ",", i, ",", of == 7 ? 3 * 0.25 : of * 0.25, "\n");
  }
  const Table table = parse_csv(text, "t");
  std::vector<int64_t> rows(60);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  const auto &a = table.at("a"), &b = table.at("b"), &visit = table.at("visit");
  EXPECT_THAT(copied_columns({&a, &b, &visit}, table.at("y"), rows), ElementsAre(&a, &b));
  // Targets of two values tell nothing, nor do those that are all different.
  EXPECT_THAT(copied_columns({&a, &visit}, b, rows), IsEmpty());
  EXPECT_THAT(copied_columns({&a, &b}, visit, rows), IsEmpty());
}

TEST(EqualRows, ArePicturesOfEqualPixels) {
  torch::manual_seed(1);
  torch::Tensor x = torch::rand({600, 1, 3, 3});
  x[7] = x[599];
  x[300] = x[7];
  x[11] = x[12];
  x[12][0][2][2] += 1e-3;  // all but one pixel
  std::vector<int64_t> rows(600);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  EXPECT_THAT(equal_pictures(TensorPictures(x.clamp(0, 1)), rows),
              ElementsAre(ElementsAre(7, 300, 599)));
}

TEST(EqualRows, AreNumberedAsTheyAppear) {
  EXPECT_THAT(numbered({7, 3, 7, -1, 3}), ElementsAre(0, 1, 0, 2, 1));
}

}  // namespace
}  // namespace cdt::data
