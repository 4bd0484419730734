// A table and a network to pre-flights and predictions, without the program.
#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/data/houses.h>
#include <cdt/kernel/ntk.h>
#include <cdt/study/examine.h>
#include <cdt/study/learn.h>
#include <cdt/study/parts/cost.h>
#include <cdt/study/predictions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support/compare.h"
#include "support/temp_folder.h"

namespace cdt {
namespace {

using loss::LossPtr;
using nlohmann::json;
using study::AnalysisOptions;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using torch::Tensor;

class Study : public testing::Test {
 protected:
  void SetUp() override {
    data.file = (folder_ / "houses.csv").string();
    data.targets = {"price"};
    data.rows = 60;
    network.hidden = {24};
    network.dtype = torch::kFloat64;
    write_file_atomically(data.file, {data::make_houses(80, 1)});
  }
  study::Problem load(uint64_t seed = 1) const {
    return study::load_problem(data, network, seed, torch::kCPU);
  }
  /// Points of three classes with a contradiction in lines 2 and 5.
  void use_classes() {
    data = {};
    data.file = (folder_ / "fruit.csv").string();
    data.targets = {"kind"};
    data.classes = true;
    data.train_fraction = 1;
    std::string csv = "a,b,kind\n1,2,apple\n2,1,lemon\n3,5,plum\n1,2,plum\n";
    for (int i = 0; i < 12; ++i) {
      csv += fmt::format("{},{},{}\n", 10 + i * 7 % 12, i * 5 % 11,
                         i % 3 == 0   ? "apple"
                         : i % 3 == 1 ? "lemon"
                                      : "plum");
    }
    write_file_atomically(data.file, {csv});
  }

  test::TempFolder folder_;
  study::DataOptions data;
  study::NetworkOptions network;
};

TEST_F(Study, AProblemIsTheTableAsTensors) {
  const study::Problem problem = load(3);
  EXPECT_EQ(problem.split.train.size(), 42U);
  EXPECT_EQ(problem.split.validation.size(), 18U);
  EXPECT_EQ(problem.data.x.sizes(), (std::vector<int64_t>{42, 8}));
  EXPECT_EQ(problem.data.x.scalar_type(), torch::kFloat64);
  EXPECT_EQ(problem.data.y_val.sizes(), (std::vector<int64_t>{18, 1}));
  EXPECT_EQ(problem.model->describe(), "8-24-1");
  EXPECT_EQ(problem.model->parameter_count(), 8 * 24 + 24 + 24 + 1);
  EXPECT_EQ(problem.table.checksum, checksum(read_file(data.file)));
  // From a table that is there already it is the same, but for the table.
  const auto table = data::read_csv(data.file);
  const study::Problem again = study::make_problem(table, data, network, 3, torch::kCPU);
  EXPECT_TRUE(torch::equal(again.data.x, problem.data.x));
  EXPECT_EQ(again.table.rows(), 0);
}

TEST_F(Study, ProblemsSayWhatIsWrong) {
  const auto refuse = [&](const study::DataOptions& options, const std::string& message) {
    EXPECT_THAT([&] { study::load_problem(options, network, 1, torch::kCPU); },
                testing::ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  study::DataOptions bad = data;
  bad.rows = 81;
  refuse(bad, "rows asks for 81 rows, the file has 80");
  bad = data;
  bad.train_fraction = 0.001;
  refuse(bad, "leaves none to train on");
  bad = data;
  bad.train_rows = 61;
  refuse(bad, "train rows asks for 61 of 60 rows");
  bad = data;
  bad.sample_weights = "price";
  refuse(bad, "expected a column that is no target");
  bad = data;
  bad.output_weights = {1, 2};
  refuse(bad, "expected one weight a target, 1");
  use_classes();
  bad = data;
  bad.target_scaling = data::Scaling::kNone;
  refuse(bad, "classes, which have no scale");
}

TEST_F(Study, NamesGoBothWays) {
  EXPECT_EQ(study::parse_fit(study::to_string(study::Fit::kAll)), study::Fit::kAll);
  EXPECT_EQ(study::parse_fit(study::to_string(study::Fit::kSeen)), study::Fit::kSeen);
  for (const auto goal : {study::Goal::kFit, study::Goal::kPredict})
    EXPECT_EQ(study::parse_goal(study::to_string(goal)), goal);
  EXPECT_THROW(study::parse_goal("guess"), InvalidArgument);
  for (const auto missing : {study::MissingTarget::kDrop, study::MissingTarget::kError})
    EXPECT_EQ(study::parse_missing_target(study::to_string(missing)), missing);
  EXPECT_EQ(study::parse_dtype(study::dtype_name(torch::kFloat64)), torch::kFloat64);
  EXPECT_THROW(study::parse_fit("some"), InvalidArgument);
  EXPECT_THROW(study::parse_dtype("int8"), InvalidArgument);
}

TEST_F(Study, TheGoalMakesTheChoicesThatNobodyMade) {
  study::DataOptions options;
  data::PreprocessOptions fit = study::preprocess_options(options);
  EXPECT_EQ(fit.encoding, data::Encoding::kIndex);
  EXPECT_EQ(fit.missing_number, data::MissingNumber::kZero);
  EXPECT_EQ(fit.unknown_category, data::UnknownCategory::kError);
  EXPECT_EQ(fit.scaling, data::Scaling::kMinMax);
  EXPECT_EQ(fit.target_scaling, data::Scaling::kMinMax);
  EXPECT_EQ(fit.target_transform, data::TargetTransform::kNone);
  EXPECT_EQ(fit.quantiles, 0);
  EXPECT_EQ(fit.clip, 0);
  EXPECT_FALSE(fit.select || fit.dates || fit.missing_indicator);
  EXPECT_EQ(study::fit_of(options), study::Fit::kTrain);
  EXPECT_EQ(study::train_fraction_of(options), 0.7);
  options.goal = study::Goal::kPredict;
  const data::PreprocessOptions predict = study::preprocess_options(options);
  EXPECT_EQ(predict.encoding, data::Encoding::kOneHot);
  EXPECT_EQ(predict.missing_number, data::MissingNumber::kMedian);
  EXPECT_EQ(predict.unknown_category, data::UnknownCategory::kMissing);
  EXPECT_EQ(predict.scaling, data::Scaling::kStandard);
  EXPECT_EQ(predict.target_scaling, data::Scaling::kStandard);
  EXPECT_EQ(predict.target_transform, data::TargetTransform::kAuto);
  EXPECT_EQ(predict.quantiles, study::kUsualQuantiles);
  EXPECT_EQ(predict.clip, study::kUsualClip);
  EXPECT_TRUE(predict.select && predict.dates && predict.missing_indicator);
  EXPECT_EQ(study::fit_of(options), study::Fit::kSeen);
  EXPECT_EQ(study::train_fraction_of(options), 0.8);
  // Whoever chooses is heard, whatever the goal.
  options.encoding = data::Encoding::kIndex;
  options.quantiles = 0;
  options.clip = 0.0;
  options.scaling = data::Scaling::kNone;
  options.fit = study::Fit::kAll;
  options.train_fraction = 0.5;
  EXPECT_EQ(study::preprocess_options(options).encoding, data::Encoding::kIndex);
  EXPECT_EQ(study::preprocess_options(options).quantiles, 0);
  EXPECT_EQ(study::preprocess_options(options).clip, 0);
  EXPECT_EQ(study::preprocess_options(options).scaling, data::Scaling::kNone);
  EXPECT_EQ(study::fit_of(options), study::Fit::kAll);
  EXPECT_EQ(study::train_fraction_of(options), 0.5);
}

TEST_F(Study, AProblemOfPredictionIsFittedOnAllRowsThatMayBeSeen) {
  data.goal = study::Goal::kPredict;
  const study::Problem problem = load(3);
  EXPECT_EQ(problem.split.train.size(), 48U);
  EXPECT_EQ(problem.split.validation.size(), 12U);
  const Tensor x = torch::cat({problem.data.x, problem.data.x_val});
  EXPECT_LE(x.abs().max().item<double>(), 4);
  // Centred over both: what is not clipped has mean 0.
  const Tensor y = torch::cat({problem.data.y, problem.data.y_val});
  EXPECT_NEAR(y.mean().item<double>(), 0, 1e-12);
  EXPECT_NEAR(y.square().mean().item<double>(), 1, 1e-12);
  EXPECT_EQ(problem.notes, problem.preprocess.notes);
  EXPECT_THAT(problem.notes, testing::Contains(HasSubstr("lot: ")));
  // In units of the file again.
  const auto [predicted, wanted] = study::predict_rows(problem, problem.model, {0, 5});
  EXPECT_NEAR(wanted[1][0].item<double>(), problem.table.at("price").numbers[5], 1e-6);
  EXPECT_TRUE(torch::isfinite(predicted).all().item<bool>());
  use_classes();
  data.goal = study::Goal::kPredict;
  EXPECT_NO_THROW(load());
  data.target_transform = data::TargetTransform::kLog;
  EXPECT_THROW(load(), InvalidArgument);
}

/// Rows with groups, dates, weights and gaps; writes the file and returns its options.
study::DataOptions visits(const std::filesystem::path& file) {
  std::string csv = "customer,day,x,w,y\n";
  for (int i = 0; i < 60; ++i) {
    csv += fmt::format("c{},2024-{:02}-{:02},{},{},{}\n", i % 12, 1 + i % 11, 1 + i * 7 % 28,
                       i * 37 % 60, i % 10 == 3 ? 0.0 : 1 + i % 4,
                       i % 15 == 7 ? "" : std::to_string(i * 11 % 17));
  }
  write_file_atomically(file, {csv});
  study::DataOptions options;
  options.file = file.string();
  options.targets = {"y"};
  options.goal = study::Goal::kPredict;
  return options;
}

std::vector<int64_t> together(const data::Split& split) {
  std::vector<int64_t> rows = split.train;
  rows.insert(rows.end(), split.validation.begin(), split.validation.end());
  rows.insert(rows.end(), split.test.begin(), split.test.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST_F(Study, RowsWithoutATargetAreLeftOutAndCounted) {
  data = visits(folder_ / "visits.csv");
  const study::Problem problem = load();
  EXPECT_EQ(together(problem.split).size(), 56U);
  for (const int64_t row : together(problem.split)) EXPECT_NE(row % 15, 7);
  EXPECT_THAT(problem.notes, testing::Contains("4 rows without a target are left out "
                                               "(--missing-target error refuses them)"));
  data.missing_target = study::MissingTarget::kError;
  EXPECT_THAT([&] { load(); },
              testing::ThrowsMessage<InvalidArgument>(HasSubstr("missing in lines 9, 24, 39, 54")));
  // Under fit that is the usual, and can be asked for the other way.
  data.missing_target.reset();
  data.goal = study::Goal::kFit;
  EXPECT_THROW(load(), InvalidArgument);
  data.missing_target = study::MissingTarget::kDrop;
  EXPECT_EQ(together(load().split).size(), 56U);
  data.fit = study::Fit::kAll;
  EXPECT_NO_THROW(load());
  data.rows = 57;
  EXPECT_THAT([&] { load(); }, testing::ThrowsMessage<InvalidArgument>(
                                   HasSubstr("the file has 56 that can be used")));
}

TEST_F(Study, TestRowsAreDrawnFirstAndNeverFittedOn) {
  data = visits(folder_ / "visits.csv");
  data.test_fraction = 0.25;
  const study::Problem problem = load(2);
  EXPECT_EQ(problem.split.test.size(), 14U);
  EXPECT_EQ(problem.split.train.size(), 33U);  // ⌊0.8 · 42⌋
  EXPECT_EQ(problem.split.validation.size(), 9U);
  EXPECT_EQ(together(problem.split).size(), 56U);
  // A table without them gives the same scales.
  std::vector<int64_t> seen = problem.split.train;
  seen.insert(seen.end(), problem.split.validation.begin(), problem.split.validation.end());
  const auto wanted = study::preprocess_options(data);
  EXPECT_EQ(data::to_json(problem.preprocess),
            data::to_json(data::fit_preprocess(problem.table, seen, wanted)));
  data.test_fraction = 0.001;
  EXPECT_EQ(load().split.test.size(), 1U);
  data.test_fraction = 1;
  EXPECT_THROW(load(), InvalidArgument);
}

TEST_F(Study, GroupsStayTogetherAndAreNoFeature) {
  data = visits(folder_ / "visits.csv");
  data.group = "customer";
  data.test_fraction = 0.2;
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    const study::Problem problem = load(seed);
    std::map<int64_t, std::set<int>> sides;
    int side = 0;
    for (const auto* rows :
         {&problem.split.train, &problem.split.validation, &problem.split.test}) {
      EXPECT_FALSE(rows->empty());
      for (const int64_t row : *rows) sides[row % 12].insert(side);
      ++side;
    }
    EXPECT_EQ(sides.size(), 12U);
    for (const auto& [group, on] : sides) EXPECT_EQ(on.size(), 1U) << group;
    EXPECT_NEAR(static_cast<double>(problem.split.test.size()), 11, 3);
    EXPECT_FALSE(problem.fixed_split);
    // The groups of the rows that may be drawn anew, numbered from 0.
    const auto& groups = problem.groups;
    ASSERT_EQ(groups.size(), problem.split.train.size() + problem.split.validation.size());
    std::map<int64_t, int64_t> customer;
    for (size_t i = 0; i < groups.size(); ++i) {
      const int64_t row = i < problem.split.train.size()
                              ? problem.split.train[i]
                              : problem.split.validation[i - problem.split.train.size()];
      EXPECT_EQ(customer.emplace(groups[i], row % 12).first->second, row % 12);
    }
    EXPECT_EQ(customer.rbegin()->first, static_cast<int64_t>(customer.size()) - 1);
    for (const auto& name : problem.preprocess.csv_options().keep) EXPECT_NE(name, "customer");
    EXPECT_THAT(problem.notes, testing::Contains(HasSubstr("customer: left out, it says which")));
  }
  data.keep = {"customer"};
  EXPECT_THAT(load().preprocess.csv_options().keep, testing::Contains("customer"));
  data.group = "y";
  EXPECT_THROW(load(), InvalidArgument);
  data.group = "customer";
  data.time = "day";
  EXPECT_THAT([&] { load(); }, testing::ThrowsMessage<InvalidArgument>(HasSubstr("got both")));
}

TEST_F(Study, TheLatestRowsValidateAndTest) {
  data = visits(folder_ / "visits.csv");
  data.time = "day";
  data.test_fraction = 0.2;
  const study::Problem problem = load();
  EXPECT_TRUE(problem.fixed_split);
  EXPECT_TRUE(problem.groups.empty());
  const data::Column& day = problem.table.at("day");
  const auto range = [&](const std::vector<int64_t>& rows) {
    std::set<std::string> days;
    for (const int64_t row : rows)
      days.insert(day.categories[static_cast<size_t>(day.codes[static_cast<size_t>(row)])]);
    return std::pair{*days.begin(), *days.rbegin()};
  };
  EXPECT_LT(range(problem.split.train).second, range(problem.split.validation).first);
  EXPECT_LT(range(problem.split.validation).second, range(problem.split.test).first);
  EXPECT_EQ(together(problem.split).size(), 56U);
  // The seed decides nothing but the order.
  EXPECT_EQ(std::set(problem.split.test.begin(), problem.split.test.end()), [&] {
    const auto other = load(7).split.test;
    return std::set(other.begin(), other.end());
  }());
  data.time = "customer";
  EXPECT_THAT([&] { load(); },
              testing::ThrowsMessage<InvalidArgument>(AllOf(
                  HasSubstr("visits.csv:2: expected a number or a date"), HasSubstr("\"c0\""))));
}

TEST_F(Study, ARowOfWeightZeroIsNoRow) {
  data = visits(folder_ / "visits.csv");
  data.sample_weights = "w";
  const study::Problem problem = load();
  for (const int64_t row : together(problem.split)) EXPECT_NE(row % 10, 3);
  EXPECT_THAT(problem.notes, testing::Contains("6 rows of weight 0 are left out"));
  EXPECT_EQ(problem.data.sample_weights.size(0), problem.data.x.size(0));
  EXPECT_EQ(problem.data.val_weights.size(0), problem.data.x_val.size(0));
  EXPECT_GT(problem.data.val_weights.min().item<double>(), 0);
  // The same file without these rows.
  std::string csv = "customer,day,x,w,y\n";
  const std::string all = read_file(data.file);
  size_t line = all.find('\n') + 1;
  for (int i = 0; i < 60; ++i) {
    const size_t end = all.find('\n', line) + 1;
    if (i % 10 != 3) csv += all.substr(line, end - line);
    line = end;
  }
  data.file = (folder_ / "fewer.csv").string();
  write_file_atomically(data.file, {csv});
  const study::Problem fewer = load();
  EXPECT_TRUE(torch::equal(problem.data.x, fewer.data.x));
  EXPECT_TRUE(torch::equal(problem.data.y, fewer.data.y));
  EXPECT_TRUE(torch::equal(problem.data.val_weights, fewer.data.val_weights));
  EXPECT_EQ(data::to_json(problem.preprocess), data::to_json(fewer.preprocess));
  // Under fit it is an error, as before.
  data = visits(folder_ / "visits.csv");
  data.sample_weights = "w";
  data.goal = study::Goal::kFit;
  data.missing_target = study::MissingTarget::kDrop;
  EXPECT_THAT([&] { load(); },
              testing::ThrowsMessage<InvalidArgument>(HasSubstr("expected a positive weight")));
}

TEST_F(Study, AFitWarnsOfColumnsThatPredictWillNotKnow) {
  data = visits(folder_ / "visits.csv");
  data.goal = study::Goal::kFit;
  data.missing_target = study::MissingTarget::kDrop;
  EXPECT_THAT(load().notes,
              testing::Contains("day: dates, taken as 44 categories, and days that are not among "
                                "them will be refused (--drop day leaves it out, --unknown missing "
                                "takes new ones for missing)"));
  std::string csv = "name,row,x,y\n";
  for (int i = 0; i < 30; ++i) csv += fmt::format("n{},{},{},{}\n", i, i, i * 7 % 30, i * 11 % 13);
  data = {};
  data.file = (folder_ / "names.csv").string();
  data.targets = {"y"};
  write_file_atomically(data.file, {csv});
  EXPECT_THAT(
      load().notes,
      ElementsAre(HasSubstr("name: looks like an identifier: 30 different texts in 30 rows"),
                  HasSubstr("row: looks like an identifier: it counts the rows")));
  data.csv.drop = {"name", "row"};
  EXPECT_THAT(load().notes, testing::IsEmpty());
}

TEST_F(Study, ThePreflightIsThatOfTheKernel) {
  const study::Problem problem = load();
  AnalysisOptions options;
  int64_t blocks = 0;
  options.progress = [&](int64_t done, int64_t) { blocks = done; };
  const analysis::Preflight found = study::analyze(problem, options);
  const Tensor theta = kernel::empirical_ntk(problem.model, problem.data.x).theta;
  const double largest = torch::linalg_eigvalsh(theta).max().item<double>();
  EXPECT_NEAR(found.spectrum.largest.value / largest, 1, 1e-9);
  // Half the rate at which nothing oscillates: c_L = 2/n.
  EXPECT_NEAR(found.learning_rate * 2 * 2 / 42 * largest, 1, 1e-9);
  EXPECT_GT(blocks, 0);
  EXPECT_FALSE(found.curvature);
  EXPECT_EQ(json::parse(to_json(found))["samples"], 42);
  EXPECT_THAT(to_text(found), HasSubstr("Pre-flight: 42 samples"));
  ASSERT_EQ(found.origin.lines.size(), 42U);
  EXPECT_EQ(found.origin.lines[0], problem.split.train[0] + 2);
}

TEST_F(Study, TheReportNamesTheLinesOfConflictingSamples) {
  data = {};
  data.file = (folder_ / "twins.csv").string();
  data.targets = {"y"};
  data.train_fraction = 1;
  write_file_atomically(data.file, {"a,b,y\n1,2,1\n2,5,2\n1,2,3\n4,1,2\n"});
  const std::string text = to_text(study::analyze(load(), {}));
  const size_t lines = text.find("(lines "), rates = text.find("\nOther rates");
  EXPECT_LT(text.find("What to do"), lines);
  EXPECT_LT(lines, rates);
  EXPECT_THAT(text, testing::AnyOf(HasSubstr("lines 2, 4 of"), HasSubstr("lines 4, 2 of")));
}

TEST_F(Study, ClassesHaveTheSamePreflight) {
  use_classes();
  const study::Problem problem = load();
  ASSERT_EQ(problem.conflicts.size(), 1U);
  EXPECT_THAT(problem.conflicts[0].lines, ElementsAre(2, 5));
  AnalysisOptions options;
  options.loss = loss::cross_entropy();
  const analysis::Preflight found = study::analyze(problem, options);
  ASSERT_TRUE(found.curvature && found.curvature->smoothing);
  EXPECT_EQ(found.n, 16 * 2);
  EXPECT_EQ(found.outputs, 3);
  EXPECT_GT(found.rates.stable.value, found.learning_rate);
  // The Hessian of the softmax is at most ½: what is safe everywhere is safe here.
  EXPECT_LE(found.rates.everywhere, found.rates.stable.value);
  const Tensor logits = problem.model->forward(problem.data.x);
  EXPECT_NEAR(*found.state.loss, torch::cross_entropy_loss(logits, problem.data.y).item<double>(),
              1e-9);
  EXPECT_THAT(to_text(found), HasSubstr("Lines 2, 5 of"));
  EXPECT_EQ(json::parse(to_json(found))["conflicts"][0]["lines"], (json{2, 5}));
  options.forecast = true;
  EXPECT_THROW(study::analyze(problem, options), InvalidArgument);
  options = {};
  options.loss = loss::mae();
  EXPECT_THROW(study::analyze(problem, options), InvalidArgument);
}

TEST_F(Study, TrialsAndForecastAreThereOnRequest) {
  AnalysisOptions options;
  options.trial_steps = 3;
  options.forecast = true;
  const analysis::Preflight found = study::analyze(load(), options);
  ASSERT_EQ(found.outlook.trials.size(), 2U);
  EXPECT_EQ(found.outlook.trials[0].steps, 3);
  // The best of all for methods with control, the best of descent for the others.
  const auto& forecast = *found.outlook.forecast;
  const study::Tuning steered = study::best_tuning(found, "guarded");
  EXPECT_EQ(steered.learning_rate, forecast.best.candidate.learning_rate);
  EXPECT_EQ(steered.steps, forecast.best.step);
  const study::Tuning plain = study::best_tuning(found, "gd");
  EXPECT_FALSE(plain.p);
  EXPECT_EQ(plain.validation_loss, forecast.best_descent->validation_loss);
  EXPECT_LE(steered.validation_loss, plain.validation_loss);
  EXPECT_THROW(study::best_tuning(study::analyze(load(), {}), "gd"), InvalidArgument);
  data.train_fraction = 1;
  EXPECT_THAT([&] { study::analyze(load(), options); },
              testing::ThrowsMessage<InvalidArgument>(HasSubstr("validation rows")));
}

TEST_F(Study, TrainingOptionsSayHowToAnalyse) {
  train::TrainOptions training;
  training.method = "cdt";
  training.loss = loss::cross_entropy();
  training.smoothing = 0.3;
  training.p = 7;
  training.memory_bytes = 123;
  const AnalysisOptions options = study::analysis_of(training);
  EXPECT_EQ(options.method, "cdt");
  EXPECT_EQ(options.smoothing, 0.3);
  EXPECT_EQ(options.p, 7);
  EXPECT_EQ(options.memory_bytes, 123);
  EXPECT_FALSE(options.learning_rate);
}

TEST_F(Study, SaysWhyAnAnalysisIsSkipped) {
  study::Problem problem = load();
  train::TrainOptions training;
  EXPECT_EQ(study::reason_to_skip(problem, training), "");
  training.batch = 10;
  EXPECT_THAT(study::reason_to_skip(problem, training), HasSubstr("batches"));
  training.batch = 0;
  training.loss = loss::mae();
  EXPECT_THAT(study::reason_to_skip(problem, training), HasSubstr("no curvature"));
  training.loss = loss::mse();
  problem.data.x = torch::zeros({4000, problem.data.x.size(1)});
  problem.data.y = torch::zeros({4000, 2}, torch::kFloat64);
  EXPECT_THAT(study::reason_to_skip(problem, training), HasSubstr("8000 rows would take about"));
}

TEST_F(Study, BatchesComeFromTheTimeThatAKernelTakes) {
  study::Problem problem = load();
  train::TrainOptions training;
  training.memory_bytes = int64_t{1} << 40;
  const auto batch_of = [&](int64_t rows) {
    problem.data.x = torch::zeros({rows, 10});
    problem.data.y = torch::zeros({rows, 2}, torch::kFloat64);
    return study::usual_batch(problem, training);
  };
  const auto seconds = [&](int64_t rows) {
    const study::KernelCost cost = study::kernel_cost(problem, rows);
    return cost.kernel_seconds +
           (training.learning_rate ? cost.spectrum_seconds : cost.factor_seconds);
  };
  EXPECT_EQ(batch_of(2000), 0);
  // Whoever gives a rate gets the controller, whose eigendecomposition takes longer.
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const std::optional<double> rate : {std::optional<double>(), std::optional(0.1)}) {
    training.learning_rate = rate;
    const int64_t batch = batch_of(20000);
    ASSERT_GT(batch, 100);
    EXPECT_LT(batch, before);
    EXPECT_NEAR(seconds(batch), 5.0 / 4, 0.01);
    before = batch;
  }
  training.memory_bytes = study::kernel_cost(problem, 50).bytes;
  EXPECT_EQ(batch_of(20000), 50);
  training.form = "sketch";  // its steps are of all rows
  EXPECT_EQ(batch_of(20000), 0);
  training.form = "batch";
  EXPECT_EQ(batch_of(20000), train::kBatchResiduals / 2);
  training.form = "auto";
  training.method = "adam";
  EXPECT_EQ(batch_of(20000), 0);
}

TEST_F(Study, AnAnalysisOfManyRowsTakesSomeOfThem) {
  study::Problem problem = load();
  const auto rows = static_cast<int64_t>(problem.split.train.size());
  EXPECT_EQ(study::most_rows_to_analyze(problem, int64_t{1} << 30), rows);
  const int64_t few = study::most_rows_to_analyze(problem, study::kernel_cost(problem, 7).bytes);
  EXPECT_EQ(few, 7);
  const study::Problem part = study::first_rows(problem, few);
  const analysis::Preflight found = study::analyze(part, {});
  EXPECT_EQ(found.samples, 7);
  EXPECT_EQ(found.origin.lines.size(), 7U);
  EXPECT_EQ(problem.data.x.size(0), rows);
}

TEST_F(Study, PredictionsAreInUnitsOfTheFile) {
  const study::Problem problem = load();
  const auto [predicted, wanted] =
      study::predict_rows(problem, problem.model, problem.split.validation);
  const data::Column& prices = problem.table.at("price");
  for (int64_t i = 0; i < 18; ++i) {
    const int64_t row = problem.split.validation[static_cast<size_t>(i)];
    EXPECT_NEAR(wanted[i][0].item<double>(), prices.numbers[static_cast<size_t>(row)], 1e-6);
  }
  const study::Errors errors = study::measure_errors(problem.preprocess, predicted, wanted);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].target, "price");
  const auto& found = std::get<study::NumberErrors>(errors[0].value);
  const Tensor gap = predicted - wanted;
  EXPECT_NEAR(found.rmse * found.rmse / gap.square().mean().item<double>(), 1, 1e-12);
  EXPECT_NEAR(found.mae / gap.abs().mean().item<double>(), 1, 1e-12);
  EXPECT_NEAR(*found.r2,
              1 - (gap.square().sum() / (wanted - wanted.mean()).square().sum()).item<double>(),
              1e-9);
  const Tensor constant = torch::ones({4, 1}, torch::kFloat64);
  const auto same = study::measure_errors(problem.preprocess, constant + 1, constant);
  EXPECT_FALSE(std::get<study::NumberErrors>(same[0].value).r2);
}

TEST_F(Study, ClassesAreCounted) {
  use_classes();
  const study::Problem problem = load();
  const Tensor labels = torch::eye(3, torch::kFloat64).index_select(0, torch::tensor({0, 0, 1, 2}));
  const Tensor guess =
      torch::tensor({{.8, .1, .1}, {.2, .5, .3}, {.1, .9, 0.}, {.2, .2, .6}}, torch::kFloat64);
  const auto found = study::measure_classes(problem.preprocess, guess, labels);
  EXPECT_EQ(found.accuracy, 0.75);
  EXPECT_NEAR(found.cross_entropy, -(std::log(.8) + std::log(.2) + std::log(.9) + std::log(.6)) / 4,
              1e-12);
  EXPECT_THAT(found.confusion,
              ElementsAre(ElementsAre(1, 1, 0), ElementsAre(0, 1, 0), ElementsAre(0, 0, 1)));
  EXPECT_EQ(found.majority, 0.5);
  EXPECT_THAT(found.recall, ElementsAre(0.5, 1, 1));
  EXPECT_NEAR(found.balanced_accuracy, 2.5 / 3, 1e-15);
  // A class without rows has no recall, and is not in the mean.
  const auto some =
      study::measure_classes(problem.preprocess, guess.slice(0, 0, 3), labels.slice(0, 0, 3));
  EXPECT_TRUE(std::isnan(some.recall[2]));
  EXPECT_NEAR(some.balanced_accuracy, 0.75, 1e-15);
  EXPECT_NEAR(some.majority, 2.0 / 3, 1e-15);
  EXPECT_THAT(study::class_names(problem.preprocess, guess),
              ElementsAre("apple", "lemon", "lemon", "plum"));
  EXPECT_TRUE(study::classes_without_rows(problem).empty());
  const auto [predicted, wanted] = study::predict_rows(problem, problem.model, {0, 1});
  EXPECT_NEAR(predicted.sum().item<double>(), 2, 1e-12);
  EXPECT_TRUE(torch::equal(wanted.sum(1), torch::ones({2}, torch::kFloat64)));
}

TEST_F(Study, AClassWithoutRowsIsNamed) {
  use_classes();
  study::Problem problem = load();
  problem.data.y.select(1, 2).zero_();
  EXPECT_THAT(study::classes_without_rows(problem),
              ElementsAre(HasSubstr("no training row has the class \"plum\" of kind")));
}

// More rows than are encoded at a time: nothing is lost at the seams, and nothing lies twice.
TEST_F(Study, ManyRowsAreEncodedInBlocks) {
  constexpr int64_t kRows = 70000;
  data::Table table;
  table.source = "many rows";
  data::Column a, b, price;
  a.name = "a";
  b.name = "b";
  price.name = "price";
  for (int64_t i = 0; i < kRows; ++i) {
    table.lines.push_back(i + 2);
    a.numbers.push_back(static_cast<double>(i));
    b.numbers.push_back(static_cast<double>(i * 7919 % 1000));
    price.numbers.push_back(static_cast<double>(i % 13));
  }
  // A row and its copy, far apart.
  std::vector<double> others = a.numbers.to_vector(), same = b.numbers.to_vector();
  others[69000] = others[5];
  same[69000] = same[5];
  a.numbers = others;
  b.numbers = same;
  table.columns = {a, b, price};
  data.rows = 0;
  data.train_rows = 69500;
  const study::Problem problem = study::make_problem(table, data, network, 3, torch::kCPU);
  const auto& [train, validation, test] = problem.split;
  ASSERT_EQ(train.size(), 69500U);
  ASSERT_EQ(validation.size(), 500U);
  EXPECT_TRUE(torch::equal(problem.data.x, problem.preprocess.transform(table, train)));
  EXPECT_TRUE(torch::equal(problem.data.y, problem.preprocess.transform_targets(table, train)));
  EXPECT_TRUE(torch::equal(problem.data.x_val, problem.preprocess.transform(table, validation)));
  EXPECT_TRUE(
      torch::equal(problem.data.y_val, problem.preprocess.transform_targets(table, validation)));
  ASSERT_EQ(problem.conflicts.size(), 1U);
  EXPECT_THAT(problem.conflicts[0].lines, ElementsAre(7, 69002));
  const train::TrainData all = study::all_rows(problem);
  EXPECT_EQ(all.x.data_ptr(), problem.data.x.data_ptr());
  EXPECT_TRUE(torch::equal(all.x, torch::cat({problem.data.x, problem.data.x_val})));
  EXPECT_TRUE(torch::equal(all.y, torch::cat({problem.data.y, problem.data.y_val})));
}

}  // namespace
}  // namespace cdt
