// Encoding and scaling: values by hand, inverses, new data, and what is refused.
#include <cdt/core/error.h>
#include <cdt/data/houses.h>
#include <cdt/data/preprocess.h>
#include <cdt/data/split.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "support/temp_folder.h"
#include "support/tolerance.h"

namespace cdt::data {
namespace {

using test::relative_error;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using torch::Tensor;

using test::kDouble;

Table table_of(const std::string& text, const CsvOptions& options = {}) {
  const test::TempFolder folder;
  std::ofstream(folder / "a.csv") << text;
  Table table = read_csv(folder / "a.csv", options);
  table.source = "a.csv";
  return table;
}

/// Throws InvalidArgument whose message has these parts.
template <typename Work>
void expect_refused(const Work& work, const std::vector<std::string>& parts) {
  try {
    work();
    ADD_FAILURE() << "was not refused: " << parts.front();
  } catch (const InvalidArgument& error) {
    for (const std::string& part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

PreprocessOptions plain(const std::string& target = "y") {
  PreprocessOptions options;
  options.targets = {target};
  options.scaling = Scaling::kNone;
  options.target_scaling = Scaling::kNone;
  return options;
}

Tensor matrix(const std::vector<std::vector<double>>& rows) {
  std::vector<Tensor> stacked;
  stacked.reserve(rows.size());
  for (const auto& row : rows) stacked.push_back(torch::tensor(row, kDouble));
  return torch::stack(stacked);
}

/// A number whose sums round: thousandths.
std::string fmt_decimal(int64_t thousandths) {
  return std::to_string(thousandths % 10) + "." + std::to_string(thousandths) + "1";
}

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_TRUE(torch::equal(a, b)) << a << "\n" << b;
}

const std::string kMixed =
    "n,t,y,id\n"
    "4,b,10,p\n"
    ",a,20,q\n"
    "1,NA,40,r\n"
    "2,c,30,s\n"
    "9,b,10,t\n";

// The settings of the paper's tables in small: missing numbers 0, text as the index of the sorted
// category with missing before them, each column to range 1 and mean 0.
TEST(Preprocess, PaperSettingsByHand) {
  PreprocessOptions options;
  options.targets = {"y"};
  options.drop = {"id"};
  const Table table = table_of(kMixed);
  const Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("n", "t"));
  // n: 4 0 1 2 9, mean 3.2, range 9. t: 1 0 −1 2 1, mean 0.6, range 3. y: mean 22, range 30.
  const Tensor x = matrix({{4 - 3.2, 1 - 0.6},
                           {0 - 3.2, 0 - 0.6},
                           {1 - 3.2, -1 - 0.6},
                           {2 - 3.2, 2 - 0.6},
                           {9 - 3.2, 1 - 0.6}}) /
                   torch::tensor({9.0, 3.0}, kDouble);
  const Tensor y = matrix({{-12}, {-2}, {18}, {8}, {-12}}) / 30;
  EXPECT_LE(relative_error(preprocess.transform(table), x), test::tol::kScalar);
  EXPECT_LE(relative_error(preprocess.transform_targets(table), y), test::tol::kScalar);
  EXPECT_LE(relative_error(preprocess.to_original(y), matrix({{10}, {20}, {40}, {30}, {10}})),
            test::tol::kScalar);
  // A subset, in the order asked for.
  expect_equal(preprocess.transform(table, {3, 0}),
               preprocess.transform(table).index_select(0, torch::tensor({3, 0})));
  expect_equal(preprocess.transform_targets(table, {3, 0}),
               preprocess.transform_targets(table).index_select(0, torch::tensor({3, 0})));
}

TEST(Preprocess, MedianOneHotAndNoScaling) {
  PreprocessOptions options = plain();
  options.drop = {"id"};
  options.missing_number = MissingNumber::kMedian;
  options.encoding = Encoding::kOneHot;
  const Table table = table_of(kMixed);
  const Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("n", "t=a", "t=b", "t=c", "t="));
  EXPECT_EQ(preprocess.feature_count(), 5);
  expect_equal(preprocess.transform(table), matrix({{4, 0, 1, 0, 0},
                                                    {3, 1, 0, 0, 0},  // between 2 and 4
                                                    {1, 0, 0, 0, 1},
                                                    {2, 0, 0, 1, 0},
                                                    {9, 0, 1, 0, 0}}));
  expect_equal(preprocess.transform_targets(table), matrix({{10}, {20}, {40}, {30}, {10}}));
}

TEST(Preprocess, MedianOfAnOddNumberAndOfNone) {
  PreprocessOptions options = plain();
  options.missing_number = MissingNumber::kMedian;
  const Table table = table_of("a,b,y\n5,,1\n,,2\n1,,3\n7,,4\n");
  const Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_EQ(preprocess.features[0].fill, 5);
  EXPECT_EQ(preprocess.features[1].fill, 0);
  // Fitted on some rows only.
  EXPECT_EQ(fit_preprocess(table, {1, 2}, options).features[0].fill, 1);
}

TEST(Preprocess, StandardScaling) {
  PreprocessOptions options;
  options.targets = {"y"};
  options.scaling = Scaling::kStandard;
  options.target_scaling = Scaling::kStandard;
  const Table table = table_of("a,y\n2,1\n4,2\n4,3\n4,4\n5,5\n5,6\n7,7\n9,8\n");
  const Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_DOUBLE_EQ(preprocess.features[0].scales[0].offset, 5);  // the textbook's eight numbers
  EXPECT_DOUBLE_EQ(preprocess.features[0].scales[0].scale, 2);
  EXPECT_DOUBLE_EQ(preprocess.targets[0].scale.offset, 4.5);
  EXPECT_DOUBLE_EQ(preprocess.targets[0].scale.scale, std::sqrt(5.25));
}

TEST(Preprocess, FitsOnTheRowsGivenButKnowsAllCategories) {
  PreprocessOptions options;
  options.targets = {"y"};
  options.drop = {"id"};
  const Table table = table_of(kMixed);
  const Preprocess preprocess = fit_preprocess(table, {0, 3}, options);
  EXPECT_EQ(preprocess.features[0].scales[0].offset, 3);
  EXPECT_EQ(preprocess.features[0].scales[0].scale, 2);
  EXPECT_EQ(preprocess.targets[0].scale.offset, 20);
  EXPECT_EQ(preprocess.targets[0].scale.scale, 20);
  EXPECT_EQ(preprocess.transform(table)[4][0].item<double>(), 3);  // (9 − 3)/2, beyond the range
  EXPECT_THAT(preprocess.features[1].categories, ElementsAre("a", "b", "c"));
}

TEST(Preprocess, FitsTheSameWhateverTheOrderOfTheRows) {
  std::string text = "x,y\n";
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < 200; ++row) {
    text += fmt_decimal(row * 7919 % 1000) + "," + fmt_decimal(row * 104729 % 997) + "\n";
    rows.push_back(row);
  }
  const Table table = table_of(text);
  PreprocessOptions options;
  options.targets = {"y"};
  const std::string expected = to_json(fit_preprocess(table, rows, options));
  for (uint64_t seed : {1, 2, 3})
    EXPECT_EQ(to_json(fit_preprocess(table, sample_rows(200, 200, seed), options)), expected)
        << seed;
}

TEST(Preprocess, RefusesOneHotOfIdentifiers) {
  std::string text = "id,y\n";
  for (int row = 0; row < 10001; ++row)
    text += "k" + std::to_string(row) + "," + std::to_string(row) + "\n";
  const Table table = table_of(text);
  PreprocessOptions options;
  options.targets = {"y"};
  EXPECT_NO_THROW(fit_preprocess(table, options));
  options.encoding = Encoding::kOneHot;
  expect_refused([&] { fit_preprocess(table, options); }, {"a.csv", "\"id\"", "10001"});
}

TEST(Preprocess, ScaledColumnsHaveMeanZeroAndRangeOne) {
  for (uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Table table = table_of(make_houses(300, seed));
    for (const Encoding encoding : {Encoding::kIndex, Encoding::kOneHot}) {
      PreprocessOptions options;
      options.targets = {"price"};
      options.encoding = encoding;
      const Preprocess preprocess = fit_preprocess(table, options);
      const Tensor x = preprocess.transform(table);
      EXPECT_EQ(x.size(1), encoding == Encoding::kIndex ? 8 : 5 + 5 + 4 + 4);
      EXPECT_LE(x.mean(0).abs().max().item<double>(), 1e-13);
      EXPECT_LE((x.amax(0) - x.amin(0) - 1).abs().max().item<double>(), 1e-13);
      // In the units of the file again; and a float32 prediction loses only its own rounding.
      const Tensor y = preprocess.transform_targets(table);
      const Tensor price =
          torch::tensor(table.at("price").numbers.to_vector(), kDouble).unsqueeze(1);
      EXPECT_LE(relative_error(preprocess.to_original(y), price), test::tol::kScalar);
      EXPECT_EQ(preprocess.to_original(y.to(torch::kFloat32)).scalar_type(), torch::kFloat64);
      EXPECT_LE(relative_error(preprocess.to_original(y.to(torch::kFloat32)), price), 1e-7);

      const auto rows = split_rows(300, 200, 140, seed).train;
      options.scaling = Scaling::kStandard;
      const Tensor z = fit_preprocess(table, rows, options).transform(table, rows);
      EXPECT_LE(z.mean(0).abs().max().item<double>(), 1e-12);
      EXPECT_LE((z.var(0, /*unbiased=*/false) - 1).abs().max().item<double>(), 1e-12);
    }
  }
}

TEST(Preprocess, SeveralTargets) {
  PreprocessOptions options;
  options.targets = {"b", "a"};
  const Table table = table_of("a,x,b\n1,5,100\n2,6,300\n3,7,200\n");
  const Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("x"));
  expect_equal(preprocess.transform_targets(table), matrix({{-0.5, -0.5}, {0.5, 0}, {0, 0.5}}));
  expect_equal(preprocess.to_original(preprocess.transform_targets(table)),
               matrix({{100, 1}, {300, 2}, {200, 3}}));
  EXPECT_THROW(preprocess.to_original(torch::zeros({3, 1})), InvalidArgument);
  EXPECT_THROW(preprocess.to_original(torch::zeros({3})), InvalidArgument);
}

TEST(Preprocess, ConstantFeaturesBecomeZero) {
  PreprocessOptions options;
  options.targets = {"y"};
  for (const Scaling scaling : {Scaling::kMinMax, Scaling::kStandard}) {
    options.scaling = scaling;
    // 0.1 three times has a rounded sum; t has one category, m nothing at all.
    const Table table = table_of("c,t,m,y\n0.1,u,,1\n0.1,u,,2\n0.1,u,,3\n");
    const Preprocess preprocess = parse_preprocess(to_json(fit_preprocess(table, options)));
    expect_equal(preprocess.transform(table), torch::zeros({3, 3}, kDouble));
    // In new data too, however far they are from what was seen.
    const Table other = table_of("c,t,m\n500,u,7\n");
    expect_equal(preprocess.transform(other), torch::zeros({1, 3}, kDouble));
  }
}

TEST(Preprocess, MoreColumnsThanRows) {
  std::string text = "y";
  for (int c = 0; c < 50; ++c) text += ",c" + std::to_string(c);
  for (const int row : {1, 2}) {
    text += "\n" + std::to_string(row);
    for (int c = 0; c < 50; ++c) text += "," + std::to_string(row * c);
  }
  PreprocessOptions options;
  options.targets = {"y"};
  const Table table = table_of(text);
  EXPECT_EQ(fit_preprocess(table, options).transform(table).sizes(), (std::vector<int64_t>{2, 50}));
}

TEST(Preprocess, RepeatsOnNewDataFromItsJson) {
  for (const Encoding encoding : {Encoding::kIndex, Encoding::kOneHot}) {
    PreprocessOptions options;
    options.targets = {"price"};
    options.encoding = encoding;
    options.missing_number = MissingNumber::kMedian;
    const Table table = table_of(make_houses(200, 5));
    const Preprocess fitted = fit_preprocess(table, options);
    const std::string json = to_json(fitted);
    const Preprocess loaded = parse_preprocess(json);
    EXPECT_EQ(to_json(loaded), json);
    expect_equal(loaded.transform(table), fitted.transform(table));
    expect_equal(loaded.transform_targets(table), fitted.transform_targets(table));
    EXPECT_EQ(loaded.feature_names(), fitted.feature_names());

    // The same rows in a file with its columns in another order, one more, and no target.
    const test::TempFolder folder;
    std::ofstream file(folder / "new.csv");
    file << "garage,extra,heating,lot,area,rooms,year,quality,district\n";
    const auto text = [&](const char* name, size_t row) {
      const Column& column = table.at(name);
      return column.codes[row] < 0
                 ? ""
                 : "\"" + column.categories[static_cast<size_t>(column.codes[row])] + "\"";
    };
    for (size_t row = 0; row < 200; ++row) {
      file << text("garage", row) << ",inf," << text("heating", row) << ",";
      if (!table.at("lot").is_missing(static_cast<int64_t>(row)))
        file << table.at("lot").numbers[row];
      for (const char* name : {"area", "rooms", "year", "quality"})
        file << "," << table.at(name).numbers[row];
      file << "," << text("district", row) << "\n";
    }
    file.close();
    const Table fresh = read_csv(folder / "new.csv", loaded.csv_options());
    expect_equal(loaded.transform(fresh), fitted.transform(table));
    expect_refused([&] { loaded.transform_targets(fresh); }, {"new.csv", "\"price\""});
  }
}

TEST(Preprocess, NewTextThatLooksNumericStaysText) {
  const Table table = table_of("code,y\n01,1\n1,2\nx,3\n");
  const Preprocess preprocess = fit_preprocess(table, plain());
  const Table fresh = table_of("code\n1\n01\n", preprocess.csv_options());
  expect_equal(preprocess.transform(fresh), matrix({{1}, {0}}));
  expect_refused([&] { preprocess.transform(table_of("code\n1\n01\n")); },
                 {"\"code\"", "text", "numeric"});
}

TEST(Preprocess, CsvSettingsTravelWithIt) {
  CsvOptions csv;
  csv.delimiter = ';';
  csv.header = false;
  csv.missing_marks = {"-1"};
  const Table table = table_of("1;2\n-1;4\n", csv);
  const Preprocess preprocess = fit_preprocess(table, plain("column2"), csv);
  const CsvOptions loaded = parse_preprocess(to_json(preprocess)).csv_options();
  EXPECT_EQ(loaded.delimiter, ';');
  EXPECT_FALSE(loaded.header);
  EXPECT_THAT(loaded.missing_marks, ElementsAre("-1"));
}

TEST(Preprocess, UnknownCategories) {
  PreprocessOptions options = plain();
  options.drop = {"id"};
  const Table table = table_of(kMixed);
  Preprocess preprocess = fit_preprocess(table, options);
  const auto fresh = [&] { return table_of("n,t\n1,a\n2,zz\n", preprocess.csv_options()); };
  expect_refused([&] { preprocess.transform(fresh()); }, {"a.csv:3", "\"t\"", "\"zz\"", "\"a\""});
  // Rows without it are fine.
  expect_equal(preprocess.transform(fresh(), {0}), matrix({{1, 0}}));
  options.unknown_category = UnknownCategory::kMissing;
  preprocess = fit_preprocess(table, options);
  expect_equal(preprocess.transform(fresh()), matrix({{1, 0}, {2, -1}}));
  options.encoding = Encoding::kOneHot;
  preprocess = parse_preprocess(to_json(fit_preprocess(table, options)));
  expect_equal(preprocess.transform(fresh()), matrix({{1, 1, 0, 0, 0}, {2, 0, 0, 0, 1}}));
  // Where nothing was missing there is no feature for it.
  const Table complete = table_of("t,y\na,1\nb,2\n");
  options.drop = {};
  preprocess = fit_preprocess(complete, options);
  expect_equal(preprocess.transform(table_of("t\nzz\nNA\nb\n")), matrix({{0, 0}, {0, 0}, {0, 1}}));
}

TEST(Preprocess, RefusesNewDataThatDoesNotFit) {
  PreprocessOptions options = plain();
  options.drop = {"id"};
  const Table table = table_of(kMixed);
  const Preprocess preprocess = fit_preprocess(table, options);
  expect_refused([&] { preprocess.transform(table_of("n,s\n1,a\n", preprocess.csv_options())); },
                 {"a.csv", "\"t\"", "\"n\""});
  expect_refused([&] { table_of("n,t\n1,a\nmany,a\n", preprocess.csv_options()); },
                 {"a.csv:3", "\"n\"", "\"many\""});
  expect_refused([&] { preprocess.transform(table, {5}); }, {"0 to 4", "5"});
  expect_refused([&] { preprocess.transform_targets(table, {-1}); }, {"0 to 4", "-1"});
}

TEST(Preprocess, RefusesTargetsThatCannotBeLearned) {
  PreprocessOptions options;
  options.targets = {"y"};
  expect_refused([&] { fit_preprocess(table_of("x,y\n1,5\n2,5\n"), options); },
                 {"a.csv", "\"y\"", "vary", "5"});
  options.target_scaling = Scaling::kNone;
  EXPECT_NO_THROW(fit_preprocess(table_of("x,y\n1,5\n2,5\n"), options));
  options.target_scaling = Scaling::kMinMax;
  const Table gaps = table_of("x,y\n1,5\n2,\n3,6\n4,NA\n");
  expect_refused([&] { fit_preprocess(gaps, options); }, {"a.csv", "\"y\"", "lines 3, 5"});
  // Only where they are asked for.
  const Preprocess preprocess = fit_preprocess(gaps, {0, 2}, options);
  EXPECT_NO_THROW(preprocess.transform(gaps));
  expect_refused([&] { preprocess.transform_targets(gaps); }, {"lines 3, 5"});
  expect_refused([&] { preprocess.transform_targets(gaps, {1}); }, {"line 3"});
  expect_refused([&] { fit_preprocess(table_of("x,y\n1,low\n2,high\n"), options); },
                 {"a.csv:2", "\"y\"", "numeric", "low"});
}

TEST(Preprocess, RefusesOptionsThatDoNotFit) {
  const Table table = table_of("x,y\n1,5\n2,6\n");
  PreprocessOptions options;
  expect_refused([&] { fit_preprocess(table, options); }, {"target"});
  options.targets = {"z"};
  expect_refused([&] { fit_preprocess(table, options); }, {"\"z\"", "\"x\", \"y\""});
  options.targets = {"y", "y"};
  expect_refused([&] { fit_preprocess(table, options); }, {"\"y\" twice"});
  options.targets = {"y"};
  options.drop = {"y"};
  expect_refused([&] { fit_preprocess(table, options); }, {"\"y\"", "both"});
  options.drop = {"w"};
  expect_refused([&] { fit_preprocess(table, options); }, {"\"w\""});
  options.drop = {"x"};
  expect_refused([&] { fit_preprocess(table, options); }, {"got none"});
  options.drop = {};
  expect_refused([&] { fit_preprocess(table, {}, options); }, {"rows to fit on"});
  expect_refused([&] { fit_preprocess(table, {2}, options); }, {"0 to 1"});
  expect_refused([&] { fit_preprocess(table_of("x,y\n1e308,1\n-1e308,2\n"), options); },
                 {"\"x\"", "float64"});
}

TEST(Preprocess, RefusesRecordsThatAreNone) {
  const std::string good = to_json(fit_preprocess(table_of(kMixed), plain()));
  using nlohmann::json;
  const auto refuse = [&](const std::function<void(json&)>& change, const std::string& part) {
    json record = json::parse(good);
    change(record);
    expect_refused([&] { parse_preprocess(record.dump(), "p.json"); }, {"p.json", part});
  };
  expect_refused([] { parse_preprocess("{", "p.json"); }, {"p.json"});
  refuse([](json& r) { r["format"] = "other"; }, "cdt-preprocess-1");
  refuse([](json& r) { r.erase("columns"); }, "columns");
  refuse([](json& r) { r["encoding"] = "octal"; }, "onehot");
  refuse([](json& r) { r["csv"]["delimiter"] = "--"; }, "delimiter");
  refuse([](json& r) { r["targets"][0]["scale"] = 0; }, "positive");
  refuse([](json& r) { r["targets"][0]["scale"] = nullptr; }, "p.json");
  refuse([](json& r) { r["columns"][0]["features"] = json::array(); }, "1 features");
  refuse([](json& r) { r["columns"][1]["categories"] = {"b", "a"}; }, "sorted");
  refuse([](json& r) { r["columns"][0]["type"] = "date"; }, "numeric, text");
  refuse([](json& r) { r["columns"][0]["name"] = 3; }, "columns[0].name: expected text, got 3");
  refuse([](json& r) { r["csv"] = "x"; }, "csv: expected an object");
  refuse([](json& r) { r["targets"] = nullptr; }, "targets: expected a list");
  expect_refused([] { parse_preprocess(std::string(100'000, '['), "p.json"); }, {"nests deeper"});
}

TEST(Preprocess, NamesOfOptions) {
  for (const Scaling value : {Scaling::kMinMax, Scaling::kStandard, Scaling::kNone})
    EXPECT_EQ(parse_scaling(to_string(value)), value);
  for (const auto value : {MissingNumber::kZero, MissingNumber::kMedian})
    EXPECT_EQ(parse_missing_number(to_string(value)), value);
  for (const auto value : {Encoding::kIndex, Encoding::kOneHot})
    EXPECT_EQ(parse_encoding(to_string(value)), value);
  for (const auto value : {UnknownCategory::kError, UnknownCategory::kMissing})
    EXPECT_EQ(parse_unknown_category(to_string(value)), value);
  expect_refused([] { parse_scaling("robust"); }, {"minmax, standard, none", "robust"});
}

}  // namespace
}  // namespace cdt::data
