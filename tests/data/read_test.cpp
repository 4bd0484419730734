// The table of formats: who reads which file, whole and in parts, and a row of one's own.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/read.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace cdt::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Read : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  test::TempFolder folder_;
};

/// Numbers of eight bits, a row each, behind a mark.
Format octets() {
  const auto read = [](const Source& source) {
    Table table;
    table.source = source.file;
    const std::string bytes = read_file(source.file).substr(2);
    std::vector<double> values(bytes.begin(), bytes.end());
    for (size_t i = 0; i < values.size(); ++i) table.lines.push_back(static_cast<int64_t>(i) + 1);
    Column& column = table.columns.emplace_back();
    column.name = "octet";
    column.numbers = values;
    return table;
  };
  return {.name = "octets",
          .summary = "octets (.oct)",
          .matches = [](const std::string& file) { return file.ends_with(".oct"); },
          .read = read};
}

TEST_F(Read, EachFileHasItsFormat) {
  EXPECT_EQ(format_of(put("a.csv", "x,y\n1,2\n")).name, "CSV");
  EXPECT_EQ(format_of(put("a.txt", "\x93NUMPY")).name, "NumPy") << "by its first bytes";
  EXPECT_EQ(format_of("not-there.npz:x").name, "NumPy") << "by its name";
  EXPECT_EQ(format_of("-").name, "CSV");
  EXPECT_EQ(in_words(formats()), "a CSV file, or NumPy arrays (.npy, .npz)");
}

TEST_F(Read, LabelsBelongToArrays) {
  const std::string file = put("a.csv", "x,y\n1,2\n");
  EXPECT_EQ(read_table({.file = file}).columns.size(), 2u);
  EXPECT_THAT([&] { read_table({.file = file, .labels = "y.npy"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("expected arrays")));
}

TEST_F(Read, ARowOfOnesOwnComesFirst) {
  Formats table = formats();
  table.push_back(octets());
  EXPECT_EQ(in_words(table), "a CSV file, NumPy arrays (.npy, .npz), or octets (.oct)");
  const std::string file = put("a.oct", "x\n" + std::string("\1\2\3"));
  EXPECT_EQ(format_of(file).name, "CSV");
  EXPECT_EQ(format_of(file, table).name, "octets");
  EXPECT_EQ(read_table({.file = file}, table).columns[0].numbers.size(), 3u);
}

TEST_F(Read, PartsAreTheWhole) {
  Formats table = formats();
  table.push_back(octets());
  std::string bytes;
  for (int k = 0; k < 20000; ++k) bytes += static_cast<char>(k % 100);
  const auto parts_of = [&](const Source& source) {
    std::vector<int64_t> rows, announced;
    std::vector<double> numbers;
    read_in_parts(
        source,
        [&](const Table& part, int64_t all) {
          rows.push_back(part.rows());
          announced.push_back(all);
          const auto& column = part.columns[0].numbers;
          for (int64_t i = 0; i < part.rows(); ++i)
            numbers.push_back(column[static_cast<size_t>(i)]);
        },
        table);
    EXPECT_EQ(numbers.size(), 20000u);
    for (size_t k = 0; k < numbers.size(); ++k) EXPECT_EQ(numbers[k], static_cast<double>(k % 100));
    EXPECT_EQ(announced, std::vector<int64_t>(rows.size(), announced[0]));
    return std::pair(rows, announced[0]);
  };
  const auto [rows, all] = parts_of({.file = put("a.oct", "x\n" + bytes)});
  EXPECT_THAT(rows, ElementsAre(8192, 8192, 3616));
  EXPECT_EQ(all, 20000);
  std::string lines = "octet\n";
  for (const char each : bytes) lines += std::to_string(static_cast<int>(each)) + "\n";
  Source source{.file = put("a.csv", lines)};
  source.csv.types["octet"] = ColumnType::kNumeric;
  EXPECT_EQ(parts_of(source).second, 0) << "not known before the end";
}

}  // namespace
}  // namespace cdt::data
