// Encoding for prediction: pieces, indicators, rare categories, dates, logarithms, weights; by hand
// and from the other side of a file.
#include <cdt/core/error.h>
#include <cdt/data/encode/identifiers.h>
#include <cdt/data/encode/statistics.h>
#include <cdt/data/houses.h>
#include <cdt/data/preprocess.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "support/compare.h"
#include "support/tolerance.h"

namespace cdt::data {
namespace {

using test::relative_error;
using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using torch::Tensor;

Table parsed(const std::string& text, const CsvOptions& options = {}) {
  return parse_csv(text, "a.csv", options);
}

/// No scaling, so that encodings can be read off.
PreprocessOptions raw() {
  PreprocessOptions options;
  options.targets = {"y"};
  options.scaling = Scaling::kNone;
  options.target_scaling = Scaling::kNone;
  options.encoding = Encoding::kOneHot;
  options.missing_number = MissingNumber::kMedian;
  options.unknown_category = UnknownCategory::kMissing;
  return options;
}

/// All that the goal predict switches on.
PreprocessOptions all_of_it() {
  PreprocessOptions options = raw();
  options.scaling = options.target_scaling = Scaling::kStandard;
  options.target_transform = TargetTransform::kAuto;
  options.quantiles = 5;
  options.clip = 4;
  options.missing_indicator = true;
  options.max_levels = 4;
  options.rare_rows = 2;
  options.dates = true;
  options.select = true;
  options.constant_target = true;
  return options;
}

Tensor rows_of(const std::vector<std::vector<double>>& rows) {
  std::vector<Tensor> stacked;
  for (const auto& row : rows) stacked.push_back(torch::tensor(row, test::kDouble));
  return torch::stack(stacked);
}

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes()) << a << b;
  EXPECT_LE((a - b).abs().max().item<double>(), 1e-14) << a << b;
}

/// A table with everything in it: 30 rows, dates, rare categories, missing cells, a skewed target.
std::string rich(int rows = 30) {
  std::string csv = "id,when,n,t,same,y\n";
  for (int i = 0; i < rows; ++i) {
    csv += fmt::format("k{},20{:02}-{:02}-{:02},{},{},7,{}\n", i, 10 + i % 3, 1 + i * 5 % 12,
                       1 + i * 7 % 28, i % 6 == 4 ? "" : std::to_string(i * 11 % 30),
                       i % 7 == 0   ? ""
                       : i % 7 == 1 ? fmt::format("rare{}", i)
                                    : fmt::format("c{}", i % 3),
                       std::exp(0.2 * (i * 13 % rows)));
  }
  return csv;
}

TEST(Statistics, QuantilesByHand) {
  const std::vector<double> ones(8, 1.0);
  // 1 … 8 in quarters: 2 of 8 lie below each quarter exactly, so the middle of two values.
  EXPECT_THAT(quantiles({5, 3, 1, 7, 2, 8, 6, 4}, ones, 5), ElementsAre(1, 2.5, 4.5, 6.5, 8));
  // In thirds 2⅔ values lie below: the third one.
  EXPECT_THAT(quantiles({5, 3, 1, 7, 2, 8, 6, 4}, ones, 4), ElementsAre(1, 3, 6, 8));
  EXPECT_THAT(quantiles({0, 0, 0, 0, 0, 0, 0, 9}, ones, 5), ElementsAre(0, 9));
  EXPECT_THAT(quantiles({NAN, NAN}, {1, 1}, 5), IsEmpty());
  EXPECT_EQ(median({4, 1, NAN, 2}, {1, 1, 1, 1}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}, {1, 1, 1, 1}), 2.5);
  EXPECT_EQ(median({NAN}, {1}), 0);
}

TEST(Statistics, WholeWeightsAreValuesThatComeAgain) {
  std::mt19937_64 generator(1);
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<double> values, weights, repeated;
    for (int i = 0; i < 12; ++i) {
      values.push_back(static_cast<double>(generator() % 100) / 7);
      weights.push_back(static_cast<double>(1 + generator() % 4));
      repeated.insert(repeated.end(), static_cast<size_t>(weights.back()), values.back());
    }
    const std::vector<double> ones(repeated.size(), 1.0);
    EXPECT_EQ(quantiles(values, weights, 7), quantiles(repeated, ones, 7));
    EXPECT_EQ(median(values, weights), median(repeated, ones));
    const Moments a = moments(values, weights), b = moments(repeated, ones);
    EXPECT_NEAR(a.mean, b.mean, 1e-13);
    EXPECT_NEAR(a.deviation, b.deviation, 1e-13);
    EXPECT_NEAR(skewness(values, weights), skewness(repeated, ones), 1e-12);
  }
  // 1, 1, 4: mean 2, variance 2, third moment (−1 − 1 + 8)/3 = 2.
  EXPECT_NEAR(skewness({1, 4}, {2, 1}), 2 / std::pow(2, 1.5), 1e-14);
  EXPECT_EQ(skewness({3, 3}, {1, 1}), 0);
}

TEST(Encoding, PiecesByHand) {
  PreprocessOptions options = raw();
  options.quantiles = 3;
  const Table table = parsed("x,b,y\n0,0,1\n10,1,2\n10,1,3\n40,0,4\n30,1,5\n");
  Preprocess preprocess = fit_preprocess(table, options);
  // Knots: smallest, median, largest. b has two values alone, and no pieces.
  EXPECT_THAT(preprocess.features[0].knots, ElementsAre(0, 10, 40));
  EXPECT_THAT(preprocess.features[1].knots, IsEmpty());
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("x", "x[0, 10]", "x[10, 40]", "b"));
  const double w = 1 / std::sqrt(2);
  expect_close(
      preprocess.transform(table),
      rows_of(
          {{0, 0, 0, 0}, {10, w, 0, 1}, {10, w, 0, 1}, {40, w, w, 0}, {30, w, w * 20 / 30, 1}}));
  // Beyond the knots a piece stays as it is; missing is the median.
  expect_close(preprocess.transform(parsed("x,b\n-5,0\n400,0\n4,1\n,1\n")),
               rows_of({{-5, 0, 0, 0}, {400, w, w, 0}, {4, w * 0.4, 0, 1}, {10, w, 0, 1}}));
  options.quantile_weight = 0.25;
  preprocess = fit_preprocess(table, options);
  EXPECT_NEAR(preprocess.transform(table)[4][2].item<double>(), 0.25 * 20 / 30, 1e-15);
  // Scaled like other features, then weighted: the first piece is 0 1 1 1 1.
  options.scaling = Scaling::kStandard;
  preprocess = fit_preprocess(table, options);
  EXPECT_NEAR(preprocess.transform(table)[0][1].item<double>(), 0.25 * (0 - 0.8) / 0.4, 1e-14);
}

TEST(Encoding, WhatAColumnGivesTogetherIsScaledAsOne) {
  PreprocessOptions options = raw();
  options.encoding = Encoding::kOneHot;
  options.scaling = Scaling::kStandard;
  options.grouped = true;
  options.missing_indicator = true;
  const Table table = parsed("k,x,y\na,0,1\na,,2\na,6,3\nb,0,4\nc,6,5\n");
  const Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("k=a", "k=b", "k=c", "x", "x="));
  // Shares 3/5, 1/5, 1/5: variances 0.24, 0.16, 0.16, together 0.56.
  const double s = std::sqrt(0.56);
  const auto row = preprocess.transform(table)[3];
  EXPECT_NEAR(row[0].item<double>(), -0.6 / s, 1e-14);
  EXPECT_NEAR(row[1].item<double>(), 0.8 / s, 1e-14);
  EXPECT_NEAR(row[2].item<double>(), -0.2 / s, 1e-14);
  // An indicator counts half: 1 of 5 is missing, deviation 0.4.
  EXPECT_NEAR(preprocess.transform(table)[1][4].item<double>(), 0.5 * 0.8 / 0.4, 1e-14);
  const auto features = preprocess.transform(table);
  EXPECT_NEAR(features.narrow(1, 0, 3).square().sum().item<double>() / 5, 1, 1e-14);
}

TEST(Encoding, MissingNumbersHaveAFeatureWhereSomeWereMissing) {
  PreprocessOptions options = raw();
  options.missing_indicator = true;
  const Table table = parsed("a,b,y\n1,1,1\n,2,2\n3,3,3\n8,4,4\n");
  Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("a", "a=", "b"));
  expect_close(preprocess.transform(table), rows_of({{1, 0, 1}, {3, 1, 2}, {3, 0, 3}, {8, 0, 4}}));
  EXPECT_THAT(preprocess.notes,
              ElementsAre("a: 1 of 4 values are missing; filled with 3, and marked by a feature"));
  expect_close(preprocess.transform(parsed("a,b\n,\n")), rows_of({{3, 1, 2.5}}));
  // Rows that are not fitted on say nothing.
  EXPECT_THAT(fit_preprocess(table, {0, 2, 3}, options).feature_names(), ElementsAre("a", "b"));
}

TEST(Encoding, RareCategoriesGoTogether) {
  PreprocessOptions options = raw();
  options.max_levels = 2;
  options.rare_rows = 2;
  // a 3, b 2, c 2, d 1, e 1 and one missing: c is third, d and e are rare.
  const Table table = parsed("t,y\na,1\na,2\na,3\nb,4\nb,5\nc,6\nc,7\nd,8\ne,9\nNA,1\n");
  Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.features[0].categories, ElementsAre("a", "b"));
  EXPECT_THAT(preprocess.features[0].others, ElementsAre("c", "d", "e"));
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("t=a", "t=b", "t=(others)", "t="));
  const Table fresh = parsed("t\nb\nd\nzz\nNA\n", preprocess.csv_options());
  expect_close(preprocess.transform(fresh),
               rows_of({{0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}));
  EXPECT_THAT(preprocess.notes, ElementsAre(HasSubstr("t: 2 of 5 categories have features")));
  const auto unknown = preprocess.unknown_texts(fresh);
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown[0].column, "t");
  EXPECT_EQ(unknown[0].rows, 1);
  EXPECT_EQ(unknown[0].first, "zz");
  EXPECT_EQ(unknown[0].line, 4);
  EXPECT_EQ(unknown[0].taken_for, "rare");
  EXPECT_TRUE(preprocess.unknown_texts(table).empty());
  // Counted in the rows fitted on: what those lack is new. One rare row is not worth a feature.
  preprocess = fit_preprocess(table, {0, 1, 3, 4, 7}, options);
  EXPECT_THAT(preprocess.feature_names(), ElementsAre("t=a", "t=b"));
  EXPECT_THAT(preprocess.features[0].others, ElementsAre("d"));
  EXPECT_EQ(preprocess.unknown_texts(table).at(0).rows, 3);
  EXPECT_EQ(preprocess.unknown_texts(table).at(0).taken_for, "missing");
  expect_close(preprocess.transform(table, {3, 7, 8}), rows_of({{0, 1}, {0, 0}, {0, 0}}));
  // Where unknown ones are refused, the whole table is known.
  options.unknown_category = UnknownCategory::kError;
  preprocess = fit_preprocess(table, {0, 1, 3, 4, 7}, options);
  EXPECT_NO_THROW(preprocess.transform(table));
  EXPECT_THAT(
      [&] { preprocess.transform(fresh); },
      ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("a.csv:4"), HasSubstr("\"zz\""),
                                           HasSubstr("--unknown missing"), HasSubstr("--drop t"))));
}

TEST(Encoding, ClipIsTheIdentityInTheMiddleAndBounded) {
  EXPECT_EQ(smooth_clip(1.9, 4), 1.9);
  EXPECT_EQ(smooth_clip(-2, 4), -2);
  EXPECT_NEAR(smooth_clip(3, 4), 2 + 2 * std::tanh(0.5), 1e-15);
  EXPECT_EQ(smooth_clip(-3, 4), -smooth_clip(3, 4));
  EXPECT_EQ(smooth_clip(std::numeric_limits<double>::infinity(), 4), 4);
  double last = -4;
  for (double x = -30; x <= 30; x += 0.01) {
    EXPECT_GE(smooth_clip(x, 4), last);
    last = smooth_clip(x, 4);
    // Smooth: the slope has no jump.
    const auto slope = [](double at) {
      return (smooth_clip(at + 1e-5, 4) - smooth_clip(at - 1e-5, 4)) / 2e-5;
    };
    EXPECT_NEAR(slope(x + 1e-4), slope(x), 1e-3);
  }
}

TEST(Encoding, EveryFiniteNumberIsAFiniteFeature) {
  PreprocessOptions options = all_of_it();
  const Table table = parsed("a,b,y\n1,1e-300,1\n2,2e-300,2\n5,,3\n3,9e-300,9\n4,1e-300,4\n");
  std::string fresh = "a,b\n";
  for (const char* number :
       {"1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "0", "-1e300", "1e-310", ""})
    fresh += fmt::format("{},{}\n", number, number);
  for (const Scaling scaling : {Scaling::kStandard, Scaling::kMinMax}) {
    options.scaling = scaling;
    const Preprocess preprocess = fit_preprocess(table, options);
    const Tensor x = preprocess.transform(parsed(fresh, preprocess.csv_options()));
    EXPECT_LE(x.abs().max().item<double>(), 4);
  }
  // A piece that is wider than the largest number.
  options = raw();
  options.quantiles = 3;
  const Table wide = parsed("a,y\n-1.5e308,1\n0,2\n1.5e308,3\n1.6e308,4\n-1.6e308,5\n");
  const Preprocess preprocess = fit_preprocess(wide, {0, 2, 3}, options);
  EXPECT_NEAR(preprocess.transform(wide)[1][1].item<double>(), 0.5 / std::sqrt(2), 1e-15);
}

TEST(Encoding, DatesByHand) {
  const auto monday = parse_date("2024-02-26");
  ASSERT_TRUE(monday);
  EXPECT_EQ(monday->weekday, 1);
  EXPECT_EQ(monday->day, 19779);  // date -d 2024-02-26 +%s / 86400
  EXPECT_EQ(parse_date("1970-01-01")->day, 0);
  EXPECT_EQ(parse_date("1969-12-31")->day, -1);
  EXPECT_EQ(parse_date("2000/02/29")->month, 2);
  EXPECT_EQ(parse_date("2024-03-03")->weekday, 7);
  EXPECT_NEAR(parse_date("2024-02-26 18:45:30")->hour, 18 + 45.0 / 60 + 30.0 / 3600, 1e-12);
  for (const char* text :
       {"2024-02-26T18:45", "2024-02-26 18:45:30.123", "2024-02-26T18:45:30Z",
        "2024-02-26 18:45:30+00:00", "2024-02-26T18:45:30-0330", "2024-02-26 18:45:30 UTC",
        "2024-02-26 18:45:30+01", "2024/02/26 00:00:00"})
    EXPECT_TRUE(parse_date(text)) << text;
  for (const char* text : {"",
                           "2024",
                           "2024-02",
                           "2023-02-29",
                           "2024-13-01",
                           "2024-00-10",
                           "2024-01-00",
                           "24-01-01",
                           "2024-1-1",
                           "2024-01/01",
                           "01-01-2024",
                           "2024-01-01x",
                           "2024-01-01 ",
                           "2024-01-01T",
                           "2024-01-01 24:00",
                           "2024-01-01 12:60",
                           "2024-01-01 12",
                           "2024-01-01 12:00:00.",
                           "2024-01-01 12:00 CET",
                           "2024-01-01 12:00+",
                           "２024-01-01",
                           "20240101"})
    EXPECT_FALSE(parse_date(text)) << text;
}

TEST(Encoding, DatesBecomeTheirParts) {
  PreprocessOptions options = raw();
  options.dates = true;
  options.select = true;
  options.missing_indicator = true;
  // A Monday, a Sunday of the next year, nothing, a Monday in March.
  const Table table = parsed("d,y\n2024-02-26,1\n2025-03-02,2\nNA,3\n2024-03-04,4\n2024-03-04,5\n");
  const Preprocess preprocess = parse_preprocess(to_json(fit_preprocess(table, options)));
  const auto names = preprocess.feature_names();
  ASSERT_EQ(names.size(), 1U + 12 + 7 + 2);
  EXPECT_EQ(names[0], "d.year");
  EXPECT_EQ(names[2], "d.month=02");
  EXPECT_EQ(names[13], "d.weekday=1");
  EXPECT_EQ(names[20], "d.day");
  EXPECT_EQ(names[21], "d.day=");
  const Tensor x = preprocess.transform(table);
  const auto at = [&](int64_t row, int64_t feature) { return x[row][feature].item<double>(); };
  EXPECT_EQ(at(0, 0), 2024);
  EXPECT_EQ(at(1, 0), 2025);
  EXPECT_EQ(at(2, 0), 2024);  // the median
  EXPECT_EQ(x[0].slice(0, 1, 13).argmax().item<int64_t>(), 1);
  EXPECT_EQ(x[1].slice(0, 13, 20).argmax().item<int64_t>(), 6);
  EXPECT_EQ(x[2].slice(0, 1, 20).abs().sum().item<double>(), 0);
  EXPECT_EQ(at(0, 20), 19779);
  EXPECT_EQ(at(1, 20) - at(0, 20), 370);
  EXPECT_EQ(at(2, 21), 1);
  EXPECT_THAT(preprocess.notes,
              ElementsAre("d: dates, taken as year, month, weekday, day (--text d makes them "
                          "categories)"));
  // New data: what is no date is missing, and counted once.
  const Table fresh = parsed("d\n2026-01-01\nsoon\n", preprocess.csv_options());
  EXPECT_EQ(preprocess.transform(fresh)[1][21].item<double>(), 1);
  ASSERT_EQ(preprocess.unknown_texts(fresh).size(), 1U);
  EXPECT_EQ(preprocess.unknown_texts(fresh)[0].first, "soon");
  // Or refused.
  options.unknown_category = UnknownCategory::kError;
  const Preprocess strict = fit_preprocess(table, options);
  EXPECT_THAT([&] { strict.transform(fresh); },
              ThrowsMessage<InvalidArgument>(
                  AllOf(HasSubstr("a.csv:3: expected a date in column \"d\""), HasSubstr("soon"))));
  // Overruled: text is text.
  CsvOptions csv;
  csv.types["d"] = ColumnType::kText;
  EXPECT_EQ(fit_preprocess(table, options, csv).feature_names().front(), "d=2024-02-26");
}

TEST(Encoding, IdentifiersAreRecognised) {
  std::string csv = "text,number,down,name,gap,half,date,y\n";
  for (int i = 0; i < 40; ++i) {
    csv += fmt::format("k{},{},{},n{},{},{},2024-01-{:02},{}\n", i, 100 + i, -i, i / 4 * 4 + i % 2,
                       i + (i > 20 ? 1 : 0), i + 0.5, 1 + i % 28, i * 7 % 11);
  }
  const Table table = parsed(csv);
  EXPECT_EQ(identifier_reason(table, table.at("text")), "40 different texts in 40 rows");
  EXPECT_EQ(identifier_reason(table, table.at("number")), "it counts the rows, 100 to 139");
  EXPECT_TRUE(identifier_reason(table, table.at("down")));
  for (const char* name : {"name", "gap", "half", "date", "y"})
    EXPECT_FALSE(identifier_reason(table, table.at(name))) << name;
  // Few rows say nothing.
  const Table small = parsed("a,b,y\np,1,1\nq,2,2\nr,3,3\n");
  EXPECT_FALSE(identifier_reason(small, small.at("a")));
  EXPECT_FALSE(identifier_reason(small, small.at("b")));

  PreprocessOptions options = all_of_it();
  Preprocess preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.csv_options().keep, ElementsAre("name", "gap", "half", "date", "y"));
  EXPECT_THAT(preprocess.notes,
              testing::Contains("text: left out, an identifier: 40 different texts in 40 rows "
                                "(--keep text takes it)"));
  options.keep = {"number"};
  preprocess = fit_preprocess(table, options);
  EXPECT_THAT(preprocess.csv_options().keep, testing::Contains("number"));
  options.keep = {"y"};
  EXPECT_THROW(fit_preprocess(table, options), InvalidArgument);
  options.keep = {"nobody"};
  EXPECT_THROW(fit_preprocess(table, options), InvalidArgument);
}

TEST(Encoding, ColumnsThatSayNothingAreLeftOut) {
  PreprocessOptions options = all_of_it();
  const Table table = parsed("c,m,t,x,y\n1,,a,1,1\n1,,a,2,2\n1,,a,3,3\n2,,b,5,4\n");
  const Preprocess preprocess = fit_preprocess(table, {0, 1, 2}, options);
  EXPECT_THAT(preprocess.csv_options().keep, ElementsAre("x", "y"));
  EXPECT_THAT(preprocess.notes, ElementsAre(HasSubstr("c: left out, the same in all 3 rows"),
                                            HasSubstr("m: left out, missing in all 3 rows"),
                                            HasSubstr("t: left out, the same in all 3 rows")));
  options.keep = {"c"};
  EXPECT_THAT(fit_preprocess(table, {0, 1, 2}, options).csv_options().keep,
              ElementsAre("c", "x", "y"));
  EXPECT_THAT([&] { fit_preprocess(parsed("c,y\n1,1\n1,2\n"), all_of_it()); },
              ThrowsMessage<InvalidArgument>(HasSubstr("c: left out, the same in all 2 rows")));
}

TEST(Encoding, LogarithmsOfSkewedTargets) {
  std::vector<double> even, skewed, ones(20, 1.0);
  for (int i = 0; i < 20; ++i) {
    even.push_back(i + 1);
    skewed.push_back(std::exp(i / 3.0));
  }
  EXPECT_FALSE(wants_log(even, ones));
  EXPECT_TRUE(wants_log(skewed, ones));
  std::vector<double> touching = skewed;
  touching[3] = 0;
  EXPECT_FALSE(wants_log(touching, ones));

  PreprocessOptions options = raw();
  options.target_scaling = Scaling::kStandard;
  options.target_transform = TargetTransform::kAuto;
  std::string csv = "x,y\n";
  for (size_t i = 0; i < 20; ++i) csv += fmt::format("{},{}\n", i * 7 % 20, skewed[i]);
  const Table table = parsed(csv);
  const Preprocess preprocess = parse_preprocess(to_json(fit_preprocess(table, options)));
  ASSERT_TRUE(preprocess.targets[0].log);
  // The logarithms are i/3: mean 19/6, variance (20² − 1)/12/9.
  EXPECT_NEAR(preprocess.targets[0].scale.offset, 19.0 / 6, 1e-12);
  EXPECT_NEAR(preprocess.targets[0].scale.scale, std::sqrt(399.0 / 12) / 3, 1e-12);
  EXPECT_THAT(preprocess.notes, ElementsAre(HasSubstr("y: above zero and skewed")));
  const Tensor y = preprocess.transform_targets(table);
  EXPECT_LE(
      relative_error(preprocess.to_original(y),
                     preprocess.targets_in_units(table, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                                         10, 11, 12, 13, 14, 15, 16, 17, 18, 19})),
      test::tol::kScalar);
  EXPECT_NEAR(preprocess.to_original(torch::zeros({1, 1}, test::kDouble)).item<double>(),
              std::exp(19.0 / 6), 1e-10);
  // A row that has no logarithm can be measured, and not learned.
  const Table fresh = parsed("x,y\n1,0\n");
  EXPECT_EQ(preprocess.targets_in_units(fresh, {0}).item<double>(), 0);
  EXPECT_THAT(
      [&] { preprocess.transform_targets(fresh); },
      ThrowsMessage<InvalidArgument>(HasSubstr("a.csv:2: expected the target \"y\" above")));
  // Overruled, both ways.
  options.target_transform = TargetTransform::kNone;
  EXPECT_FALSE(fit_preprocess(table, options).targets[0].log);
  options.target_transform = TargetTransform::kLog;
  EXPECT_TRUE(fit_preprocess(parsed("x,y\n1,1\n2,2\n"), options).targets[0].log);
  EXPECT_THROW(fit_preprocess(parsed("x,y\n1,1\n2,-2\n"), options), InvalidArgument);
  // A value that is not fitted on counts, too: it will have to be measured.
  options.target_transform = TargetTransform::kAuto;
  std::vector<int64_t> first(20);
  std::iota(first.begin(), first.end(), 0);
  EXPECT_FALSE(fit_preprocess(parsed(csv + "1,0\n"), first, options).targets[0].log);
}

TEST(Encoding, AConstantTargetIsLearnedWhereThatIsAsked) {
  PreprocessOptions options = all_of_it();
  const Table table = parsed("x,y\n1,5\n2,5\n");
  const Preprocess preprocess = parse_preprocess(to_json(fit_preprocess(table, options)));
  expect_close(preprocess.transform_targets(table), torch::zeros({2, 1}, test::kDouble));
  expect_close(preprocess.to_original(torch::zeros({2, 1}, test::kDouble)), rows_of({{5}, {5}}));
}

TEST(Encoding, ARowOfWeightZeroIsNoRow) {
  const PreprocessOptions options = all_of_it();
  const Table table = parsed(rich());
  std::vector<int64_t> all, some;
  std::vector<double> weights, kept;
  for (int64_t i = 0; i < 30; ++i) {
    all.push_back(i);
    weights.push_back(i % 4 == 1 ? 0 : 0.5 + static_cast<double>(i % 3));
    if (weights.back() == 0) continue;
    some.push_back(i);
    kept.push_back(weights.back());
  }
  EXPECT_EQ(to_json(fit_preprocess(table, all, options, {}, weights)),
            to_json(fit_preprocess(table, some, options, {}, kept)));
  // Equal weights are none; whole ones rows that come again.
  EXPECT_EQ(to_json(fit_preprocess(table, all, options, {}, std::vector<double>(30, 1.0))),
            to_json(fit_preprocess(table, all, options)));
  std::vector<int64_t> repeated;
  std::vector<double> whole;
  for (int64_t i = 0; i < 30; ++i) {
    whole.push_back(static_cast<double>(1 + i % 3));
    for (int64_t k = 0; k <= i % 3; ++k) repeated.push_back(i);
  }
  PreprocessOptions by_weight = options;
  by_weight.rare_rows = 0;  // counts rows
  by_weight.max_levels = 0;
  const Tensor a = fit_preprocess(table, all, by_weight, {}, whole).transform(table);
  const Tensor b = fit_preprocess(table, repeated, by_weight).transform(table);
  EXPECT_LE((a - b).abs().max().item<double>(), 1e-12);

  EXPECT_THAT(
      [&] {
        fit_preprocess(table, {0, 1}, options, {}, {0, 0});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("with a weight above zero")));
  EXPECT_THROW(fit_preprocess(table, {0, 1}, options, {}, {1}), InvalidArgument);
  EXPECT_THROW(fit_preprocess(table, {0, 1}, options, {}, {1, -1}), InvalidArgument);
  EXPECT_THROW(fit_preprocess(table, {0, 1}, options, {}, {1, NAN}), InvalidArgument);
}

TEST(Encoding, EverythingSurvivesItsFile) {
  const Table table = parsed(rich());
  const Preprocess fitted = fit_preprocess(table, all_of_it());
  const std::string json = to_json(fitted);
  const Preprocess loaded = parse_preprocess(json);
  EXPECT_EQ(to_json(loaded), json);
  EXPECT_EQ(loaded.feature_names(), fitted.feature_names());
  EXPECT_EQ(static_cast<int64_t>(loaded.feature_names().size()), loaded.feature_count());
  EXPECT_EQ(loaded.notes, fitted.notes);
  EXPECT_TRUE(torch::equal(loaded.transform(table), fitted.transform(table)));
  EXPECT_TRUE(torch::equal(loaded.transform_targets(table), fitted.transform_targets(table)));
  EXPECT_TRUE(loaded.targets[0].log);
  // Fitted features have mean 0 and deviation 1 before clip and weight: a network sees no others.
  const Tensor x = fitted.transform(table);
  EXPECT_TRUE(torch::isfinite(x).all().item<bool>());
  EXPECT_LE(x.abs().max().item<double>(), 4);
  // Without the new choices a file has none of the new fields.
  PreprocessOptions plain;
  plain.targets = {"y"};
  const auto fields = nlohmann::json::parse(to_json(fit_preprocess(table, plain)));
  for (const char* name : {"clip", "notes"}) EXPECT_FALSE(fields.contains(name)) << name;
  for (const auto& column : fields["columns"]) {
    for (const char* name :
         {"part", "knots", "piece_weight", "missing_indicator", "others", "other_feature"})
      EXPECT_FALSE(column.contains(name)) << name;
  }
  EXPECT_FALSE(fields["targets"][0].contains("transform"));
}

TEST(Encoding, DamagedFilesAreRefused) {
  const std::string good = to_json(fit_preprocess(parsed(rich()), all_of_it()));
  using nlohmann::json;
  const json sound = json::parse(good);
  const auto column = [&](const char* name, const char* part = "") {
    for (size_t i = 0; i < sound["columns"].size(); ++i) {
      const json& each = sound["columns"][i];
      if (each["name"] == name && each.value("part", "") == part) return i;
    }
    throw std::logic_error(name);
  };
  const auto refuse = [&](const std::function<void(json&)>& change, const std::string& part) {
    json record = sound;
    change(record);
    EXPECT_THAT([&] { parse_preprocess(record.dump(), "p.json"); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("p.json"), HasSubstr(part))));
  };
  const size_t n = column("n"), t = column("t"), month = column("when", "month");
  refuse([](json& r) { r["clip"] = 0; }, "clip: expected a positive number");
  refuse([](json& r) { r["clip"] = "4"; }, "clip");
  refuse([](json& r) { r["notes"] = {1}; }, "notes");
  refuse([&](json& r) { r["columns"][n]["knots"] = {1, 2}; }, "knots: expected three numbers");
  refuse([&](json& r) { r["columns"][n]["knots"][1] = nullptr; }, "ascend");
  refuse([&](json& r) { r["columns"][n]["knots"][1] = 1e300; }, "ascend");
  refuse([&](json& r) { r["columns"][n]["knots"].push_back(1e300); }, "features of column");
  refuse([&](json& r) { r["columns"][n]["piece_weight"] = 0; }, "piece_weight");
  refuse([&](json& r) { r["columns"][n].erase("piece_weight"); }, "piece_weight");
  refuse([&](json& r) { r["columns"][n]["missing_indicator"] = false; }, "features of column");
  refuse([&](json& r) { r["columns"][n]["part"] = "year"; }, "text, of which dates are made");
  refuse([&](json& r) { r["columns"][month]["part"] = "century"; }, "part");
  refuse([&](json& r) { r["columns"][month]["part"] = "weekday"; }, "categories");
  refuse([&](json& r) { r["columns"][month]["categories"][0] = "00"; }, "categories");
  refuse([&](json& r) { r["columns"][t]["others"] = {"c0"}; }, "is both");
  refuse([&](json& r) { r["columns"][t]["others"] = {"b", "a"}; }, "sorted");
  refuse([&](json& r) { r["columns"][t].erase("other_feature"); }, "other_feature");
  refuse([&](json& r) { r["columns"][t]["other_feature"] = false; }, "features of column");
  refuse([](json& r) { r["targets"][0]["transform"] = "sqrt"; }, "transform");
  refuse([](json& r) { r["targets"][0]["transform"] = "auto"; }, "none or log");
}

TEST(Encoding, OptionsOutOfRangeAreRefused) {
  const Table table = parsed("x,y\n1,1\n2,2\n3,3\n");
  const auto refuse = [&](const std::function<void(PreprocessOptions&)>& change,
                          const std::string& part) {
    PreprocessOptions options = raw();
    change(options);
    EXPECT_THAT([&] { fit_preprocess(table, options); },
                ThrowsMessage<InvalidArgument>(HasSubstr(part)));
  };
  refuse([](auto& o) { o.quantiles = 2; }, "quantiles: expected 0, or 3 to 1000, got 2");
  refuse([](auto& o) { o.quantiles = -1; }, "quantiles");
  refuse([](auto& o) { o.quantile_weight = NAN; }, "weight of quantiles");
  refuse([](auto& o) { o.clip = -1; }, "clip");
  refuse([](auto& o) { o.max_levels = -1; }, "categories of their own");
  for (const auto value : {TargetTransform::kAuto, TargetTransform::kNone, TargetTransform::kLog})
    EXPECT_EQ(parse_target_transform(to_string(value)), value);
  for (const DatePart part : kDateParts) EXPECT_EQ(parse_date_part(to_string(part)), part);
}

}  // namespace
}  // namespace cdt::data
