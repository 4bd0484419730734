// What a description finds, on tables small enough to read.
#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/houses.h>
#include <cdt/data/rows/describe.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace cdt::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

Table described_table(const std::string& text) {
  const test::TempFolder folder;
  std::ofstream(folder / "a.csv") << text;
  return read_csv(folder / "a.csv");
}

const std::string kText =
    "x,again,one,void,kind,copy,y,z\n"
    "1,1,5,,a,a,10,1\n"
    "2,2,5,,b,b,20,1\n"
    ",,5,,,,30,1\n"
    "1,1,5,,a,a,13,1\n"  // as the first, but for y
    "2,2,5,,b,b,20,1\n"  // as the second
    ",,5,,,,NA,1\n"      // as the third, y unknown
    "1,1,5,,a,a,10,2\n"  // as the first, but for z
    "0,0,5,,a,a,1,1\n"
    "-0,-0,5,,a,a,1,1\n";  // equal numbers

TEST(Describe, ColumnsRowsAndConflicts) {
  const Description d = describe(described_table(kText), {"y", "z"});
  EXPECT_EQ(d.rows, 9);
  ASSERT_EQ(d.columns.size(), 8u);
  EXPECT_EQ(d.columns[0].missing, 2);
  EXPECT_EQ(d.columns[0].distinct, 3);
  EXPECT_EQ(d.columns[0].min, 0);
  EXPECT_EQ(d.columns[0].max, 2);
  EXPECT_DOUBLE_EQ(d.columns[0].mean, 1.0);
  EXPECT_FALSE(d.columns[0].constant);
  EXPECT_TRUE(d.columns[2].constant);
  EXPECT_TRUE(d.columns[3].constant);
  EXPECT_EQ(d.columns[3].missing, 9);
  EXPECT_EQ(d.columns[3].distinct, 0);
  EXPECT_TRUE(std::isnan(d.columns[3].mean));
  EXPECT_EQ(d.columns[4].type, ColumnType::kText);
  EXPECT_EQ(d.columns[4].distinct, 2);
  EXPECT_THAT(d.columns[4].frequent, ElementsAre(Pair("a", 5), Pair("b", 2)));
  EXPECT_THAT(d.duplicate_columns,
              ElementsAre(ElementsAre("x", "again"), ElementsAre("kind", "copy")));
  EXPECT_EQ(d.duplicate_rows, 5);  // two of the first, one each of the second, third and zero
  ASSERT_EQ(d.conflicts.size(), 1u);
  EXPECT_THAT(d.conflicts[0].rows, ElementsAre(0, 3, 6));
  EXPECT_THAT(d.conflicts[0].lines, ElementsAre(2, 5, 8));
  EXPECT_THAT(d.conflicts[0].gaps, ElementsAre(3, 1));
}

TEST(Describe, WithoutTargetsNothingConflicts) {
  const Description d = describe(described_table(kText));
  EXPECT_EQ(d.duplicate_rows, 2);  // the second again, and zero
  EXPECT_TRUE(d.conflicts.empty());
}

TEST(Describe, MissingIsNotZeroNorText) {
  const Description d = describe(described_table("a,b,y\n0,x,1\n,x,2\n0,,3\n"), {"y"});
  EXPECT_EQ(d.duplicate_rows, 0);
  EXPECT_TRUE(d.conflicts.empty());
  // A constant with gaps carries information.
  EXPECT_FALSE(d.columns[0].constant);
  EXPECT_FALSE(d.columns[1].constant);
}

TEST(Describe, EqualCodesOfDifferentCategoriesAreNotEqualColumns) {
  EXPECT_TRUE(describe(described_table("a,b\nu,x\nv,y\n")).duplicate_columns.empty());
}

TEST(Describe, TextAndJson) {
  const Description d = describe(described_table(kText), {"y", "z"});
  const std::string text = to_text(d);
  EXPECT_THAT(
      text, AllOf(HasSubstr("9 rows × 8 columns"), HasSubstr("\"x\", \"again\""),
                  HasSubstr("lines 2, 5, 8"), HasSubstr("y up to 3 apart"), HasSubstr("[constant]"),
                  HasSubstr("5 rows repeat"), HasSubstr("all missing")));
  EXPECT_THAT(
      to_text(describe(described_table("id,y\na,1\nb,2\n"), {"y"})),
      AllOf(HasSubstr("identifier"), HasSubstr("No row repeats"), Not(HasSubstr("Conflict"))));
  const auto json = nlohmann::json::parse(to_json(d));
  EXPECT_EQ(json["rows"], 9);
  EXPECT_EQ(json["columns"][0]["name"], "x");
  EXPECT_EQ(json["columns"][0]["type"], "numeric");
  EXPECT_EQ(json["columns"][0]["missing"], 2);
  EXPECT_EQ(json["columns"][0]["max"], 2.0);
  EXPECT_TRUE(json["columns"][3]["mean"].is_null());
  EXPECT_EQ(json["columns"][4]["frequent"][0]["value"], "a");
  EXPECT_EQ(json["columns"][4]["frequent"][0]["count"], 5);
  EXPECT_EQ(json["duplicate_columns"][1][0], "kind");
  EXPECT_EQ(json["duplicate_rows"], 5);
  EXPECT_EQ(json["targets"], (std::vector<std::string>{"y", "z"}));
  EXPECT_EQ(json["conflicts"][0]["rows"], (std::vector<int>{0, 3, 6}));
  EXPECT_EQ(json["conflicts"][0]["lines"], (std::vector<int>{2, 5, 8}));
  EXPECT_EQ(json["conflicts"][0]["gaps"]["y"], 3.0);
}

TEST(Describe, ClassesAreCountedAndTheirConflictsFound) {
  // Lines 2 and 4 are equal but for the class, lines 3 and 5 are equal throughout.
  const Table table = described_table(
      "a,kind,grade,half\n1,plum,3,0.5\n2,apple,1,0.5\n1,apple,3,0.5\n2,apple,1,0.5\n9,,1,1.5\n");
  Description d = describe(table, {"kind"});
  ASSERT_EQ(d.classes.size(), 1U);
  EXPECT_EQ(d.classes[0].target, "kind");
  EXPECT_THAT(d.classes[0].counts, ElementsAre(Pair("apple", 3), Pair("plum", 1)));
  ASSERT_EQ(d.conflicts.size(), 1U);
  EXPECT_THAT(d.conflicts[0].lines, ElementsAre(2, 4));
  EXPECT_THAT(d.conflicts[0].gaps, ElementsAre(1));
  EXPECT_THAT(to_text(d), AllOf(HasSubstr("kind as classes: 2: \"apple\" (3), \"plum\" (1)"),
                                HasSubstr("Conflict: lines 2, 4 are the same but for kind\n")));
  auto json = nlohmann::json::parse(to_json(d));
  EXPECT_EQ(json["classes"]["kind"][1]["value"], "plum");
  EXPECT_EQ(json["classes"]["kind"][1]["count"], 1);
  // Whole numbers may be classes, and are numbers too; others are numbers alone.
  d = describe(table, {"grade", "half"});
  ASSERT_EQ(d.classes.size(), 1U);
  EXPECT_THAT(d.classes[0].counts, ElementsAre(Pair("1", 3), Pair("3", 2)));
  EXPECT_TRUE(describe(described_table("a,y\n1,5\n2,6\n3,7\n"), {"y"}).classes.empty());
  json = nlohmann::json::parse(to_json(describe(table)));
  EXPECT_TRUE(json["classes"].empty());
  EXPECT_FALSE(json["columns"][0].contains("remark"));
  EXPECT_THROW(describe(table, {"absent"}), InvalidArgument);
}

TEST(Describe, SaysWhichColumnsAreDatesOrIdentifiers) {
  std::string csv = "when,id,row,y\n";
  for (int i = 0; i < 25; ++i) {
    csv += "2024-01-" + std::to_string(10 + i % 20) + ",k" + std::to_string(i) + "," +
           std::to_string(i + 1) + "," + std::to_string(i % 4) + "\n";
  }
  const Description d = describe(described_table(csv), {"y"});
  EXPECT_EQ(d.columns[0].remark, "dates");
  EXPECT_EQ(d.columns[1].remark, "an identifier? 25 different texts in 25 rows");
  EXPECT_EQ(d.columns[2].remark, "an identifier? it counts the rows, 1 to 25");
  EXPECT_EQ(d.columns[3].remark, "");
  EXPECT_THAT(to_text(d), AllOf(HasSubstr("[dates]"), HasSubstr("[an identifier? it counts")));
  EXPECT_EQ(nlohmann::json::parse(to_json(d))["columns"][0]["remark"], "dates");
}

}  // namespace
}  // namespace cdt::data
