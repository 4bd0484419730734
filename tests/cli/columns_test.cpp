// Columns of the files that are written: each has a name of its own, so that cdt reads them again.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/training.h"

namespace cdt {
namespace {

using nlohmann::json;
using test::homes;
using test::Training;

/// Targets may have the names of the columns that stand beside them.
TEST_F(Training, NoColumnOfAFileComesTwice) {
  const auto columns = [&](test::Text file) {
    EXPECT_EQ(cdt("data describe " + file + " --json d.json --quiet").code, 0) << slurp("err.txt");
    test::Row names;
    const json described = parse("d.json");
    for (const json& each : described["columns"]) names.push_back(each["name"]);
    return names;
  };
  const std::string header = "area,rooms,kind,";
  const std::string csv = homes(kRows).substr(homes(kRows).find('\n') + 1);
  const auto with = [&](test::Text name) { write("t.csv", header + name + "\n" + csv); };
  const auto learn = [&](test::Text target) {
    const Result result = cdt("train t.csv --target \"" + target +
                              "\" --out r --overwrite --quiet --threads 1 --hidden 4 --ensemble 2 "
                              "--goal predict --steps 3");
    ASSERT_EQ(result.code, 0) << result.err;
  };
  for (const std::string target : {"row", "split", "row_2", "price_low"}) {
    SCOPED_TRACE(target);
    with(target);
    learn(target);
    ASSERT_EQ(cdt("predict r t.csv --interval 0.9 --id kind --out p.csv").code, 0);
    const std::string number = target == "row" ? "row_2" : "row";
    EXPECT_EQ(columns("p.csv"),
              (test::Row{number, "kind", target, target + "_low", target + "_high"}));
    const test::Row kept = columns("r/predictions.csv");
    EXPECT_EQ(kept.at(2), target);
    EXPECT_EQ(kept.size(), 6U);
    EXPECT_EQ(cdt("report r").code, 0);
  }
  // Two targets, one called as the other's bound and prediction.
  write("t.csv", test::edited(homes(kRows), [](test::Row& row, int i) {
          row[1] = i == 0 ? "price_low" : row[3];
          row.push_back(i == 0 ? "price predicted" : row[3]);
        }));
  learn("price,price_low,price predicted");
  ASSERT_EQ(cdt("predict r t.csv --interval 0.9 --out p.csv").code, 0) << slurp("err.txt");
  EXPECT_EQ(columns("p.csv"),
            (test::Row{"row", "price", "price_low", "price predicted", "price_low_2", "price_high",
                       "price_low_low", "price_low_high", "price predicted_low",
                       "price predicted_high"}));
  EXPECT_EQ(columns("r/predictions.csv"),
            (test::Row{"row", "split", "price", "price predicted_2", "price_low",
                       "price_low predicted", "price predicted", "price predicted predicted",
                       "price low", "price high", "price_low low", "price_low high",
                       "price predicted low", "price predicted high"}));
  EXPECT_EQ(cdt("report r").code, 0);
}

}  // namespace
}  // namespace cdt
