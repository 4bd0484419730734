// Tables as people have them: other delimiters, odd names, a cell that is no number.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <sstream>

#include "support/program.h"

namespace cdt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Tables : public test::Program {
 protected:
  /// Rows of three columns under this header, with `mark` between.
  static std::string rows(const std::string& header, char mark = ',', int count = 30) {
    std::string text = header + "\n";
    for (int i = 0; i < count; ++i) {
      text += std::to_string(i % 7) + mark + std::to_string(i * i % 11) + mark +
              std::to_string(3 * (i % 7) + i * i % 11) + "\n";
    }
    return text;
  }
  static constexpr const char* kShort =
      " --goal fit --threads 1 --no-analysis --hidden 8 --steps 3 ";
  void expect_trained(const std::string& arguments) const {
    const Result result = cdt("train " + arguments + kShort);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
  }
};

TEST_F(Tables, ColumnsWhoseNamesHaveCommas) {
  write("a.csv", rows("\"x, y\",\"say \"\"hi\"\"\",\"price, net\""));
  expect_trained("a.csv --target '\"price, net\"' --drop '\"x, y\"' --out one");
  EXPECT_EQ(parse("one/run.json")["settings"]["target"], "price, net");
  EXPECT_EQ(parse("one/run.json")["data"]["features"], 1);
  // The settings go back through the command line.
  EXPECT_EQ(cdt("train --resume one --steps 5").code, 0) << slurp("err.txt");
  expect_trained("a.csv --target '\"price, net\",\"say \"\"hi\"\"\"' --out two");
  write("c.toml", "target = ['price, net']\nnumeric = ['x, y', 'say \"hi\"']\n");
  expect_trained("a.csv --config c.toml --out three");
  EXPECT_EQ(cdt("data describe a.csv --target '\"price, net\"'").code, 0);
  expect_wrong_usage("data describe a.csv --target 'price, net'", "in double quotes");
  expect_wrong_usage("data describe a.csv --target '\"price'", "--target: expected names");
}

TEST_F(Tables, SemicolonsAreFound) {
  write("a.csv", rows("a;b;price", ';'));
  expect_trained("a.csv --target price --out run");
  EXPECT_EQ(parse("run/preprocess.json")["csv"]["delimiter"], ";");
  EXPECT_EQ(parse("run/run.json")["settings"]["delimiter"], ";");
  EXPECT_EQ(cdt("train --resume run --steps 5").code, 0) << slurp("err.txt");
  EXPECT_EQ(cdt("predict run a.csv --out p.csv --threads 1").code, 0) << slurp("err.txt");
  write("b.csv", rows("a,b,price"));
  expect_wrong_usage("predict run b.csv --out q.csv --threads 1", "delimiter");
}

TEST_F(Tables, ACellAmongNumbersIsNamed) {
  std::string text = rows("a,b,price");
  text.replace(text.find("\n3,"), 3, "\n3x,");
  write("a.csv", text);
  const std::string named = "a.csv:5: column \"a\" is text, because of the cell \"3x\"";
  for (const std::string command :
       {"data describe a.csv",
        "train a.csv --target price --out run --threads 1 --hidden 8 --steps 2",
        "analyze a.csv --target price --threads 1 --hidden 8 --trial-steps 0",
        "compare a.csv --target price --archs 8 --steps 2 --lrs 0.1 --methods gd --seeds 1 --jobs "
        "1"}) {
    const Result result = cdt(command);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr(named)) << command;
  }
  expect_wrong_usage("data describe a.csv --numeric a",
                     "a.csv:5: expected a number in column \"a\", got \"3x\"");
  expect_wrong_usage("train a.csv --target a --out no",
                     "a.csv:5: expected the target \"a\" to be numeric, got \"3x\"");
}

TEST_F(Tables, NamesDoNotSteerTheTerminal) {
  const std::string evil =
      "\x1b]0;owned\a\x1b[2J\xc2\x9b"
      "31m";
  std::string text = evil + "a," + evil + "b," + evil + "price," + evil + "kind\n";
  for (int i = 0; i < 30; ++i) {
    text += std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i * i % 11) +
            "," + evil + "c" + std::to_string(i % 3) + "\n";
  }
  write("a.csv", text);
  const auto tame = AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xc2\x9b")), Not(HasSubstr("\a")));
  const auto expect_tame = [&](const std::string& arguments, int code) {
    const Result result = cdt(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_THAT(result.out, tame) << arguments;
    EXPECT_THAT(result.err, tame) << arguments;
    EXPECT_THAT(result.out + result.err, HasSubstr("\\x1b")) << arguments;
  };
  const std::string price = "--target '" + evil + "price' ", kind = "--target '" + evil + "kind' ";
  const std::string network = "--threads 1 --hidden 8 ";
  expect_tame("data describe a.csv " + price, 0);
  expect_tame("train a.csv " + price + network + "--steps 3 --out run", 0);
  expect_tame("train a.csv " + kind + network + "--loss cross-entropy --steps 3 --out classes", 0);
  expect_tame("predict run a.csv --out p.csv --threads 1", 0);
  expect_tame("predict classes a.csv --out p.csv --threads 1", 0);
  expect_tame("train a.csv " + kind + network + "--goal fit --out no", 2);
  expect_tame("train a.csv --target '" + evil + "' --out no", 2);
  expect_tame("train '" + evil + "' --target x --out no", 2);
  expect_tame("'" + evil + "'", 2);
  expect_tame("train a.csv --steps '" + evil + "'", 2);
}

TEST_F(Tables, CsvSafeIsSafeForSpreadsheets) {
  std::string text = "a,=kind\n";
  for (int i = 0; i < 30; ++i) text += std::to_string(i % 3) + (i % 3 == 0 ? ",=1+2\n" : ",-x\n");
  write("a.csv", text);
  const std::string arguments = "a.csv --target =kind --loss cross-entropy ";
  expect_trained(arguments + "--out plain");
  expect_trained(arguments + "--csv-safe --out safe");
  EXPECT_THAT(slurp("plain/predictions.csv"), AllOf(HasSubstr(",=kind,"), HasSubstr(",=1+2,")));
  const auto guarded =
      AllOf(HasSubstr(",'=kind"), HasSubstr(",'-x,"), Not(HasSubstr(",=")), Not(HasSubstr(",-x")));
  EXPECT_THAT(slurp("safe/predictions.csv"), guarded);
  EXPECT_EQ(cdt("predict plain a.csv --csv-safe --out p.csv --threads 1").code, 0);
  EXPECT_THAT(slurp("p.csv"), guarded);
  EXPECT_EQ(cdt("report safe --out page.html").code, 0) << slurp("err.txt");
  EXPECT_EQ(cdt("train --resume safe --steps 5").code, 0) << slurp("err.txt");
  EXPECT_THAT(slurp("safe/predictions.csv"), guarded);
}

/// Visits of customers: an identifier, dates, a rare kind, gaps in a number and in the target.
std::string visits(int count = 80) {
  std::string text = "visit,customer,day,kind,hours,price\n";
  for (int i = 0; i < count; ++i) {
    const std::string day = std::to_string(101 + i * 3 % 28).substr(1);
    text += "v" + std::to_string(i) + ",c" + std::to_string(i % 16) + ",2024-0" +
            std::to_string(1 + i / 10) + "-" + day + "," + (i % 3 == 0 ? "long" : "short") + "," +
            (i % 9 == 4 ? "" : std::to_string(i % 7)) + "," +
            (i % 20 == 11 ? "" : std::to_string(50 + 10 * (i % 7) + i * i % 5)) + "\n";
  }
  return text;
}

TEST_F(Tables, WhatIsChosenForPredictionIsSaidAndRecorded) {
  write("a.csv", visits());
  const std::string start =
      "train a.csv --target price --threads 1 --hidden 8 --steps 3 --goal predict --ensemble 1 "
      "--out run ";
  const Result done = cdt(start + "--group customer --test-fraction 0.2");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("visit: left out, an identifier: 80 different texts in 80 rows"),
                    HasSubstr("customer: left out, it says which rows belong together"),
                    HasSubstr("day: dates, taken as month, weekday, day"),
                    HasSubstr("4 rows without a target are left out"), HasSubstr("hours: ")));
  const auto record = parse("run/run.json");
  EXPECT_EQ(record["settings"]["group"], "customer");
  EXPECT_EQ(record["defaults"]["categories"], "onehot");
  EXPECT_EQ(record["defaults"]["clip"], "3");
  const auto preprocess = parse("run/preprocess.json");
  EXPECT_EQ(preprocess["columns"][0]["part"], "month");
  EXPECT_THAT(preprocess["notes"].dump(), HasSubstr("visit: left out"));
  // New rows: days to come, a kind that nobody knew, an identifier that nobody needs.
  write("new.csv", "day,kind,hours\n2025-12-24,short,3\n2024-01-01,odd,\nlater,long,1e300\n");
  const Result found = cdt("predict run new.csv --out p.csv --json p.json --threads 1");
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.err, AllOf(HasSubstr("new.csv:3: 1 row of column \"kind\""),
                               HasSubstr("new.csv:4: 1 row of column \"day\"")));
  EXPECT_EQ(parse("p.json")["unknown"][0]["first"], "later");
  // By time instead, and overruled choices.
  const Result again = cdt(start +
                           "--overwrite --time day --keep visit,customer --quantiles 0 "
                           "--clip 0 --max-levels 3 --target-transform log");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("identifier")));
  EXPECT_EQ(parse("run/preprocess.json")["targets"][0]["transform"], "log");
  EXPECT_FALSE(parse("run/preprocess.json").contains("clip"));
  expect_wrong_usage(start + "--overwrite --time kind", "expected a number or a date");
  expect_wrong_usage(start + "--overwrite --missing-target error", "missing in lines 13, 33");
  expect_wrong_usage(start + "--overwrite --quantiles 2", "quantiles: expected 0, or 3 to 1000");
}

TEST_F(Tables, AFitWarnsOfWhatPredictWillRefuse) {
  write("a.csv", visits());
  const Result done =
      cdt("train a.csv --target price --missing-target drop --out run" + std::string(kShort));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("visit: looks like an identifier"),
                              HasSubstr("day: dates, taken as "), HasSubstr("--drop day")));
  write("new.csv", "visit,customer,day,kind,hours\nv1,c1,2025-12-24,short,3\n");
  expect_wrong_usage("predict run new.csv --out p.csv --threads 1", "--unknown missing");
}

/// Prices, shares and dates as people write them, and a code that decides much.
std::string bills(int count, bool plain) {
  std::string text = "code,price,share,day,y\n";
  for (int i = 0; i < count; ++i) {
    const int price = 900 + 37 * (i * 7 % 60), share = i * 11 % 90, day = 1 + i % 28;
    text += plain ? fmt::format("{},{},{},2024-03-{:02},", 1 + i % 4, price, share, day)
                  : fmt::format("{}.0,\"${},{:03}.00\",{}%,{}.03.2024,", 1 + i % 4, price / 1000,
                                price % 1000, share, day);
    text += fmt::format("{}\n", 5 * (i % 4) + price / 1000.0 + day);
  }
  // Below a thousand there is nothing to separate.
  for (size_t at = text.find("$0,"); at != std::string::npos; at = text.find("$0,")) {
    text.replace(at, 3, "$");
  }
  return text;
}

TEST_F(Tables, NumbersAndDatesOfPeopleAreRead) {
  write("people.csv", bills(60, false));
  write("plain.csv", bills(60, true));
  const std::string start =
      "train people.csv --target y --threads 1 --hidden 8 --steps 3 --ensemble 1 ";
  const Result done = cdt(start + "--text code --out run");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("price: numbers in $ with , between thousands"),
                              HasSubstr("share: per cent"),
                              HasSubstr("day: dates with the day before the month")));
  // New files are read the same way, and plain ones too: 1 is the category 1.0.
  ASSERT_EQ(cdt("predict run people.csv --out p.csv --threads 1 --unknown refuse").code, 0);
  ASSERT_EQ(cdt("predict run plain.csv --out q.csv --threads 1 --unknown refuse").code, 0)
      << slurp("err.txt");
  EXPECT_EQ(slurp("p.csv"), slurp("q.csv"));
  EXPECT_EQ(cdt("data describe people.csv --target y").code, 0);
  EXPECT_THAT(slurp("out.txt"), HasSubstr("numbers in $"));
  // What is open is asked for.
  write("open.csv", "d,w,y\n1/2/2024,1,3\n3/4/2024,2,4\n5/6/2024,5,1\n7/8/2024,3,1\n");
  EXPECT_THAT(cdt("data describe open.csv").err, HasSubstr("--dates day-month, or month-day"));
  EXPECT_THAT(cdt("data describe open.csv --dates month-day").err, Not(HasSubstr("--dates")));
}

TEST_F(Tables, WhatTrainingDidNotKnowIsCountedOrRefused) {
  write("a.csv", bills(60, true));
  ASSERT_EQ(
      cdt("train a.csv --target y --text code --threads 1 --hidden 8 --ensemble 1 --out run").code,
      0);
  write("new.csv",
        "code,price,share,day\n1,1000,5,2024-03-05\n77,1000,5,2024-03-05\n"
        "1,,5,2024-03-05\n2,,6,2024-03-06\n1,1000,5,1/2/2024\n");
  const Result found =
      cdt("predict run new.csv --interval 0.9 --out p.csv --json p.json --threads 1");
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.err,
              AllOf(HasSubstr("1 row of column \"code\" with what training did not know"),
                    HasSubstr("new.csv:4: 2 rows without a value in column \"price\"")));
  EXPECT_EQ(parse("p.json")["unknown"].size(), 3U);
  EXPECT_EQ(parse("p.json")["unknown"][2]["missing"], true);
  std::vector<double> widths;  // row, y, y_low, y_high
  std::istringstream lines(slurp("p.csv"));
  for (std::string line; std::getline(lines, line);) {
    double row = 0, y = 0, low = 0, high = 0;
    if (std::sscanf(line.c_str(), "%lf,%lf,%lf,%lf", &row, &y, &low, &high) == 4)
      widths.push_back(high - low);
  }
  ASSERT_EQ(widths.size(), 5U);
  const auto width = [&](size_t row) { return widths[row]; };
  EXPECT_GT(width(2), 10);  // as far as the targets go
  EXPECT_GT(width(2), width(0));
  EXPECT_GT(width(4), 10);
  expect_wrong_usage("predict run new.csv --unknown refuse --out q.csv --threads 1",
                     "with what training did not know");
  EXPECT_FALSE(exists("q.csv"));
}

TEST_F(Tables, TwoValuesAreClassesUnlessALossSaysOtherwise) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 60; ++i)
    text += fmt::format("{},{},{}\n", i * 7 % 60, i * 11 % 60, i * 7 % 60 > 30 ? 1 : 0);
  write("a.csv", text);
  const std::string start = "train a.csv --target y --threads 1 --hidden 8 --steps 3 --ensemble 1 ";
  const Result classes = cdt(start + "--out classes");
  ASSERT_EQ(classes.code, 0) << classes.err;
  EXPECT_THAT(classes.err, HasSubstr("y has two values, 0 and 1: learned as classes (--loss mse"));
  EXPECT_EQ(parse("classes/preprocess.json")["targets"][0]["classes"][1], "1");
  const Result number = cdt(start + "--loss mse --out number");
  ASSERT_EQ(number.code, 0) << number.err;
  EXPECT_THAT(number.err, Not(HasSubstr("two values")));
  EXPECT_FALSE(parse("number/preprocess.json")["targets"][0].contains("classes"));
  const Result fit = cdt("train a.csv --target y --out fit" + std::string(kShort));
  EXPECT_THAT(fit.err, HasSubstr("learned as a number (--loss cross-entropy learns classes)"));
}

TEST_F(Tables, PackedTablesAreTables) {
  write("a.csv", rows("a,b,price"));
  ASSERT_EQ(shell("gzip -k a.csv").code, 0);
  expect_trained("a.csv.gz --target price --out packed");
  expect_trained("a.csv --target price --out plain");
  EXPECT_EQ(slurp("packed/predictions.csv"), slurp("plain/predictions.csv"));
  EXPECT_EQ(parse("packed/run.json")["data"]["checksum"],
            parse("plain/run.json")["data"]["checksum"]);
  expect_wrong_usage("train a.csv --target Price --out no", "the columns are \"price\"");
}

TEST_F(Tables, ClassesAreDescribed) {
  write("a.csv", "x,kind\n1,plum\n2,apple\n1,apple\n2,apple\n3,\n");
  const Result found = cdt("data describe a.csv --target kind --json d.json");
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, AllOf(HasSubstr("kind as classes: 2: \"apple\" (3), \"plum\" (1)"),
                               HasSubstr("Conflict: lines 2, 4 are the same but for kind")));
  EXPECT_EQ(parse("d.json")["classes"]["kind"][0]["count"], 3);
}

}  // namespace
}  // namespace cdt
