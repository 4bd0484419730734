// CSV files: what they may contain, what their columns become, and what is refused.
#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/data/csv.h>
#include <cdt/data/csv/column_builder.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "support/temp_folder.h"

namespace cdt::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Csv : public testing::Test {
 protected:
  Table read(const std::string& text, const CsvOptions& options = {}) {
    std::ofstream(folder_ / "a.csv", std::ios::binary) << text;
    return read_csv(folder_ / "a.csv", options);
  }

  void expect_refused(const std::string& text, const std::vector<std::string>& parts,
                      const CsvOptions& options = {}) {
    SCOPED_TRACE(text.substr(0, 80));
    try {
      read(text, options);
      ADD_FAILURE() << "was read";
    } catch (const InvalidArgument& error) {
      for (const std::string& part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }

  test::TempFolder folder_;
};

/// The cells of a text column, missing ones as "-".
std::vector<std::string> cells(const Column& column) {
  std::vector<std::string> out;
  for (const int32_t code : column.codes)
    out.push_back(code < 0 ? "-" : column.categories[static_cast<size_t>(code)]);
  return out;
}

TEST_F(Csv, TypesColumnsByTheirContent) {
  const Table table = read("a,b,c\n1,x,2.5\n-3e2,y,\n.5,x,+7\n");
  ASSERT_EQ(table.columns.size(), 3u);
  EXPECT_EQ(table.rows(), 3);
  EXPECT_EQ(table.columns[0].type, ColumnType::kNumeric);
  EXPECT_THAT(table.columns[0].numbers, ElementsAre(1, -300, 0.5));
  EXPECT_EQ(table.columns[1].type, ColumnType::kText);
  EXPECT_THAT(table.columns[1].categories, ElementsAre("x", "y"));
  EXPECT_THAT(table.columns[1].codes, ElementsAre(0, 1, 0));
  EXPECT_EQ(table.columns[2].numbers[0], 2.5);
  EXPECT_TRUE(table.columns[2].is_missing(1));
  EXPECT_EQ(table.columns[2].numbers[2], 7);
  EXPECT_THAT(table.lines, ElementsAre(2, 3, 4));
  for (const char* name : {"c", "c", "a", "b", "c", "b", "a"}) EXPECT_EQ(table.at(name).name, name);
  EXPECT_EQ(table.find("d"), nullptr);
  EXPECT_THROW(table.at("d"), InvalidArgument);
}

TEST_F(Csv, CategoriesAreSortedByBytesWhateverTheOrderOfAppearance) {
  const Table table = read("t\nb\nZ\na\nä\nb\n10\n9\n");
  EXPECT_THAT(table.columns[0].categories, ElementsAre("10", "9", "Z", "a", "b", "ä"));
  EXPECT_THAT(cells(table.columns[0]), ElementsAre("b", "Z", "a", "ä", "b", "10", "9"));
}

TEST_F(Csv, QuotesLineEndsAndTheByteOrderMark) {
  const std::string rows =
      "\"a\",\"b, c\"\n1,\"say \"\"hi\"\"\"\n2,\"two\nlines\"\n\n  \n3, plain  \n";
  std::string crlf;
  for (const char c : rows) {
    crlf += c == '\n' ? "\r\n" : std::string(1, c);
  }
  for (const std::string& text : {rows, "\xef\xbb\xbf" + rows, rows.substr(0, rows.size() - 1)}) {
    const Table table = read(text);
    ASSERT_EQ(table.columns.size(), 2u);
    EXPECT_EQ(table.columns[0].name, "a");
    EXPECT_EQ(table.columns[1].name, "b, c");
    EXPECT_THAT(table.columns[0].numbers, ElementsAre(1, 2, 3));
    EXPECT_THAT(cells(table.columns[1]), ElementsAre("say \"hi\"", "two\nlines", "plain"));
    EXPECT_THAT(table.lines, ElementsAre(2, 3, 7));
  }
  const Table table = read(crlf);
  EXPECT_THAT(table.lines, ElementsAre(2, 3, 7));
  EXPECT_THAT(cells(table.columns[1]), ElementsAre("say \"hi\"", "two\r\nlines", "plain"));
  EXPECT_THAT(read("a\r1\r2\r").lines, ElementsAre(2, 3));
}

TEST_F(Csv, MissingMarks) {
  const Table table = read("n,t\n,\nNA,NA\n?,?\nnan,nan\nNaN,NaN\n\"\",\"\"\n1,x\n");
  EXPECT_EQ(table.columns[0].type, ColumnType::kNumeric);
  EXPECT_THAT(cells(table.columns[1]), ElementsAre("-", "-", "-", "-", "-", "-", "x"));
  for (int64_t row = 0; row < 6; ++row) EXPECT_TRUE(table.columns[0].is_missing(row)) << row;
  EXPECT_FALSE(table.columns[0].is_missing(6));
  // To the letter: these are text.
  EXPECT_THAT(cells(read("t\nna\nNone\nN/A\n").columns[0]), ElementsAre("na", "None", "N/A"));
  CsvOptions options;
  options.missing_marks = {"-999"};
  const Table own = read("n,t\n-999,NA\n5,x\n", options);
  EXPECT_TRUE(own.columns[0].is_missing(0));
  EXPECT_THAT(cells(own.columns[1]), ElementsAre("NA", "x"));
  EXPECT_EQ(read("n,m\n1,\n2,NA\n").columns[1].type, ColumnType::kNumeric);
}

TEST_F(Csv, ANumberTurnedTextKeepsItsSpelling) {
  const std::vector<std::string> spellings{"020",
                                           "20",
                                           "1.50",
                                           "1.5",
                                           "1e3",
                                           "1000",
                                           "+7",
                                           "-0",
                                           "0",
                                           "0.0",
                                           ".5",
                                           "5.",
                                           "-3",
                                           "00",
                                           "1E3",
                                           "0.05",
                                           "inf",
                                           "-Infinity",
                                           "1e999",
                                           "1e-999",
                                           "123456789012345",
                                           "12345678901234567890",
                                           "0.1234567890123",
                                           "0.12345678901234567890",
                                           "-12.75"};
  std::string text = "c\n";
  for (const auto& spelling : spellings) text += spelling + "\n";
  const Table table = read(text + "?\nx\n020\n");
  std::vector<std::string> expected = spellings;
  expected.insert(expected.end(), {"-", "x", "020"});
  EXPECT_EQ(cells(table.columns[0]), expected);
}

TEST_F(Csv, RandomDecimalsSurviveTurningToText) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 generator(seed);
    std::vector<std::string> expected;
    std::string text = "c\n";
    for (int row = 0; row < 2000; ++row) {
      std::string cell = generator() % 3 == 0 ? "-" : "";
      for (uint64_t k = 1 + generator() % 18; k > 0; --k)
        cell += static_cast<char>('0' + generator() % 10);
      if (generator() % 2 == 0) {
        cell += '.';
        for (uint64_t k = 1 + generator() % 8; k > 0; --k)
          cell += static_cast<char>('0' + generator() % 10);
      }
      expected.push_back(cell);
      text += cell + "\n";
    }
    CsvOptions as_text;
    as_text.types["c"] = ColumnType::kText;
    const Column forced = read(text, as_text).columns[0];
    const Column inferred = read(text + "x\n").columns[0];
    EXPECT_EQ(cells(forced), expected);
    expected.emplace_back("x");
    EXPECT_EQ(cells(inferred), expected);
    // And the numbers themselves, against strtod.
    const Column numbers = read(text).columns[0];
    ASSERT_EQ(numbers.type, ColumnType::kNumeric);
    for (size_t i = 0; i < numbers.numbers.size(); ++i)
      EXPECT_EQ(numbers.numbers[i], std::strtod(expected[i].c_str(), nullptr)) << expected[i];
  }
}

TEST_F(Csv, WhatLooksAlmostLikeANumberIsText) {
  for (const std::string cell :
       {"\"1,00,0\"", "0x10", "5 m", "1e", "--1", "+-1", "1.2.3", "nan(1)"})
    EXPECT_EQ(read("c\n1\n" + cell + "\n").columns[0].type, ColumnType::kText) << cell;
}

TEST_F(Csv, TypesCanBeForced) {
  CsvOptions options;
  options.types = {{"zip", ColumnType::kText}, {"n", ColumnType::kNumeric}};
  const Table table = read("zip,n\n01,1\n1,NA\n", options);
  EXPECT_THAT(table.columns[0].categories, ElementsAre("01", "1"));
  expect_refused("zip,n\n01,1\n1,abc\n", {"a.csv:3", "\"n\"", "abc", "number"}, options);
  expect_refused("zip,m\n01,1\n", {"\"n\"", "zip", "m"}, options);
}

TEST_F(Csv, WithoutAHeaderAndWithOtherDelimiters) {
  CsvOptions options;
  options.header = false;
  options.delimiter = ';';
  options.types["column2"] = ColumnType::kText;
  const Table table = read("1,5;2\n3;4\n", options);
  EXPECT_EQ(table.columns[0].name, "column1");
  EXPECT_THAT(table.columns[0].numbers.to_vector(), ElementsAre(1.5, 3));
  EXPECT_THAT(cells(table.columns[1]), ElementsAre("2", "4"));
  EXPECT_THAT(table.lines, ElementsAre(1, 2));
  options.delimiter = '\t';
  options.types.clear();
  EXPECT_TRUE(read("1\t\t3\n", options).columns[1].is_missing(0));
  for (const char bad : {'"', '\n', ' ', '\0', '\xe4'}) {
    options.delimiter = bad;
    expect_refused("1\n", {"delimiter"}, options);
  }
}

TEST_F(Csv, TheFirstLineShowsTheDelimiter) {
  const auto found = [&](const std::string& text) { return read(text).delimiter; };
  EXPECT_EQ(found("a,b\n1,2\n"), ',');
  EXPECT_EQ(found("a;b\n1,5;2\n"), ';');
  EXPECT_EQ(found("\n \n\"a, b\";\"c\nd\"\n1;2\n"), ';');
  EXPECT_EQ(found("a\tb c\n1\t2\n"), '\t');
  EXPECT_EQ(found("\xef\xbb\xbf"
                  "a|b|c\r\n1|2|3\r\n"),
            '|');
  EXPECT_EQ(found("a;b,c\n1,2\n"), ',') << "both";
  EXPECT_EQ(found("a\n1\n"), ',');
  EXPECT_EQ(found("\ta\t\n1\n"), ',') << "tabs around a name are blanks";
  CsvOptions options;
  options.header = false;
  EXPECT_EQ(read("1;2\n3;4\n", options).columns.size(), 2u);
  options.delimiter = ',';
  EXPECT_EQ(read("1;2\n3;4\n", options).columns.size(), 1u);
  // Longer than a read.
  std::string wide = "c0";
  for (int i = 1; i < 60'000; ++i) wide += ";c" + std::to_string(i);
  EXPECT_EQ(read(wide + "\n" + std::string(59'999, ';') + "\n").columns.size(), 60'000u);
  // What cannot be told is asked for.
  expect_refused("a;b\n1;2\n3\n", {"a.csv:3", "expected 2 fields", "\";\"", "delimiter"});
  expect_refused("a;b|c\n1,2\n", {"a.csv:2", "expected 1 fields", "\",\"", "delimiter"});
  options = {};
  options.drop = {"b"};
  expect_refused("a;b|c\n1;2|3\n", {"expected a column \"b\"", "delimiter"}, options);
  options = {};
  options.delimiter = ',';
  options.keep = {"a", "b"};
  expect_refused("a;b\n1;2\n", {"expected a column \"a\"", "\"a;b\"", "delimiter"}, options);
}

TEST_F(Csv, ACellThatIsNoNumberIsNamed) {
  const Table table = read("n,t,m,k\n1,x,1,1\n2,5,NA,a\n12k,y,3,2\n4,z,4,b\n-,z,5,\n6,z,6,c\n");
  EXPECT_FALSE(table.at("m").not_numeric);
  const auto& why = table.at("n").not_numeric;
  ASSERT_TRUE(why);
  EXPECT_EQ(why->line, 4);
  EXPECT_EQ(why->text, "12k");
  EXPECT_EQ(why->others, 2);
  EXPECT_EQ(why->numbers, 4);
  EXPECT_EQ(table.at("t").not_numeric->line, 2);
  EXPECT_THAT(warnings_of(table),
              ElementsAre(AllOf(HasSubstr("a.csv:4: column \"n\" is text"), HasSubstr("\"12k\""),
                                HasSubstr("numbers: 4, other cells: 2"))))
      << "and nothing about columns that are text through and through";
  EXPECT_THAT(
      [&] { require_numeric(table, table.at("n"), "the target"); },
      ThrowsMessage<InvalidArgument>(
          AllOf(HasSubstr("a.csv:4: expected the target \"n\" to be numeric"), HasSubstr("12k"))));
  CsvOptions options;
  options.types["n"] = ColumnType::kText;
  EXPECT_THAT(warnings_of(read("n\n1\n2\nx\n", options)), testing::IsEmpty()) << "as was wished";
  EXPECT_THAT(warnings_of(read("n\n1\n2\nx\n")), testing::SizeIs(1));
  EXPECT_THAT(warnings_of(read("a;b\n1;2,5\n2;many\n3;3,5\n")),
              ElementsAre(HasSubstr("numbers like \"3,5\", 1 are not, \"many\" first")));
  EXPECT_THAT(warnings_of(read("a;b\n1;2,500\n2;3,500\n")), ElementsAre(HasSubstr("--decimal")));
  EXPECT_THAT(warnings_of(read("a;b\n1;x, y\n2;,\n")), testing::IsEmpty());
}

TEST_F(Csv, PackedFilesAreReadAsTheyAre) {
  // gzip of "a,y\n1,2\n" and of "3,4\n5,6\n", one behind the other.
  const std::string packed(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\xd4\xa9\xe4\x32\xd4"
      "\x31\xe2\x02\x00\x23\xf5\x86\x63\x08\x00\x00\x00\x1f\x8b\x08\x00"
      "\x00\x00\x00\x00\x02\x03\x33\xd6\x31\xe1\x32\xd5\x31\xe3\x02\x00"
      "\x79\x4a\x4d\x2c\x08\x00\x00\x00",
      56);
  const auto path = folder_ / "a.csv.gz";
  write_file_atomically(path, {packed});
  const Table table = read_csv(path);
  EXPECT_THAT(table.at("a").numbers.to_vector(), ElementsAre(1, 3, 5));
  EXPECT_THAT(table.at("y").numbers.to_vector(), ElementsAre(2, 4, 6));
  EXPECT_EQ(table.checksum, parse_csv("a,y\n1,2\n3,4\n5,6\n", "a.csv").checksum);
  CsvOptions options;
  options.types = {{"a", ColumnType::kNumeric}, {"y", ColumnType::kNumeric}};
  int64_t rows = 0;
  read_csv_in_parts(path, options, [&](const Table& part) { rows += part.rows(); });
  EXPECT_EQ(rows, 3);
  for (const size_t length : {packed.size() - 9, packed.size() / 2 - 3, size_t{12}}) {
    write_file_atomically(path, {packed.substr(0, length)});
    EXPECT_THAT([&] { read_csv(path); }, ThrowsMessage<InvalidArgument>(
                                             AllOf(HasSubstr("a.csv.gz"), HasSubstr("cut short"))));
  }
}

TEST_F(Csv, ListsOfNamesMayHaveCommas) {
  EXPECT_THAT(csv_list("a, b", "--drop"), ElementsAre("a", "b"));
  EXPECT_THAT(csv_list("\"a, b\",c", "--drop"), ElementsAre("a, b", "c"));
  EXPECT_THAT(csv_list("", "--drop"), testing::IsEmpty());
  EXPECT_THAT(csv_list(",a,,", "--drop"), ElementsAre("a"));
  for (const std::string bad : {"\"a", "a\"b", "\"a\"b", "a\nb"}) {
    EXPECT_THAT([&] { csv_list(bad, "--drop"); },
                ThrowsMessage<InvalidArgument>(HasSubstr("--drop: expected names")));
  }
  for (const std::string name : {"a", "a, b", "say \"hi\"", "\ta", " ", "two\nlines", "'"}) {
    EXPECT_THAT(csv_list(csv_field(name) + ",z", ""), ElementsAre(name, "z"));
  }
  const Table table = read("\"a, b\",c\n1,2\n");
  EXPECT_THAT([&] { table.at("a"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("stands in double quotes")));
}

TEST(CsvField, GuardsFormulasForSpreadsheets) {
  for (const std::string formula :
       {"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t1", "\r1"}) {
    const std::string guarded = csv_field(formula, true);
    EXPECT_EQ(guarded[guarded[0] == '"' ? 1 : 0], '\'') << formula;
    EXPECT_THAT(csv_list(guarded, ""), ElementsAre("'" + formula));
    EXPECT_THAT(csv_list(csv_field(formula), ""), ElementsAre(formula)) << "unless told";
  }
  // Where a semicolon, a tab, a bar or a line's end begins another cell.
  for (const char separator : {';', '|', '\t', '\r', '\n'}) {
    const std::string front = std::string("x") + separator;
    EXPECT_THAT(csv_list(csv_field(front + "=1+1;y", true), ""), ElementsAre(front + "'=1+1;y"));
  }
  EXPECT_THAT(csv_list(csv_field("\t=1", true), ""), ElementsAre("'\t'=1"));
  for (const std::string harmless : {"a=1", "-1", "+2.5", "-3e4", "7", "", "x@y", "a;b=1;-2"}) {
    EXPECT_EQ(csv_field(harmless, true), csv_field(harmless));
  }
}

TEST_F(Csv, ColumnsCanBeLeftOut) {
  CsvOptions options;
  options.drop = {"b"};
  EXPECT_EQ(read("a,b,c\n1,inf,2\n", options).columns.size(), 2u);
  options.drop = {"d"};
  expect_refused("a,b\n1,2\n", {"\"d\"", "\"a\", \"b\""}, options);
  options.drop = {};
  options.keep = {"c", "absent"};
  options.types["absent"] = ColumnType::kNumeric;
  const Table table = read("a,b,c\n1,inf,2\n", options);
  ASSERT_EQ(table.columns.size(), 1u);
  EXPECT_THAT(table.columns[0].numbers, ElementsAre(2));
  expect_refused("a,b,c\n1,2\n", {"a.csv:2", "3 fields"}, options);
}

TEST_F(Csv, RefusesWhatIsMalformed) {
  expect_refused("a,b\n1,2\n3\n", {"a.csv:3", "expected 2 fields", "got 1"});
  expect_refused("a,b\n1,2\n\n3,4,5\n", {"a.csv:4", "expected 2 fields", "got 3"});
  expect_refused("a,b\n\"x\ny\",2\n3\n", {"a.csv:4", "got 1"});
  expect_refused("a,b\n1,2\n3,\"x\n4,5\n6,7\n", {"a.csv:3", "closing quote"});
  expect_refused("a,b\n1,2\n3,x\"y\n", {"a.csv:3", "quote"});
  expect_refused("a,b\n1,\"x\"y\n", {"a.csv:2", "quote"});
  expect_refused("", {"a.csv", "empty"});
  expect_refused("\xef\xbb\xbf", {"a.csv", "empty"});
  expect_refused("\n\n", {"a.csv", "empty"});
  expect_refused("a,b\n", {"a.csv", "only the header"});
  expect_refused("a,b", {"a.csv", "only the header"});
  expect_refused("a,b,a\n1,2,3\n", {"a.csv:1", "columns 1 and 3", "\"a\""});
  expect_refused(std::string("a,b\n1,\0\n", 8), {"a.csv:2", "NUL"});
  expect_refused(std::string("\xff\xfe"
                             "a\0,\0",
                             6),
                 {"a.csv:1", "UTF-16"});
  expect_refused("a\n1\ninf\n", {"a.csv:3", "finite", "inf"});
  expect_refused("a\n1\n-1e999\n", {"a.csv:3", "finite", "-1e999"});
  expect_refused(
      "a\nStra\xdf"
      "e\n",
      {"a.csv:2", "UTF-8", "iconv"});
  expect_refused("\xdf\n1\n", {"a.csv:1", "UTF-8"});
  CsvOptions no_header;
  no_header.header = false;
  expect_refused("", {"a.csv", "empty"}, no_header);
  EXPECT_EQ(read("1,2\n", no_header).rows(), 1);
}

TEST_F(Csv, RefusesWhatCannotBeRead) {
  const auto expect = [](const std::string& file, const std::string& part) {
    EXPECT_THAT([&] { read_csv(file); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(file), HasSubstr(part))));
  };
  expect(folder_ / "absent.csv", "No such file");
  expect(folder_.path(), "directory");
  expect("-", "/dev/stdin");
}

TEST_F(Csv, AnEmptyNameGetsANumber) {
  const Table table = read(",a,\n1,2,3\n");
  EXPECT_EQ(table.columns[0].name, "column1");
  EXPECT_EQ(table.columns[2].name, "column3");
}

// Larger than the reader's chunks, so that fields and lines straddle them.
TEST_F(Csv, LargeFilesAndLongFields) {
  const std::string longest(300'000, 'z');
  std::string text = "n,t\n";
  const int64_t rows = 60'000;
  for (int64_t row = 0; row < rows; ++row)
    text += std::to_string(row) + ",\"k\n" + std::to_string(row % 7) + "\"\r\n";
  text += "5," + longest + "\n";
  const Table table = read(text);
  ASSERT_EQ(table.rows(), rows + 1);
  for (int64_t row = 0; row < rows; ++row) {
    const auto i = static_cast<size_t>(row);
    ASSERT_EQ(table.columns[0].numbers[i], row);
    ASSERT_EQ(table.columns[1].codes[i], row % 7);
    ASSERT_EQ(table.lines[i], 2 + 2 * row);
  }
  EXPECT_EQ(table.columns[1].categories.back(), longest);
}

// A pipe can be read once, and ends where its writer does.
TEST_F(Csv, AFifoIsReadInOnePass) {
  std::string text = "n,t\n";
  for (int row = 0; row < 40'000; ++row) text += std::to_string(row) + ",some text\n";
  const std::string longest(3'000'000, 'x');  // of which a pipe gives some 60 kB at a time
  text += "1,\"" + longest + "\"\n2,a\n3," + longest;
  const auto path = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path, std::ios::binary) << text; });
  const Table table = read_csv(path);
  writer.join();
  EXPECT_EQ(table.rows(), 40'003);
  EXPECT_EQ(table.checksum, checksum(text));
  EXPECT_THAT(table.columns[1].categories, ElementsAre("a", "some text", longest));
  EXPECT_EQ(table.columns[0].numbers[40'002], 3);
}

// However long: whoever writes may wait for what is made of it.
TEST_F(Csv, ARowOfAPipeIsTakenWhenItIsThere) {
  const auto path = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::promise<void> seen;
  std::thread writer([&] {
    std::ofstream pipe(path, std::ios::binary);
    pipe << "n,t\n1," << std::string(400'000, 'x') << "\n" << std::flush;
    EXPECT_EQ(seen.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  });
  int64_t rows = 0;
  read_csv_in_parts(path, {}, [&](const Table& part) {
    rows += part.rows();
    seen.set_value();
  });
  writer.join();
  EXPECT_EQ(rows, 1);
}

TEST_F(Csv, BytesInMemoryAreAsGoodAsAFile) {
  const std::string text = "\xef\xbb\xbfn,\"t\"\r\n1,\"a \"\"b\"\"\"\r\n\r\n2,\"c\nd\"";
  const Table table = parse_csv(text, "here");
  const Table file = read(text);
  EXPECT_EQ(table.source, "here");
  EXPECT_EQ(table.lines, file.lines);
  EXPECT_THAT(table.columns[0].numbers, ElementsAre(1, 2));
  EXPECT_THAT(cells(table.columns[1]), ElementsAre("a \"b\"", "c\nd"));
  EXPECT_EQ(table.checksum, file.checksum);
  // FNV-1a of every byte, as run folders have had it from the beginning.
  EXPECT_EQ(table.checksum, checksum(text));
  EXPECT_EQ(checksum(""), "cbf29ce484222325");
  EXPECT_EQ(checksum("foobar"), "85944171f73967e8");
  EXPECT_THAT([] { parse_csv("a,b\n1\n", "here"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("here:2: expected 2 fields")));
}

// An open quote swallows the rest of a file, whatever its size; commas without end are a header.
TEST_F(Csv, ARowHasALargestSize) {
  const std::string open = "a,b\n1,2\n3,\"" + std::string(kLongestCsvRow, 'x');
  expect_refused(open, {"a.csv:3", "64 MiB", "quote"});
  EXPECT_THROW(parse_csv(open, "here"), InvalidArgument);
  expect_refused(std::string(1'000'001, ','), {"a.csv:1", "1000000 fields"});
}

// Wherever a read ends, the table is the same.
TEST_F(Csv, RowsMayStraddleReads) {
  for (const size_t size : {262'139u, 262'140u, 262'141u, 262'142u, 262'143u, 262'144u}) {
    SCOPED_TRACE(size);
    std::string text = "a,b\r\n";
    text += "\"" + std::string(size - text.size() - 2, 'x') + "\"";
    const size_t end = text.size();
    text += ",\"1\"\"\"\r\ny,\"2\"\r\n";
    ASSERT_EQ(end, size);
    const Table table = read(text);
    EXPECT_EQ(table.checksum, checksum(text));
    EXPECT_THAT(table.lines, ElementsAre(2, 3));
    EXPECT_THAT(cells(table.columns[1]), ElementsAre("1\"", "2"));
  }
}

// No file may do worse than be refused.
TEST_F(Csv, PartsTogetherAreTheWholeAndComeAsTheirRowsDo) {
  const test::TempFolder folder;
  const auto path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  CsvOptions options;
  options.types = {{"a", ColumnType::kNumeric}, {"b", ColumnType::kText}};
  std::promise<void> seen;
  std::thread writer([&] {
    std::ofstream pipe(path);
    pipe << "a,b\n1,x\n" << std::flush;
    // Nothing more before the first row has come out at the other end.
    ASSERT_EQ(seen.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    pipe << "2,\"y\nz\"\n3,x\n";
  });
  std::vector<double> numbers;
  std::vector<std::string> texts;
  std::vector<int64_t> lines;
  read_csv_in_parts(path, options, [&](const Table& part) {
    if (numbers.empty()) {
      EXPECT_EQ(part.rows(), 1);
      seen.set_value();
    }
    for (int64_t row = 0; row < part.rows(); ++row) {
      const auto i = static_cast<size_t>(row);
      numbers.push_back(part.at("a").numbers[i]);
      texts.push_back(part.at("b").categories[static_cast<size_t>(part.at("b").codes[i])]);
      lines.push_back(part.lines[i]);
    }
  });
  writer.join();
  EXPECT_EQ(numbers, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(texts, (std::vector<std::string>{"x", "y\nz", "x"}));
  EXPECT_EQ(lines, (std::vector<int64_t>{2, 3, 5}));
}

TEST_F(Csv, PartsOfAFileWithoutRowsAreRefusedToo) {
  const test::TempFolder folder;
  write_file_atomically(folder / "head.csv", {"a,b\n"});
  const auto none = [](const Table&) { FAIL(); };
  EXPECT_THROW(read_csv_in_parts(folder / "head.csv", {}, none), InvalidArgument);
  EXPECT_THROW(read_csv_in_parts(folder / "no.csv", {}, none), InvalidArgument);
}

TEST_F(Csv, SurvivesRandomBytes) {
  const std::string alphabet("ab1\",;\r\n \t.-e\0\xc3\xa4?", 17);
  int read_count = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 generator(seed);
    std::string text;
    // Half of them without the bytes that nearly always end it.
    for (uint64_t k = generator() % 60; k > 0; --k)
      text += seed % 2 == 0 ? alphabet[generator() % alphabet.size()] : "a1\n?"[generator() % 4];
    try {
      const Table table = read(text);
      ++read_count;
      for (const Column& column : table.columns) {
        EXPECT_EQ(column.rows(), table.rows());
        for (const double value : column.numbers) EXPECT_FALSE(std::isinf(value));
      }
    } catch (const InvalidArgument&) {
    }
  }
  EXPECT_GT(read_count, 5);
}

TEST(InQuotes, CutsAndEscapes) {
  EXPECT_EQ(in_quotes("a\nb"), "\"a\\x0ab\"");
  EXPECT_EQ(in_quotes("\x1b[2J\xc2\x9b\xff"), "\"\\x1b[2J\\x9b\\xff\"");
  EXPECT_EQ(in_quotes(std::string(50, 'x')), "\"" + std::string(40, 'x') + "...\"");
  // 39 letters, then a character of two bytes: it does not fit whole.
  EXPECT_EQ(in_quotes(std::string(39, 'x') + "ä-"), "\"" + std::string(39, 'x') + "...\"");
  EXPECT_EQ(list_names({"a", "b"}), "\"a\", \"b\"");
  EXPECT_THAT(list_names(std::vector<std::string>(10, "c")), HasSubstr("and 2 more"));
}

TEST_F(Csv, ManyCellsOfManyTextsKeepTheirTexts) {
  // More different texts than are looked up quickly, and some that differ in one byte only.
  constexpr int kRows = 12000;
  std::string csv = "a,b\n";
  const auto name = [](int row) {
    return "street " + std::to_string(row * 7919 % 3000) + ", north";
  };
  const auto kind = [](int row) {
    std::string text(static_cast<size_t>(1 + row % 23), 'k');
    text[static_cast<size_t>(row) % text.size()] = static_cast<char>('a' + row % 5);
    return text;
  };
  for (int row = 0; row < kRows; ++row) {
    csv += "\"" + name(row) + "\"," + (row % 11 == 0 ? "" : kind(row)) + "\n";
  }
  const Table table = parse_csv(csv, "test.csv");
  ASSERT_EQ(table.rows(), kRows);
  const auto text = [](const Column& column, int row) {
    const int32_t code = column.codes[static_cast<size_t>(row)];
    return code < 0 ? std::string() : column.categories[static_cast<size_t>(code)];
  };
  for (int row = 0; row < kRows; ++row) {
    ASSERT_EQ(text(table.columns[0], row), name(row)) << "row " << row;
    ASSERT_EQ(text(table.columns[1], row), row % 11 == 0 ? "" : kind(row)) << "row " << row;
  }
  EXPECT_EQ(table.columns[0].categories.size(), 3000U);
}

TEST_F(Csv, ReadingSaysHowFarItIs) {
  const test::TempFolder folder;
  std::string csv = "a\n";
  for (int row = 0; row < 200'000; ++row) csv += "123456\n";
  write_file_atomically(folder / "a.csv", {csv});
  std::vector<int64_t> seen;
  CsvOptions options;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, static_cast<int64_t>(csv.size()));
    EXPECT_TRUE(seen.empty() || done >= seen.back());
    seen.push_back(done);
  };
  EXPECT_EQ(read_csv(folder / "a.csv", options).rows(), 200'000);
  EXPECT_GT(seen.size(), 3U);
  EXPECT_EQ(seen.back(), static_cast<int64_t>(csv.size()));
}

}  // namespace
}  // namespace cdt::data
