// Targets that are classes: which there are, how they are encoded, what is refused.
#include <cdt/core/error.h>
#include <cdt/data/preprocess.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include <fstream>

#include "support/temp_folder.h"

namespace cdt::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Table class_table(const std::string& text, const CsvOptions& options = {}) {
  const test::TempFolder folder;
  std::ofstream(folder / "a.csv") << text;
  Table table = read_csv(folder / "a.csv", options);
  table.source = "a.csv";
  return table;
}

PreprocessOptions by_class(const std::vector<std::string>& targets = {"y"}) {
  PreprocessOptions options;
  options.targets = targets;
  options.classes = true;
  return options;
}

std::string refusal(const std::string& text, const PreprocessOptions& options,
                    const std::vector<int64_t>& rows = {}) {
  const Table table = class_table(text);
  try {
    rows.empty() ? fit_preprocess(table, options) : fit_preprocess(table, rows, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "was not refused";
}

TEST(ClassTarget, TextIsSortedAndOneHot) {
  const Table table = class_table("x,y\n1,b\n2,a\n3,c\n4,a\n5,b\n6,c\n");
  const auto p = fit_preprocess(table, by_class());
  EXPECT_TRUE(p.has_classes());
  EXPECT_THAT(p.classes(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(p.output_count(), 3);
  EXPECT_EQ(p.feature_count(), 1);
  const auto y = p.transform_targets(table, {0, 3});
  EXPECT_TRUE(torch::equal(y, torch::tensor({{0.0, 1.0, 0.0}, {1.0, 0.0, 0.0}}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(p.to_original(y), y));
}

TEST(ClassTarget, WholeNumbersAreSortedAsNumbers) {
  const Table table = class_table("x,y\n1,10\n2,-2\n3,9.0\n4,10\n5,9\n6,-2\n");
  const auto p = fit_preprocess(table, by_class());
  EXPECT_THAT(p.classes(), ElementsAre("-2", "9", "10"));
  EXPECT_EQ(p.transform_targets(table, {2}).argmax(1)[0].item<int64_t>(), 1);
  EXPECT_THAT(refusal("x,y\n1,1\n2,2\n3,1\n4,2.5\n5,1\n6,1\n", by_class()),
              testing::AllOf(HasSubstr("a.csv:5"), HasSubstr("2.5")));
}

TEST(ClassTarget, OfRowsNotFittedOnIsKnown) {
  const Table table = class_table("x,y\n1,a\n2,b\n3,a\n4,b\n5,c\n6,a\n");
  EXPECT_THAT(fit_preprocess(table, {0, 1, 2}, by_class()).classes(), ElementsAre("a", "b", "c"));
}

TEST(ClassTarget, SurvivesTheFile) {
  for (const std::string csv : {"x,y\n1,b\n2,a\n3,b\n4,a\n", "x,y\n1,3\n2,1\n3,3\n4,1\n"}) {
    const auto p = fit_preprocess(class_table(csv), by_class());
    const auto back = parse_preprocess(to_json(p));
    EXPECT_EQ(to_json(back), to_json(p));
    const Table again = class_table(csv, back.csv_options());
    EXPECT_TRUE(torch::equal(back.transform_targets(again), p.transform_targets(class_table(csv))));
  }
  const auto p = fit_preprocess(class_table("x,y\n1,b\n2,a\n3,b\n4,a\n"), by_class());
  const std::string json = to_json(p);
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = json;
    text.replace(text.find(from), from.size(), to);
    try {
      parse_preprocess(text);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("was not refused");
  };
  EXPECT_THAT(broken("\"b\"", "\"a\""), HasSubstr("each once"));
}

TEST(ClassTarget, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("x,y\n1,a\n2,\n3,b\n4,a\n5,b\n", by_class()), HasSubstr("missing in line 3"));
  EXPECT_EQ(refusal("x,y\n1,a\n2,\n3,b\n4,a\n5,b\n", by_class(), {0, 2, 3}), "was not refused");
  EXPECT_THAT(refusal("x,y\n1,a\n2,a\n3,a\n4,b\n", by_class(), {0, 1, 2}),
              HasSubstr("\"y\" is \"a\" in all 3"));
  EXPECT_THAT(refusal("x,y\n1,a\n2,b\n3,c\n4,d\n", by_class()), HasSubstr("4 classes in 4 rows"));
  EXPECT_THAT(refusal("x,y,z\n1,a,a\n2,b,b\n3,a,a\n4,b,b\n", by_class({"y", "z"})),
              HasSubstr("a single target"));
  PreprocessOptions numeric = by_class();
  numeric.classes = false;
  EXPECT_THAT(refusal("x,y\n1,a\n2,b\n3,a\n4,b\n", numeric),
              HasSubstr("with the loss cross-entropy"));
  const Table table = class_table("x,y\n1,a\n2,b\n3,a\n4,b\n");
  const auto p = fit_preprocess(table, by_class());
  try {
    p.transform_targets(class_table("x,y\n1,a\n2,z\n"));
    ADD_FAILURE() << "was not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("a.csv:3"), HasSubstr("\"z\"")));
  }
}

}  // namespace
}  // namespace cdt::data
