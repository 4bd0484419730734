// Run folders as a program of one's own writes and reads them.
#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/run/train.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/small_run.h"

namespace cdt {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
namespace fs = std::filesystem;
using Values = std::vector<std::string>;

/// The value of a setting; none if it is not there.
std::optional<Values> value_of(const run::Settings& settings, const std::string& name) {
  for (const auto& each : settings) {
    if (each.name == name) return each.values;
  }
  return std::nullopt;
}

class Run : public testing::Test {
 protected:
  void SetUp() override { options_.training.steps = 12; }
  run::Options in(const std::string& name) const {
    run::Options options = options_;
    options.folder = folder_ / name;
    return options;
  }
  /// Stops after so many steps.
  static run::Hooks stopping_after(int64_t steps) {
    run::Hooks hooks;
    auto seen = std::make_shared<int64_t>(0);
    hooks.on_step = [seen](const train::StepRecord&, int64_t) { ++*seen; };
    hooks.stop_requested = [seen, steps] { return *seen >= steps; };
    return hooks;
  }
  std::string bytes(const std::string& name) const { return read_file(folder_ / name); }

  test::TempFolder folder_;
  run::Options options_ = test::small_run(folder_, 60, 16);
};

/// Of the object that takes the first step: pre-flight, run.json, spectrum.csv and page agree.
TEST_F(Run, EveryPlaceSaysWhatTheControllerPromisesThatActs) {
  struct Asked {
    std::string name;
    train::Method method;
    std::optional<double> rate;
    double shape = 0;
    double decay = 0;
    bool weights = false;
  };
  const std::vector<Asked> all{{"guarded", "guarded", {}},
                               {"guarded-weights", "guarded", {}, 0, 0, true},
                               {"guarded-rate", "guarded", 0.5},
                               {"guarded-decay", "guarded", 0.5, 0, 0.01},
                               {"guarded-both", "guarded", 0.5, 0, 0.01, true},
                               {"cdt", "cdt", 0.5},
                               {"cdt-shape", "cdt", 0.5, 0.1},
                               {"cdt-weights", "cdt", 0.5, 0, 0, true}};
  std::set<std::string> digests;
  for (const Asked& asked : all) {
    SCOPED_TRACE(asked.name);
    run::Options options = in(asked.name);
    options.analysis = true;
    options.training.method = asked.method;
    options.training.learning_rate = asked.rate;
    options.training.shape = asked.shape;
    options.training.weight_decay = asked.decay;
    options.training.steps = 2;
    if (asked.weights) options.data.sample_weights = "area";
    const run::TrainedRun done = run::train(options, {});
    const control::Certificate& acted = done.result.controller;
    ASSERT_FALSE(acted.empty());
    const run::RunFolder folder(options.folder);
    const json record = json::parse(read_file(folder.path() / "run.json"));
    const json& examined = record["analysis"];
    EXPECT_EQ(examined["controller"]["digest"], acted.digest);
    EXPECT_EQ(record["result"]["controller"]["digest"], acted.digest);
    digests.insert(acted.digest);
    EXPECT_EQ(examined["radius_cdt"], examined["controller"]["radius"]["upper"]);
    EXPECT_EQ(examined["margin_cdt"], examined["controller"]["kernel_margin"]["lower"]);
    EXPECT_EQ(examined["riccati_residual"], examined["controller"]["residual"]);
    EXPECT_LT(examined["riccati_residual"].get<double>(), 1e-6);
    // The table of modes has the same radius, on what labels can move.
    std::istringstream lines(read_file(folder.spectrum()));
    std::string line;
    std::getline(lines, line);
    double radius = 0;
    int64_t rank = examined["rank"].get<int64_t>();
    while (rank-- > 0 && std::getline(lines, line)) {
      radius = std::max(radius, std::abs(std::stod(line.substr(line.rfind(',') + 1))));
    }
    EXPECT_NEAR(radius, examined["radius_cdt"].get<double>(), 1e-12);
    EXPECT_THAT(read_file(folder.report()), HasSubstr(acted.digest));
    EXPECT_THAT(record["analysis_text"].get<std::string>(), Not(HasSubstr(" nan")));
  }
  // A guarded step at a rate is that of cdt; the others are controllers of their own.
  EXPECT_EQ(digests.size(), all.size() - 1);
}

TEST_F(Run, TheFolderHoldsWhatWasDone) {
  std::vector<run::Phase> phases;
  int64_t rows = 0;
  run::Hooks hooks;
  hooks.on_phase = [&](run::Phase phase) { phases.push_back(phase); };
  hooks.on_problem = [&](const study::Problem& problem) { rows = problem.table.rows(); };
  const run::TrainedRun done = run::train(options_, hooks);
  EXPECT_EQ(rows, 60);
  EXPECT_THAT(phases,
              ElementsAre(run::Phase::kLoading, run::Phase::kTraining, run::Phase::kWriting));
  const run::RunFolder folder(options_.folder);
  const run::RunRecord record = folder.read_record();
  EXPECT_EQ(record.network.shape, "8-16-1");
  EXPECT_EQ(record.data.train, 42);
  EXPECT_EQ(record.data.checksum, checksum(read_file(options_.data.file)));
  EXPECT_EQ(record.result->steps, done.result.steps);
  EXPECT_EQ(record.result->train_loss, done.result.train_loss);
  EXPECT_EQ(record.result->outcome, done.result.outcome);
  EXPECT_EQ(record.in_words, done.result.in_words());
  EXPECT_EQ(folder.read_history().size(), done.result.history.size());
  EXPECT_EQ(folder.read_preprocess().feature_count(), 8);
  EXPECT_TRUE(fs::exists(folder.report()));
  const auto& error = std::get<study::NumberErrors>(record.errors->train.at(0).value);
  EXPECT_EQ(error.rmse, std::get<study::NumberErrors>(done.record.errors->train[0].value).rmse);
  // What it predicts again is what it wrote.
  const auto trained = run::load_trained(folder, torch::kCPU);
  const auto table = data::read_csv(options_.data.file, trained.preprocess.csv_options());
  const run::Predictions found = run::predict(trained, table);
  ASSERT_TRUE(found.errors);
  EXPECT_EQ(found.values.size(0), 60);
  EXPECT_THAT(run::to_csv(trained, found), testing::StartsWith("row,price\n1,"));
  EXPECT_TRUE(json::parse(run::to_json(*found.errors))["price"].contains("rmse"));
}

TEST_F(Run, EveryMethodFitsWithItsPreflight) {
  for (const train::Method& method : train::Method::all()) {
    SCOPED_TRACE(method.name());
    run::Options options = options_;
    options.folder = folder_ / ("by-" + method.name());
    options.analysis = true;
    options.training.method = method;
    options.training.learning_rate.reset();
    const run::TrainedRun done = run::train(options);
    EXPECT_FALSE(done.record.analysis.empty());
    EXPECT_GT(done.result.steps, 0);
    EXPECT_FALSE(done.result.diverged());
  }
}

TEST_F(Run, PredictsUnlessToldOtherwise) {
  // As `cdt train` does: small errors on new rows of a table.
  run::Options options = test::small_run(folder_, 40, 8);
  options.data.goal.reset();
  options.ensemble = 1;
  options.training.steps = 6;
  const run::TrainedRun done = run::train(options);
  EXPECT_EQ(value_of(done.record.settings, "goal"), (Values{"predict"}));
  ASSERT_TRUE(done.record.prediction);
  EXPECT_EQ(done.record.prediction->expected.size(), 1U);
  const auto table = data::read_csv(options.data.file);
  EXPECT_EQ(study::learn(table, options).record.prediction->expected.size(), 1U);
  options.data.goal = study::Goal::kFit;
  EXPECT_THAT([&] { study::learn(table, options); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the goal predict, got fit")));
  options.ensemble.reset();  // not of a fit
  options.overwrite = true;
  EXPECT_FALSE(run::train(options).record.prediction);
}

TEST_F(Run, RecordsSurviveToTheLastBit) {
  const run::TrainedRun done = run::train(options_);
  const std::string text = run::to_json(done.record);
  EXPECT_EQ(run::to_json(run::parse_record(text)), text);
  EXPECT_EQ(json::parse(bytes("run/run.json")), json::parse(text));
  run::RunRecord other = done.record;
  other.tuned = study::Tuning{0.1, 0.25, 7, 0.5};
  study::ClassErrors classes;
  classes.accuracy = 0.5;
  classes.cross_entropy = 1.5;
  classes.classes = {"a", "b", "c"};
  classes.confusion = {{1, 2, 0}, {3, 4, 0}, {0, 0, 0}};
  study::add_baselines(classes);
  other.errors->validation = {{"kind", classes}};
  other.analysis = R"({"n": 3})";
  other.analysis_text = "a page";
  const std::string rich = run::to_json(other);
  EXPECT_EQ(run::to_json(run::parse_record(rich)), rich);
  json shown = json::parse(rich)["errors"]["validation"]["kind"];
  EXPECT_EQ(shown["majority"], 0.7);
  EXPECT_TRUE(shown["recall"][2].is_null());
  // Earlier versions wrote none of these.
  json before = json::parse(rich);
  for (const char* name : {"majority", "balanced_accuracy", "recall"})
    before["errors"]["validation"]["kind"].erase(name);
  const auto again = run::parse_record(before.dump()).errors->validation.at(0).value;
  EXPECT_EQ(std::get<study::ClassErrors>(again).majority, 0.7);
  other.result.reset();
  EXPECT_TRUE(json::parse(run::to_json(other))["result"].is_null());
  EXPECT_FALSE(run::parse_record(run::to_json(other)).result);
}

TEST_F(Run, DamagedRecordsAreRefused) {
  const auto refuse = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { run::parse_record(text, "x/run.json"); },
                ThrowsMessage<InvalidArgument>(
                    testing::AllOf(HasSubstr("x/run.json"), HasSubstr(message))));
  };
  refuse("{", "is not JSON");
  refuse(R"({"format": "cdt-run-9"})", "expected the format \"cdt-run-1\"");
  refuse(R"({"format": "cdt-run-1"})", "settings: expected an object, got nothing");
  const auto damaged = [&](const std::string& fields, const std::string& message) {
    refuse(R"({"format": "cdt-run-1", "settings": {}, )" + fields + "}", "x/run.json: " + message);
  };
  damaged(R"("result": {"outcome": "steps", "steps": "x"})",
          "result.steps: expected a whole number, 0 or above, got \"x\"");
  damaged(R"("result": {"outcome": "elsewhere"})", "result.outcome: ");
  damaged(R"("seed": -1)", "seed: expected a whole number");
  damaged(R"("data": [1])", "data: expected an object, got [1]");
  damaged(R"("machine": {"threads": 1e10})", "machine.threads: expected a whole number");
  damaged(R"("errors": {"train": {"kind": {"accuracy": 1, "classes": ["a", "b"],
              "confusion": [[1, 2], [3]]}}})",
          "errors.train.kind.confusion[1]: expected a list of 2 whole numbers, got [3]");
  damaged(R"("analysis": )" + std::string(100'000, '['), "");
  refuse(R"({"format": "cdt-run-1", "settings": {"hidden": [1, 2]}})",
         "settings.hidden[0]: expected text, got 1");
  EXPECT_THAT([&] { run::RunFolder(folder_.path()).read_record(); },
              ThrowsMessage<InvalidArgument>(HasSubstr("it has no run.json")));
}

TEST_F(Run, SettingsOutOfRangeAreRefused) {
  const auto refused = [](const char* name, const std::string& value) {
    run::Options options;
    EXPECT_THAT(
        [&] {
          run::apply({{name, {value}}}, options);
        },
        ThrowsMessage<InvalidArgument>(HasSubstr(std::string(name) + ": expected a number")))
        << value;
  };
  refused("seed", "18446744073709551616");
  refused("seed", "-1");
  refused("threads", "4294967297");
  refused("steps", "9223372036854775808");
  refused("steps", "1e3");
  refused("memory", "9223372036854775807");
  refused("lr", "1e999");
  refused("lr", std::string("1\0 2", 4));
  run::Options options;
  run::apply({{"seed", {"18446744073709551615"}}, {"lr", {"1e-320"}}}, options);
  EXPECT_EQ(options.training.seed, ~uint64_t{0});
  EXPECT_EQ(options.training.learning_rate, 1e-320);
  EXPECT_THAT(
      [&] {
        run::apply({{"device", {"x"}}}, options);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("device: expected cpu, cuda or cuda:N")));
  EXPECT_THAT(
      [&] {
        run::apply({{"json", {"x"}}}, options);
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("there is no setting 'json'")));
}

TEST_F(Run, EverySettingGoesToTextAndBack) {
  run::Options options;
  options.data.file = "/data/a.csv";
  options.data.labels = "/data/y.npy";
  options.data.csv.drop = {"id", "name, first"};
  options.data.csv.types = {{"zip", data::ColumnType::kText}, {"age", data::ColumnType::kNumeric}};
  options.data.csv.missing_marks = {"none"};
  options.data.csv.header = false;
  options.data.csv.delimiter = '\t';
  options.data.csv.decimal = ',';
  options.data.csv.dates = data::parse_date_order("day-month");
  options.data.targets = {"price, net"};
  options.data.missing_target = study::MissingTarget::kDrop;
  options.data.test_fraction = 0.2;
  options.data.group = "customer";
  options.data.time = "sold";
  options.data.rows = 50;
  options.data.train_fraction = 0.1 + 0.2;
  options.data.train_rows = 20;
  options.data.encoding = data::Encoding::kOneHot;
  options.data.max_levels = 7;
  options.data.missing_number = data::MissingNumber::kMedian;
  options.data.unknown_category = data::UnknownCategory::kMissing;
  options.data.quantiles = 5;
  options.data.scaling = data::Scaling::kNone;
  options.data.clip = 2.5;
  options.data.target_scaling = data::Scaling::kStandard;
  options.data.target_transform = data::TargetTransform::kLog;
  options.data.keep = {"zip"};
  options.data.class_weights = {"a=2"};
  options.data.fit = study::Fit::kAll;
  options.data.sample_weights = "w";
  options.data.output_weights = {1, 2.5};
  options.data.pictures.size = 33;
  options.data.pictures.grey = true;
  options.data.pictures.skip_bad = true;
  options.data.pictures.cache = "kept";
  options.tf32 = true;
  study::NetworkOptions& network = options.network;
  network.choose("cnn");
  network.hidden = {8, 4};
  network.activation = nn::Activation::kTanh;
  network.parametrization = nn::Parametrization::kNtk;
  network.sigma_w = 1.5;
  network.sigma_b = 0.2;
  network.width_factor = 3;
  network.dtype = torch::kFloat64;
  train::TrainOptions& training = options.training;
  training.method = "cdt";
  training.loss = loss::sse();
  training.smoothing = 0.05;
  training.learning_rate = 1e-3;
  training.schedule = {train::Schedule::Kind::kStep, 0.3, 11};
  training.p = 0.4;
  training.q = 0.6;
  training.design = "damped";
  training.shape = 0.7;
  training.relinearize = train::parse_relinearization("every:5");
  training.curvature_products = 30;
  training.weight_decay = 1e-4;
  training.form = "sketch";
  training.batch = 9;
  training.reshuffle = true;
  training.steps = 77;
  training.stop_loss = 1e-9;
  training.patience = 3;
  training.plateau = 4;
  training.max_seconds = 5;
  training.validate_every = 6;
  training.linearization_error = true;
  training.memory_bytes = int64_t{64} << 20;
  training.checkpoint_seconds = 7;
  training.seed = 18446744073709551615U;
  options.tune = true;
  options.ensemble = 2;
  options.folds = 3;
  options.refit = false;
  options.intervals = false;
  options.importance = true;
  options.analysis = false;
  options.csv_safe = true;
  options.threads = 2;
  const run::Settings settings = run::decided_settings(options);
  EXPECT_EQ(settings.size(), run::all_settings().size() - 2) << "all but device and goal";
  run::Options again;
  run::apply(settings, again);
  for (const run::Setting& setting : run::all_settings()) {
    EXPECT_EQ(setting.get(again), setting.get(options)) << setting.name;
  }
  EXPECT_EQ(run::usual_settings(again).size(), 2U);
  EXPECT_THROW(run::apply({{"stepz", {"3"}}}, again), InvalidArgument);
  EXPECT_THROW(run::apply({{"steps", {"few"}}}, again), InvalidArgument);
  EXPECT_THROW(run::apply({{"steps", {"3", "4"}}}, again), InvalidArgument);
  EXPECT_THROW(run::find_setting("stepz"), InvalidArgument);
}

TEST_F(Run, TellsWhatWasDecidedFromDefaults) {
  run::Options options;
  options.data.file = "a.csv";
  options.training.q = 2;
  options.given = {"p"};
  EXPECT_TRUE(run::is_decided(options, "p"));
  EXPECT_TRUE(run::is_decided(options, "q"));
  EXPECT_FALSE(run::is_decided(options, "steps"));
  EXPECT_EQ(value_of(run::decided_settings(options), "p"), (Values{"0.1"}));
  const run::Settings usual = run::usual_settings(options);
  EXPECT_EQ(value_of(usual, "hidden"), (Values{"256,256"}));
  EXPECT_EQ(value_of(usual, "stop-loss"), (Values{"1e-06"}));
  EXPECT_FALSE(value_of(usual, "lr"));
  EXPECT_FALSE(value_of(usual, "batch"));
}

TEST_F(Run, TheGoalsChoicesAreDefaults) {
  run::Options options;
  options.data.goal = study::Goal::kPredict;
  options.data.clip = 5;
  options = study::resolved(options);  // as a run does first
  const run::Settings decided = run::decided_settings(options);
  EXPECT_EQ(value_of(decided, "goal"), (Values{"predict"}));
  EXPECT_EQ(value_of(decided, "clip"), (Values{"5"}));
  EXPECT_FALSE(value_of(decided, "categories"));
  const run::Settings usual = run::usual_settings(options);
  EXPECT_EQ(value_of(usual, "categories"), (Values{"onehot"}));
  EXPECT_EQ(value_of(usual, "train-fraction"), std::nullopt);  // of all rows
  EXPECT_EQ(value_of(usual, "fit"), (Values{"seen"}));
  EXPECT_EQ(value_of(usual, "quantiles"), (Values{std::to_string(study::kUsualQuantiles)}));
  EXPECT_EQ(value_of(usual, "target-transform"), (Values{"auto"}));
  // Repeated from what was decided alone, and resumed beside both.
  run::Options again;
  run::apply(decided, again);
  again = study::resolved(again);
  for (const run::Setting& setting : run::all_settings())
    EXPECT_EQ(setting.get(again), setting.get(options)) << setting.name;
  run::require_same_run(options, decided, usual, "run1");
  // A folder that knows no goal was a fit.
  run::require_same_run({}, {}, {{"categories", {"index"}}, {"train-fraction", {"0.7"}}}, "run1");
  EXPECT_THROW(run::require_same_run(options, {}, {{"categories", {"index"}}}, "run1"),
               InvalidArgument);
}

TEST_F(Run, SameRunsAreComparedInValues) {
  run::Options now;
  now.training.learning_rate = 0.1;
  now.network.hidden = {200, 200};
  now.training.schedule = {train::Schedule::Kind::kInverse, 0.05, 100};
  const auto same = [&](const run::Settings& saved, const run::Settings& usual = {}) {
    run::require_same_run(now, saved, usual, "run1");
  };
  const run::SettingValue decay{"decay", {"5e-2"}};
  // As old versions wrote them: the text of the command line, and a default schedule.
  same({{"lr", {"0.10"}}, {"hidden", {"200,200"}}, decay}, {{"schedule", {"constant"}}});
  same({{"lr", {"1e-1"}}, {"hidden", {"200", "200"}}, {"schedule", {"inverse"}}, decay});
  same({{"lr", {"0.1"}}, {"hidden", {"200,200"}}, decay}, {{"target-scale", {"minmax"}}});
  same({{"lr", {"0.1"}}, {"hidden", {"200,200"}}, decay, {"steps", {"5"}}, {"no-analysis", {}}});
  EXPECT_THAT(
      [&] {
        same({{"lr", {"0.2"}}, {"hidden", {"200,200"}}, decay});
      },
      ThrowsMessage<InvalidArgument>(
          HasSubstr("run1: was started with lr 0.2, and cannot be resumed with 0.1")));
  EXPECT_THAT(
      [&] {
        same({{"lr", {"0.1"}}, {"hidden", {"200,100"}}, decay});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("hidden 200,100")));
  EXPECT_THAT(
      [&] {
        same({{"lr", {"0.1"}}, {"hidden", {"200,200"}}, decay, {"reshuffle", {}}});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("reshuffle on")));
  // A default that was another then.
  EXPECT_THROW(same({{"lr", {"0.1"}}, {"hidden", {"200,200"}}, decay}, {{"q", {"3"}}}),
               InvalidArgument);
  // The length of a cosine says what, not only how long.
  now = {};
  now.training.schedule.kind = train::Schedule::Kind::kCosine;
  EXPECT_THROW(same({{"schedule", {"cosine"}}, {"steps", {"5"}}}), InvalidArgument);
}

TEST_F(Run, AStoppedRunGoesOnToTheSameBits) {
  run::Options whole = in("whole");
  run::train(whole);
  const auto stopped = run::train(options_, stopping_after(5));
  EXPECT_EQ(stopped.result.outcome, train::Outcome::kInterrupted);
  // Options from the record itself.
  run::Options again = run::options_of(run::RunFolder(options_.folder).read_record());
  again.folder = options_.folder;
  again.resume = true;
  run::train(again);
  EXPECT_EQ(bytes("run/model.safetensors"), bytes("whole/model.safetensors"));
  again.training.p = 0.5;
  EXPECT_THAT([&] { run::train(again); }, ThrowsMessage<InvalidArgument>(HasSubstr("with p 0.1")));
  EXPECT_THAT([&] { run::train(options_); },
              ThrowsMessage<InvalidArgument>(HasSubstr("holds a run already")));
  options_.overwrite = true;
  EXPECT_NO_THROW(run::train(options_));
  run::Options none = in("none");
  none.resume = true;
  EXPECT_THROW(run::train(none), InvalidArgument);
}

class Tuning : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    options_.network.hidden = {64};
    options_.network.dtype = torch::kFloat64;
    options_.training.method = "cdt";
    options_.training.steps = run::Options().training.steps;  // not decided
    options_.analysis = true;
    options_.tune = true;
  }
};

TEST_F(Tuning, TrainsAsTheForecastAdvises) {
  std::optional<analysis::Preflight> found;
  run::Hooks hooks;
  hooks.on_preflight = [&](const analysis::Preflight& preflight) { found = preflight; };
  const run::TrainedRun done = run::train(options_, hooks);
  ASSERT_TRUE(found);
  const study::Tuning advice = study::best_tuning(*found, "cdt");
  ASSERT_TRUE(advice.p);
  EXPECT_EQ(done.record.tuned->learning_rate, advice.learning_rate);
  EXPECT_EQ(done.decision.training.learning_rate, advice.learning_rate);
  EXPECT_EQ(done.decision.training.p, *advice.p);
  EXPECT_EQ(done.decision.training.steps, advice.steps);
  EXPECT_EQ(done.result.learning_rate, advice.learning_rate);
  EXPECT_EQ(run::RunFolder(options_.folder).read_record().tuned->steps, advice.steps);
  EXPECT_TRUE(fs::exists(folder_ / "run/spectrum.csv"));
  // Better than the same number of steps at rates that one might have guessed.
  for (const double factor : {0.01, 0.1}) {
    run::Options guess = in(fmt::format("guess{}", factor));
    guess.tune = false;
    guess.analysis = false;
    guess.training.learning_rate = factor * advice.learning_rate;
    guess.training.steps = advice.steps;
    EXPECT_LT(done.result.val_loss, run::train(guess).result.val_loss) << factor;
  }
}

TEST_F(Tuning, LeavesAloneWhatIsDecided) {
  options_.training.p = 3;
  options_.training.steps = 1000;
  options_.given = {"steps"};
  const run::TrainedRun done = run::train(options_, stopping_after(2));
  EXPECT_EQ(done.decision.training.p, 3);
  EXPECT_EQ(done.decision.training.steps, 1000);
  EXPECT_EQ(done.decision.training.learning_rate, done.record.tuned->learning_rate);
}

TEST_F(Tuning, AStoppedRunKeepsItsAdvice) {
  options_.training.method = "gd";  // takes many steps
  const run::TrainedRun whole = run::train(in("whole"));
  ASSERT_GT(whole.decision.training.steps, 3);
  run::train(options_, stopping_after(3));
  options_.resume = true;
  const run::TrainedRun again = run::train(options_);
  EXPECT_EQ(again.decision.training.learning_rate, whole.decision.training.learning_rate);
  EXPECT_EQ(again.result.steps, whole.result.steps);
  EXPECT_EQ(bytes("run/model.safetensors"), bytes("whole/model.safetensors"));
  EXPECT_EQ(again.record.analysis, whole.record.analysis);
}

/// Killed while it trains: run.json is that of the start.
TEST_F(Tuning, AKilledRunKeepsItsAdvice) {
  options_.training.method = "gd";
  const run::TrainedRun whole = run::train(in("whole"));
  std::string early;
  run::Hooks hooks = stopping_after(3);
  hooks.on_step = [&, count = hooks.on_step](const train::StepRecord& row, int64_t steps) {
    if (early.empty()) early = bytes("run/run.json");
    count(row, steps);
  };
  run::train(options_, hooks);
  write_file_atomically(folder_ / "run/run.json", {early});
  options_.resume = true;
  run::train(options_);
  EXPECT_EQ(bytes("run/model.safetensors"), bytes("whole/model.safetensors"));
  // Before its first checkpoint: it starts anew, analysis included.
  fs::remove(folder_ / "run/checkpoint.safetensors");
  const run::TrainedRun anew = run::train(options_);
  EXPECT_EQ(anew.record.tuned->learning_rate, whole.record.tuned->learning_rate);
  EXPECT_EQ(bytes("run/model.safetensors"), bytes("whole/model.safetensors"));
}

TEST_F(Tuning, SaysWhatItNeeds) {
  const auto refuse = [](const run::Options& options, const std::string& message) {
    EXPECT_THAT([&] { run::train(options); }, ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  run::Options bad = options_;
  bad.analysis = false;
  refuse(bad, "tune chooses by the analysis");
  bad = options_;
  bad.training.loss = loss::mae();
  bad.training.method = "adam";
  refuse(bad, "tune: the method adam does not read it");
  bad = options_;
  bad.training.batch = 7;
  refuse(bad, "tune needs the analysis of all samples at once");
  EXPECT_FALSE(fs::exists(options_.folder));
}

}  // namespace
}  // namespace cdt
