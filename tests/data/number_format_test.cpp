// Numbers as people write them: what a column has in common decides.
#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/csv/column_builder.h>
#include <cdt/data/number_format.h>
#include <gmock/gmock.h>

#include <cmath>

namespace cdt::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The numbers that the texts are together; nothing if they are none.
std::vector<double> read_all(const std::vector<std::string>& texts, char decimal = 0) {
  const FormatSearch found = find_format(texts, decimal);
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    if (found.format) numbers.push_back(parse_number(text, *found.format).value());
  }
  return numbers;
}

TEST(NumberFormats, AreWhatAllHaveInCommon) {
  EXPECT_THAT(read_all({"$37,000.00", "$950.5", "-$3.25"}), ElementsAre(37000, 950.5, -3.25));
  EXPECT_THAT(read_all({"1.234,50 €", "7 €", "(2,5 €)"}), ElementsAre(1234.5, 7, -2.5));
  EXPECT_THAT(read_all({"EUR 12", "EUR1,200"}), ElementsAre(12, 1200));
  EXPECT_THAT(read_all({"18%", "7 %", "−3.5%"}), ElementsAre(18, 7, -3.5));
  EXPECT_THAT(read_all({"2,5", "3,75", "4"}), ElementsAre(2.5, 3.75, 4));
  EXPECT_THAT(read_all({"1,200", "12,345,678", "950"}), ElementsAre(1200, 12345678, 950));
  EXPECT_THAT(read_all({"12,34,567", "1,000.5"}), ElementsAre(1234567, 1000.5));
  EXPECT_THAT(read_all({"1.200", "1.234.567"}), ElementsAre(1200, 1234567));
  EXPECT_THAT(read_all({"1 200", "15\u00a0300,5", "7"}), ElementsAre(1200, 15300.5, 7));
  EXPECT_THAT(read_all({"1'200.5", "2"}), ElementsAre(1200.5, 2));
  EXPECT_THAT(read_all({"12 kg", "13kg", "1.5 kg"}), ElementsAre(12, 13, 1.5));
  EXPECT_THAT(read_all({"1e3 km/h", ".5 km/h", "3 km/h"}), ElementsAre(1000, 0.5, 3));
  EXPECT_THAT(read_all({"20 m²", "31 m²", "1,020 m²"}), ElementsAre(20, 31, 1020));
}

TEST(NumberFormats, OfOtherTextsThereAreNone) {
  for (const std::vector<std::string>& texts :
       std::vector<std::vector<std::string>>{{"1", "2.5"},  // plain numbers need no format
                                             {"3.4 GHz", "800 MHz"},  // two units
                                             {"12 kg", "13"},         // one has none
                                             {"$5", "€5"},
                                             {"2wd", "4wd"},         // two categories as well
                                             {"A12", "A13", "A14"},  // codes
                                             {"1st", "2nd", "3rd"},
                                             {"10-19", "20-29"},
                                             {"10:30", "11:45"},
                                             {"31.12.2020", "1.1.2021"},
                                             {"192.168.1.1", "10.0.0.12"},
                                             {"1,2,3", "4,5,6"},
                                             {"1,20,000,0", "7"},
                                             {"0x10", "0x11", "0x12"},
                                             {"5", "many"},
                                             {"1.2.3", "1.2.4"},
                                             {"", "5%"},
                                             {}}) {
    EXPECT_THAT(read_all(texts), IsEmpty()) << (texts.empty() ? "" : texts[0]);
  }
}

TEST(NumberFormats, WhatIsOpenIsSaidOrAsked) {
  // Thousands, unless zeros in front or other digits behind say otherwise.
  EXPECT_THAT(read_all({"1,200", "950"}), ElementsAre(1200, 950));
  EXPECT_THAT(read_all({"0,125", "0,250"}), ElementsAre(0.125, 0.25));
  EXPECT_THAT(read_all({"1,200", "1,2"}), ElementsAre(1.2, 1.2));
  EXPECT_THAT(read_all({"1,200", "950"}, ','), ElementsAre(1.2, 950));
  // Where other marks separate fields, a comma may well be a decimal one.
  const FormatSearch open = find_format({"1,200", "950"}, 0, /*comma_likely=*/true);
  EXPECT_FALSE(open.format);
  EXPECT_THAT(open.doubt, HasSubstr("1,200 may be 1200 or 1.2"));
  EXPECT_TRUE(find_format({"1,200", "950"}, '.', true).format);
  EXPECT_EQ(parse_decimal("comma"), ',');
  EXPECT_THROW(parse_decimal(","), InvalidArgument);
  // No price has three decimals; a weight may.
  EXPECT_THAT(read_all({"1.200 €", "900 €"}), ElementsAre(1200, 900));
  EXPECT_THAT(read_all({"1.200 kg", "2.300 kg", "1.100 kg"}), ElementsAre(1.2, 2.3, 1.1));
}

TEST(NumberFormats, NewTextsMayLackWhatStandsAround) {
  const NumberFormat format = *find_format({"1.200,50 €", "3 €"}).format;
  EXPECT_EQ(parse_number("1.200", format), 1200);
  EXPECT_EQ(parse_number("2,5", format), 2.5);
  EXPECT_EQ(parse_number("2.5", format), 2.5);  // of a file with points
  EXPECT_EQ(parse_number("$2", format), std::nullopt);
  EXPECT_EQ(parse_number("TRUE", {}), 1);
  EXPECT_EQ(parse_number("false", {}), 0);
  EXPECT_EQ(parse_number("1,200", {}), std::nullopt);
}

TEST(NumberFormats, ValuesAreEqualHoweverTheyAreWritten) {
  for (const char* one : {"1", "1.0", "01", "1.000", "+1", "1e0", "true", "TRUE", " 1 "})
    EXPECT_EQ(value_key(one), "1") << one;
  for (const char* nothing : {"0", "-0", "0.0", "False"}) EXPECT_EQ(value_key(nothing), "0");
  EXPECT_EQ(value_key("1.50"), value_key("1.5"));
  EXPECT_NE(value_key("9007199254740993"), value_key("9007199254740992"));
  EXPECT_EQ(value_key("9007199254740993.0"), value_key("9007199254740993"));
  for (const char* text : {"", "one", "yes", "nan", "1 2"}) EXPECT_FALSE(value_key(text)) << text;
}

TEST(NumberFormats, ColumnsOfFilesAreReadByThem) {
  const std::string text =
      "price,share,kind,weight,note\n"
      "\"$37,000.00\",18%,red,12 kg,1 a\n"
      "\"$1,000\",NA,blue,13.5 kg,2 b\n"
      ",7%,red,9 kg,3 c\n";
  const Table table = parse_csv(text, "cars.csv");
  EXPECT_THAT(table.at("price").numbers.to_vector(), ElementsAre(37000, 1000, testing::IsNan()));
  EXPECT_THAT(table.at("share").numbers.to_vector(), ElementsAre(18, testing::IsNan(), 7));
  EXPECT_THAT(table.at("weight").numbers.to_vector(), ElementsAre(12, 13.5, 9));
  EXPECT_EQ(table.at("kind").type, ColumnType::kText);
  EXPECT_EQ(table.at("note").type, ColumnType::kText);
  EXPECT_THAT(table.at("price").understood, HasSubstr("numbers in $ with , between thousands"));
  EXPECT_THAT(warnings_of(table), IsEmpty());
  // --text has the last word, and a column of a known type is read as it was.
  CsvOptions options;
  options.types["share"] = ColumnType::kText;
  EXPECT_THAT(parse_csv(text, "cars.csv", options).at("share").categories,
              ElementsAre("18%", "7%"));
  options.types = {{"price", ColumnType::kNumeric}};
  options.formats["price"] = *table.at("price").format;
  const Table again = parse_csv("price\n\"$2,500\"\n3000\n", "new.csv", options);
  EXPECT_THAT(again.at("price").numbers.to_vector(), ElementsAre(2500, 3000));
  EXPECT_THROW(parse_csv("price\n18%\n", "new.csv", options), InvalidArgument);
}

TEST(NumberFormats, AFewCellsOfAnotherFormAreNamed) {
  std::string text = "price,day,kind\n";
  for (int i = 0; i < 20; ++i) {
    text += "$" + std::to_string(100 + i) + "," + std::to_string(i + 1) + ".3.2024,k" +
            std::to_string(i % 3) + "\n";
  }
  const Table table = parse_csv(text + "n/a,later,k4\n", "t.csv");
  EXPECT_EQ(table.at("price").type, ColumnType::kText);
  EXPECT_THAT(warnings_of(table),
              ElementsAre(testing::AllOf(HasSubstr("20 cells are numbers like"),
                                         HasSubstr("1 are not, \"n/a\" first")),
                          testing::AllOf(HasSubstr("20 cells are dates like"),
                                         HasSubstr("1 are not, \"later\" first"))));
  CsvOptions options;
  options.missing_marks = {"n/a", "later"};
  EXPECT_THAT(warnings_of(parse_csv(text + "n/a,later,k4\n", "t.csv", options)), IsEmpty());
}

TEST(NumberFormats, WholeNumbersKeepTheirIdentity) {
  std::string text = "id,big,y\n";
  for (int i = 0; i < 40; ++i) {
    text += std::to_string(9007199254740993 + i % 4) + "," +
            std::to_string(1234567890123456789 + 1000003LL * i) + ",1\n";
  }
  const Table table = parse_csv(text, "t.csv");
  EXPECT_THAT(table.at("id").categories, ElementsAre("9007199254740993", "9007199254740994",
                                                     "9007199254740995", "9007199254740996"));
  EXPECT_FALSE(table.at("id").not_numeric);
  EXPECT_EQ(table.at("big").type, ColumnType::kNumeric);  // they differ as numbers, too
  EXPECT_THAT(warnings_of(table), ElementsAre(HasSubstr("column \"big\": ")));
  CsvOptions options;
  options.types["id"] = ColumnType::kNumeric;
  EXPECT_THAT(warnings_of(parse_csv(text, "t.csv", options)).front(),
              HasSubstr("whole numbers beyond 2^53"));
}

}  // namespace
}  // namespace cdt::data
