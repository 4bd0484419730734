// New data that are written otherwise, or say what training did not know.
#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/dates.h>
#include <cdt/data/preprocess.h>
#include <cdt/data/rows/blocks.h>
#include <gmock/gmock.h>

namespace cdt::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PreprocessOptions to_predict() {
  PreprocessOptions options;
  options.targets = {"y"};
  options.encoding = Encoding::kOneHot;
  options.missing_number = MissingNumber::kMedian;
  options.unknown_category = UnknownCategory::kMissing;
  options.missing_indicator = true;
  options.dates = true;
  return options;
}

Table read_as(const Preprocess& preprocess, const std::string& text) {
  return parse_csv(text, "new.csv", preprocess.csv_options());
}

TEST(Unknown, CategoriesAreMatchedByTheirValue) {
  CsvOptions csv;
  csv.types = {{"code", ColumnType::kText}, {"flag", ColumnType::kText}};
  const Table table =
      parse_csv("code,flag,y\n1,true,1\n2,false,2\n010,true,3\n2,false,4\n", "t", csv);
  const Preprocess preprocess = parse_preprocess(to_json(fit_preprocess(table, to_predict(), csv)));
  const Table other = read_as(preprocess, "code,flag\n1.0,1\n2.0,0\n10,TRUE\n2,0.0\n");
  EXPECT_TRUE(torch::equal(preprocess.transform(other), preprocess.transform(table)));
  EXPECT_THAT(preprocess.unknown_values(other), IsEmpty());
  // What has the same value as two categories is neither.
  const Table twice = parse_csv("code,flag,y\n1,a,1\n01,b,2\n", "t", csv);
  const Preprocess both = fit_preprocess(twice, to_predict(), csv);
  const auto unknown = both.unknown_values(read_as(both, "code,flag\n1.0,a\n01,b\n"));
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown[0].rows, 1);
  EXPECT_EQ(unknown[0].first, "1.0");
}

TEST(Unknown, ClassesAreMatchedByTheirValue) {
  CsvOptions csv;
  csv.types["y"] = ColumnType::kText;
  PreprocessOptions options = to_predict();
  options.classes = true;
  const Preprocess preprocess =
      fit_preprocess(parse_csv("x,y\n1,0\n2,1\n3,0\n4,1\n", "t", csv), options, csv);
  const Table other = read_as(preprocess, "x,y\n1,1.0\n2,0.0\n");
  EXPECT_TRUE(torch::equal(preprocess.transform_targets(other).argmax(1), torch::tensor({1, 0})));
}

TEST(Unknown, MissingValuesAreCountedWhereThereWereNone) {
  const Table table =
      parse_csv("a,b,c,d,y\n1,,x,2024-01-01,1\n2,5,y,2024-02-03,2\n3,6,x,2024-03-04,3\n", "t");
  const Preprocess preprocess = parse_preprocess(to_json(fit_preprocess(table, to_predict())));
  const Table other =
      read_as(preprocess, "a,b,c,d\n1,5,x,2024-01-01\n,,x,2024-01-01\n2,5,,\n,5,z,2024-01-02\n");
  const auto unknown = preprocess.unknown_values(other);
  std::vector<std::string> found;
  for (const UnknownTexts& each : unknown) {
    found.push_back(
        c10::str(each.column, each.rows, each.missing ? " missing" : " unknown", each.line));
  }
  EXPECT_THAT(found, ElementsAre("c1 unknown5", "a2 missing3", "c1 missing4", "d1 missing4"));
  EXPECT_THAT(to_text(unknown[1]),
              HasSubstr("2 rows without a value in column \"a\", which had one "
                        "in each row of training; 2 stands for it"));
  EXPECT_THAT(preprocess.unfamiliar(other, {0, 1, 2, 3}), ElementsAre(false, true, true, true));
  EXPECT_THAT(preprocess.unfamiliar(table, {0, 1, 2}), ElementsAre(false, false, false));
  EXPECT_THAT(
      [&] { refuse_unknown(unknown, "new.csv"); },
      testing::ThrowsMessage<InvalidArgument>(HasSubstr("new.csv:5: 1 row of column \"c\"")));
  EXPECT_NO_THROW(refuse_unknown({}, "new.csv"));
}

TEST(Unknown, RecordsOfBeforeSayNothingOfMissingValues) {
  const Table table = parse_csv("a,y\n1,1\n2,2\n3,3\n", "t");
  std::string json = to_json(fit_preprocess(table, to_predict()));
  const std::string field = "\"complete\": true,";
  ASSERT_NE(json.find(field), std::string::npos);
  json.erase(json.find(field), field.size());
  EXPECT_THAT(parse_preprocess(json).unknown_values(parse_csv("a\nNA\n", "new.csv")), IsEmpty());
}

TEST(Dates, OfManyForms) {
  using enum DateOrder;
  const int64_t day = parse_date("2024-02-09")->day;
  for (const char* text :
       {"9.2.2024", "09.02.2024", "09/02/2024", "9-2-24", "09.02.24", "9 Feb 2024", "09-FEB-2024",
        "Feb 9, 2024", "February 9 2024", "2024/02/09", "9. February 2024", "9. 2. 2024"}) {
    ASSERT_TRUE(parse_date(text, kDayMonth)) << text;
    EXPECT_EQ(parse_date(text, kDayMonth)->day, day) << text;
  }
  for (const char* text : {"2/9/2024", "02/09/24", "02-09-2024", "9 Feb 2024"})
    EXPECT_EQ(parse_date(text, kMonthDay)->day, day) << text;
  for (const char* text : {"31.2.2024", "1.13.2024", "9.2", "9.2.2024x", "9/2.2024", "1.2.3.2024",
                           "9 Febr 2024", "Feb 2024", "9.2.2024 25:00", "9.2.024"})
    EXPECT_FALSE(parse_date(text, kDayMonth)) << text;
  EXPECT_FALSE(parse_date("9.2.2024"));
  EXPECT_FALSE(parse_date("2.9.2024", kMonthDay));  // points stand behind the day
  EXPECT_NEAR(parse_date("9.2.2024 2:30 PM", kDayMonth)->hour, 14.5, 1e-12);
  EXPECT_NEAR(parse_date("2/9/2024, 12:15 am", kMonthDay)->hour, 0.25, 1e-12);
  EXPECT_EQ(parse_date("1.1.68", kDayMonth)->year, 2068);
  EXPECT_EQ(parse_date("1.1.69", kDayMonth)->year, 1969);
}

TEST(Dates, InstantsKnowTheirZones) {
  const auto instant = [](const char* text) { return parse_date(text)->instant; };
  EXPECT_EQ(instant("1970-01-02"), 86400);
  EXPECT_EQ(instant("2024-03-01 10:00:00+10:00"), instant("2024-03-01T00:00:00Z"));
  EXPECT_EQ(instant("2024-03-01 10:00:00+1000"), instant("2024-02-29 20:30-0330"));
  EXPECT_LT(instant("2024-03-01 09:00:00+10:00"), instant("2024-03-01T00:00:00Z"));
  EXPECT_NEAR(instant("1970-01-01 00:00:01.25"), 1.25, 1e-9);
  // The hour is that of the place.
  EXPECT_EQ(parse_date("2024-03-01 10:00:00+10:00")->hour, 10);
  const Table table = parse_csv(
      "t,y\n2024-03-01 10:00+10:00,1\n2024-03-01 00:30Z,2\n2024-02-29 23:00,3\n"
      "2024-03-01 00:00Z,4\n",
      "t");
  EXPECT_THAT(time_numbers(table, "t", {0, 1, 2, 3}), ElementsAre(1, 2, 0, 1));
}

Column texts(const std::string& cells) { return parse_csv("d\n" + cells, "t").columns[0]; }

TEST(Dates, TheirOrderFollowsFromTheColumn) {
  using enum DateOrder;
  EXPECT_EQ(date_order(texts("2024-01-02\n2024-03-04\n")), kYearFirst);
  EXPECT_EQ(date_order(texts("1.2.2024\n3.4.2024\n")), kDayMonth);
  EXPECT_EQ(date_order(texts("1/2/2024\n13/4/2024\n")), kDayMonth);
  EXPECT_EQ(date_order(texts("1/2/2024\n4/13/2024\n")), kMonthDay);
  EXPECT_EQ(date_order(texts("1/1/2024\n3/3/2024\n")), kDayMonth);  // it makes no difference
  EXPECT_FALSE(date_order(texts("13/4/2024\n4/13/2024\n")));
  EXPECT_FALSE(date_order(texts("1.2.2024\nlater\n")));
  // Open: nobody guesses, and the message names one.
  const Table open = parse_csv("d,y\n1/2/2024,1\n3/4/2024,2\n", "t");
  EXPECT_FALSE(date_order(open.columns[0]));
  EXPECT_THAT(warnings_of(open),
              ElementsAre(HasSubstr("\"1/2/2024\" may be 2024-02-01 or 2024-01-02: --dates")));
  EXPECT_THROW(time_numbers(open, "d", {0, 1}), InvalidArgument);
  CsvOptions asked;
  asked.dates = kMonthDay;
  const Table told = parse_csv("d,y\n1/2/2024,1\n3/4/2024,2\n", "t", asked);
  EXPECT_EQ(date_order(told.columns[0]), kMonthDay);
  EXPECT_THAT(warnings_of(told), IsEmpty());
  EXPECT_EQ(parse_date_order(to_string(kDayMonth)), kDayMonth);
}

TEST(Dates, OfAnotherFormAreUnderstoodOrCounted) {
  const Table iso = parse_csv("d,y\n2024-01-15,1\n2024-02-20,2\n2024-05-06,3\n", "t");
  const Preprocess preprocess = fit_preprocess(iso, to_predict());
  const torch::Tensor x = preprocess.transform(iso);
  for (const char* same :
       {"d\n15.1.2024\n20.02.24\n6.5.2024\n", "d\n1/15/2024\n2/20/2024\n5/6/2024\n",
        "d\n15 Jan 2024\n\"Feb 20, 2024\"\n06-May-2024\n"}) {
    const Table other = read_as(preprocess, same);
    EXPECT_TRUE(torch::equal(preprocess.transform(other), x)) << same;
    EXPECT_THAT(preprocess.unknown_values(other), IsEmpty());
  }
  const Table open = read_as(preprocess, "d\n1/2/2024\n3/4/2024\n");
  EXPECT_EQ(preprocess.unknown_values(open).at(0).rows, 2);
  EXPECT_THAT(preprocess.unfamiliar(open, {0, 1}), ElementsAre(true, true));
  // Trained in an order, it knows what would be open.
  const Table slashes = parse_csv("d,y\n15/1/2024,1\n20/2/2024,2\n6/5/2024,3\n", "t");
  const Preprocess ordered = parse_preprocess(to_json(fit_preprocess(slashes, to_predict())));
  EXPECT_TRUE(torch::equal(ordered.transform(slashes), x));
  const Table next = read_as(ordered, "d\n6/5/2024\n");
  EXPECT_TRUE(torch::equal(ordered.transform(next)[0], x[2]));
}

TEST(Names, TheNearestComesFirst) {
  std::string header;
  for (int i = 0; i < 12; ++i) header += "column" + std::to_string(i) + ",";
  const Table table =
      parse_csv(header + "hwy,cyl\n" + "1,2,3,4,5,6,7,8,9,10,11,12,13,14\n", "cars.csv");
  EXPECT_THAT([&] { static_cast<void>(table.at("Hwy")); },
              testing::ThrowsMessage<InvalidArgument>(
                  HasSubstr("expected a column \"Hwy\", but the columns are \"hwy\", ")));
  EXPECT_THAT(list_nearest({"alpha", "beta", "Price"}, "price"), testing::StartsWith("\"Price\""));
  EXPECT_THAT(list_nearest({"alpha", "prise", "price "}, "price"), testing::StartsWith("\"pri"));
  // A model's columns are all that is read: the message knows the others.
  CsvOptions few;
  few.keep = {"Hwy", "cyl"};
  EXPECT_THAT(
      [&] {
        static_cast<void>(
            parse_csv(header + "hwy,cyl\n1,2,3,4,5,6,7,8,9,10,11,12,13,14\n", "c", few).at("Hwy"));
      },
      testing::ThrowsMessage<InvalidArgument>(HasSubstr("the columns are \"hwy\", ")));
}

}  // namespace
}  // namespace cdt::data
