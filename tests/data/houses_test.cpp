// The generated data set: the formula of its header, recomputed from the file.
#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/houses.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>

#include "support/temp_folder.h"

namespace cdt::data {
namespace {

Table houses(int64_t rows, uint64_t seed) {
  const test::TempFolder folder;
  std::ofstream(folder / "houses.csv") << make_houses(rows, seed);
  return read_csv(folder / "houses.csv");
}

TEST(Houses, FollowTheirFormula) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int64_t rows = 4000;
    const Table table = houses(rows, seed);
    ASSERT_EQ(table.rows(), rows);
    const auto number = [&](const char* name, size_t row) { return table.at(name).numbers[row]; };
    const auto text = [&](const char* name, size_t row) -> std::string {
      const Column& column = table.at(name);
      const int32_t code = column.codes[row];
      return code < 0 ? "" : column.categories[static_cast<size_t>(code)];
    };
    const std::map<std::string, double> rate{{"Centre", 1400},
                                             {"Harbour", 1100},
                                             {"Hills", 1250},
                                             {"Old Town, North", 1000},
                                             {"Suburb", 800}};
    const std::map<std::string, double> garage{
        {"attached", 12000}, {"built-in", 15000}, {"detached", 8000}, {"", 0}};
    const std::map<std::string, double> heating{
        {"district", 6000}, {"electric", 0}, {"gas", 3000}, {"oil", -4000}};
    double lowest = 1e9, highest = -1e9;  // of lot − 2·area
    double count = 0, sum = 0, squares = 0, no_garage = 0;
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      EXPECT_GE(number("area", row), 40);
      EXPECT_LE(number("area", row), 240);
      EXPECT_GE(number("rooms", row), 2);
      no_garage += text("garage", row).empty() ? 1 : 0;
      if (std::isnan(number("lot", row))) continue;
      lowest = std::min(lowest, number("lot", row) - 2 * number("area", row));
      highest = std::max(highest, number("lot", row) - 2 * number("area", row));
      const double rooms = number("rooms", row) - 1 - std::floor(number("area", row) / 35);
      EXPECT_TRUE(rooms == 0 || rooms == 1 || rooms == 2) << rooms;
      const double rest = number("price", row) -
                          (20000 +
                           std::floor(number("area", row) * rate.at(text("district", row)) *
                                      (60 + 8 * number("quality", row)) / 100) +
                           300 * (number("year", row) - 1900) + 40 * number("lot", row) +
                           garage.at(text("garage", row)) + heating.at(text("heating", row)));
      EXPECT_EQ(std::fmod(rest, 6), 0);
      EXPECT_LE(std::abs(rest), 36000);
      ++count;
      sum += rest;
      squares += rest * rest;
    }
    EXPECT_GE(lowest, 0);
    EXPECT_LE(highest, 600);
    EXPECT_GT(highest - lowest, 590);
    // Six standard errors each.
    const double deviation = 6 * 1001;
    EXPECT_NEAR(sum / count, 0, 6 * deviation / std::sqrt(count));
    EXPECT_NEAR(std::sqrt(squares / count), deviation, 6 * deviation / std::sqrt(2 * count));
    EXPECT_NEAR(count / rows, 7.0 / 8, 6 * std::sqrt(7.0 / 64 / rows));
    EXPECT_NEAR(no_garage / rows, 2.0 / 5, 6 * std::sqrt(6.0 / 25 / rows));
  }
}

TEST(Houses, SeedsRepeatAndDiffer) {
  EXPECT_EQ(make_houses(50, 1), make_houses(50, 1));
  EXPECT_NE(make_houses(50, 1), make_houses(50, 2));
  // More rows continue fewer.
  EXPECT_TRUE(make_houses(60, 1).starts_with(make_houses(50, 1)));
  // Pinned: results that quote a seed must stay repeatable.
  EXPECT_EQ(make_houses(3, 1),
            "area,rooms,year,quality,district,heating,garage,lot,price\n"
            "126,4,1911,7,Suburb,electric,NA,,142350\n"
            "170,7,1997,8,Suburb,oil,detached,830,254058\n"
            "60,3,1927,7,Suburb,oil,attached,573,110224\n");
  EXPECT_THROW(make_houses(0, 1), InvalidArgument);
}

}  // namespace
}  // namespace cdt::data
