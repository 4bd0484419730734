// cdt train and cdt predict as a sceptical user runs them.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/program.h"

namespace cdt {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Row = std::vector<std::string>;
using Text = const std::string&;
constexpr int kRows = 40;

Row split(Text text, char mark) {
  Row parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  if (mark == ',' && text.back() == mark) parts.emplace_back();
  return parts;
}

/// Files without quotes. `change` gets each row and its number, 0 for the header.
std::string edited(Text csv, const std::function<void(Row&, int)>& change) {
  std::string text;
  int number = 0;
  for (Text line : split(csv, '\n')) {
    Row row = split(line, ',');
    change(row, number++);
    for (size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + row[i];
    text += "\n";
  }
  return text;
}

std::string with_cell(Text csv, int line, size_t column, Text cell) {  // header: 1
  return edited(csv, [&](Row& row, int i) { row[column] = i == line - 1 ? cell : row[column]; });
}

const auto without_rooms = [](Row& row, int) { row.erase(row.begin() + 1); };

std::string homes(int rows) {
  const Row kinds{"flat", "house", "hut"};
  std::ostringstream csv("area,rooms,kind,price\n", std::ios::ate);
  for (int i = 0; i < rows; ++i) {
    const int area = 50 + (i * 37) % 91;
    csv << area << "," << 1 + i % 5 << "," << kinds[i % 3] << ","
        << 1000 * area + 9000 * (i % 5) + 5000 * (i % 3) + 300 * (i * i % 17) << "\n";
  }
  return csv.str();
}

class Training : public test::Program {
 protected:
  void SetUp() override { write("homes.csv", homes(kRows)); }
  std::string saved(Text csv) { return write("other.csv", csv), "other.csv"; }
  double scale(Text run) const { return parse(run + "/preprocess.json")["targets"][0]["scale"]; }
  double train_loss(Text run) const { return parse(run + "/run.json")["result"]["train_loss"]; }
  std::map<std::string, std::string> files_in(Text run) const {
    std::map<std::string, std::string> files;
    for (const auto& file : fs::directory_iterator(folder_ / run)) {
      files[file.path().filename()] = slurp(run + "/" + file.path().filename().string());
    }
    return files;
  }
  Row history(Text run, size_t column) const {
    Row cells;
    edited(slurp(run + "/history.csv"), [&](Row& row, int) { cells.push_back(row.at(column)); });
    return {cells.begin() + 1, cells.end()};
  }
  Result train(Text flags, Text file = "homes.csv") {
    return cdt("train " + file + kTrain + flags);
  }
  Result predict(Text run, Text file) {
    return cdt("predict " + run + " " + file + " --out new.csv --threads 1");
  }
  void trained(Text options, Text file = "homes.csv") {
    const Result result = train(options, file);
    ASSERT_EQ(result.code, 0) << options << "\n" << result.err;
  }
  /// Exit code 2, nothing on stdout, a short message, and no folder.
  void expect_refused(const Result& result, Text message) {
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_LT(result.err.size(), 320u) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(exists("refused"));
  }
  void expect_refused(Text options, Text message, Text file = "homes.csv") {
    SCOPED_TRACE(file + " " + options);
    expect_refused(train("--out refused --overwrite " + options, file), message);
  }
  void expect_same_run(Text a, Text b) const {  // bit for bit, the clock aside
    for (size_t column = 0; column < 8; ++column) EXPECT_EQ(history(a, column), history(b, column));
    EXPECT_TRUE(slurp(a + "/model.safetensors") == slurp(b + "/model.safetensors"));
    EXPECT_TRUE(slurp(a + "/predictions.csv") == slurp(b + "/predictions.csv"));
  }
  static constexpr const char* kTrain = " --target price --threads 1 --no-analysis --hidden 16 ";
};

TEST_F(Training, TheRunFolderTellsTheWholeRun) {
  trained("--steps 12 --seed 5 --out run");
  const json run = parse("run/run.json");
  EXPECT_EQ(run["seed"], 5);
  EXPECT_EQ(run["network"]["shape"], "3-16-1");
  EXPECT_EQ(run["network"]["parameters"], 3 * 16 + 16 + 16 + 1);
  for (const char* key : {"version", "revision"}) EXPECT_NE(run[key].get<std::string>(), "");
  EXPECT_THAT(slurp("run/history.csv"),
              testing::StartsWith("step,lr,train_loss,val_loss,augment_norm,linearization_error,"
                                  "refreshed,rejected,seconds,objective,decay,freedom\n"));
  const Row losses = history("run", 2);
  ASSERT_EQ(losses.size(), run["result"]["steps"].get<size_t>() + 1);
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_LE(std::stod(losses[i]), std::stod(losses[i - 1])) << "step " << i;
  }
  EXPECT_EQ(train_loss("run"), std::stod(losses.back()));
}

TEST_F(Training, PredictRepeatsTheRunInUnitsOfTheFile) {
  trained("--steps 8 --out run");
  ASSERT_EQ(predict("run", "homes.csv").code, 0);
  const Row file = split(slurp("homes.csv"), '\n'), repeated = split(slurp("new.csv"), '\n');
  std::map<std::string, double> squares;
  edited(slurp("run/predictions.csv"), [&](Row& row, int i) {
    if (i == 0) return;
    const size_t number = std::stoul(row[0]);
    EXPECT_EQ(repeated.at(number), row[0] + "," + row[3]);
    EXPECT_NEAR(std::stod(row[2]), std::stod(split(file.at(number), ',')[3]), 1e-6);
    squares[row[1]] += std::pow((std::stod(row[3]) - std::stod(row[2])) / scale("run"), 2);
  });
  EXPECT_NEAR(squares["train"] / 28 / train_loss("run"), 1, 1e-5);
  const double val_loss = parse("run/run.json")["result"]["val_loss"];
  EXPECT_NEAR(squares["validation"] / 12 / val_loss, 1, 1e-5);
}

TEST_F(Training, PredictFindsColumnsByName) {
  trained("--steps 5 --out run");
  ASSERT_EQ(predict("run", "homes.csv").code, 0);
  const std::string expected = slurp("new.csv");
  const auto shuffle = [](Row& row, int) { row = {row[2], "colour", row[1], row[0]}; };
  ASSERT_EQ(predict("run", saved(edited(slurp("homes.csv"), shuffle))).code, 0);
  EXPECT_EQ(slurp("new.csv"), expected);
}

TEST_F(Training, PredictSaysWhatIsWrongWithNewData) {
  trained("--steps 5 --out run");
  const std::string csv = slurp("homes.csv");
  expect_refused(predict("run", saved(with_cell(csv, 4, 2, "castle"))),
                 "other.csv:4: expected a known category in column \"kind\", but came \"castle\"");
  expect_refused(predict("run", saved(with_cell(csv, 5, 0, "large"))),
                 "other.csv:5: expected a number in column \"area\", but came \"large\"");
  expect_refused(predict("run", saved(edited(csv, without_rooms))), "\"rooms\"");
  expect_refused(predict("run", saved(with_cell(csv, 3, 0, "1e300"))), "other.csv");  // overflows
  EXPECT_FALSE(exists("new.csv"));
}

TEST_F(Training, UnknownCategoriesCanCountAsMissing) {
  trained("--steps 5 --unknown missing --categories onehot --out run");
  EXPECT_EQ(parse("run/run.json")["network"]["shape"], "5-16-1");
  ASSERT_EQ(predict("run", saved(with_cell(slurp("homes.csv"), 4, 2, "castle"))).code, 0);
  const std::string castle = slurp("new.csv");
  ASSERT_EQ(predict("run", saved(with_cell(slurp("homes.csv"), 4, 2, ""))).code, 0);
  EXPECT_EQ(slurp("new.csv"), castle);
}

TEST_F(Training, RefusesTargetsThatCannotBeLearned) {
  const std::string csv = slurp("homes.csv");
  const auto constant = [](Row& row, int i) { row[3] = i == 0 ? "price" : "7"; };
  expect_refused("", "to vary", saved(edited(csv, constant)));
  expect_refused("", "line 6", saved(with_cell(csv, 6, 3, "")));
  expect_refused("", "other.csv:6", saved(with_cell(csv, 6, 3, "inf")));
  const std::string huge = with_cell(with_cell(csv, 6, 3, "1e308"), 7, 3, "-1e308");
  expect_refused("--train-fraction 1", "\"price\"", saved(huge));
  expect_refused("--target cost", "\"cost\"");
}

TEST_F(Training, RefusesWhatMakesNoSense) {
  expect_refused("", "other.csv", saved(""));
  expect_refused("--rows 41", "the file has 40");
  expect_refused("--patience 3 --train-fraction 1", "patience");
  expect_refused("--hidden 0", "--hidden");
  expect_refused("--seed -1 --steps 1", "--seed");
  expect_refused("--lr nan --steps 1", "--lr");
}

TEST_F(Training, NeitherStepsNorValidationAreNeeded) {
  trained("--steps 0 --train-fraction 1 --out run");
  EXPECT_EQ(history("run", 0), Row{"0"});
  EXPECT_EQ(history("run", 3), Row{""});
}

TEST_F(Training, MoreColumnsThanRowsTrain) {
  const auto widen = [](Row& row, int i) {
    for (int c = 3; c < 33; ++c) row.push_back((i ? "" : "c") + std::to_string(c * i % 7 + c));
  };
  trained("--rows 20 --out run", saved(edited(slurp("homes.csv"), widen)));
  EXPECT_LE(train_loss("run"), 1e-6);
}

TEST_F(Training, NamesDuplicatesThatContradictEachOtherAndLearnsTheirMean) {
  const std::string file = saved(slurp("homes.csv") + "50,1,flat,1\n");  // line 2, other price
  const Result result = train("--train-fraction 1 --hidden 64 --activation tanh --out run", file);
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("warning: other.csv: lines 2, 42"));
  const double floor = 2 * std::pow((50000 - 1) / 2.0 / scale("run"), 2) / (kRows + 1);
  EXPECT_NEAR(train_loss("run") / floor, 1, 0.01);
}

TEST_F(Training, OutputWeightsSayWhichTargetMatters) {
  const std::string common = "--target area --method cdt --steps 30 --lr 0.1 --output-weights ";
  trained(common + "100,1 --out a");
  trained(common + "1,100 --out b");
  const json a = parse("a/run.json")["errors"]["train"], b = parse("b/run.json")["errors"]["train"];
  EXPECT_LT(a["price"]["rmse"], b["price"]["rmse"]);
  EXPECT_LT(b["area"]["rmse"], a["area"]["rmse"]);
  expect_refused(common + "1", "expected one weight a target, 2");
}

TEST_F(Training, SampleWeightsAreNoFeature) {
  trained("--sample-weights rooms --steps 8 --out run");
  trained("--drop rooms --steps 8 --out plain");
  EXPECT_EQ(parse("run/run.json")["data"]["features"], 2);
  EXPECT_NE(train_loss("run"), train_loss("plain"));
  EXPECT_EQ(predict("run", saved(edited(slurp("homes.csv"), without_rooms))).code, 0);
  saved(with_cell(slurp("homes.csv"), 7, 1, "0"));
  expect_refused("--sample-weights rooms --train-fraction 1", "line 7", "other.csv");
}

TEST_F(Training, FitsTheScalingWhereTold) {
  trained("--fit train --steps 1 --train-fraction 0.2 --out train");
  trained("--fit all --steps 1 --train-fraction 0.2 --out all");
  std::set<double> train, all;
  edited(slurp("all/predictions.csv"), [&](Row& row, int i) {
    if (i > 0) all.insert(std::stod(row[2]));
    if (row[1] == "train") train.insert(std::stod(row[2]));
  });
  EXPECT_NEAR(scale("train"), *train.rbegin() - *train.begin(), 1e-6);
  EXPECT_NEAR(scale("all"), *all.rbegin() - *all.begin(), 1e-6);
}

TEST_F(Training, TheSeedDecidesEverything) {
  const std::string common = "--rows 30 --steps 6 --batch 9 --out ";
  trained(common + "a --seed 3");
  trained(common + "b --seed 3");
  trained(common + "c --seed 4");
  expect_same_run("a", "b");
  EXPECT_NE(slurp("a/model.safetensors"), slurp("c/model.safetensors"));
}

TEST_F(Training, ConfigFilesMeanWhatTheySayAndFlagsWin) {
  for (const std::string harmless :
       {"", "no-header = false", "drop = []", "[train]\nbatch = 8", "[data]\nrows = 3"}) {
    write("c.toml",
          "target = 'price'\nthreads = 1\nsteps = 7\nhidden = [8, 4]\nbatch = 9\n"
          "train_fraction = 0.5\n" +
              harmless);
    const Result result = cdt("train homes.csv --config c.toml --steps 2 --overwrite --out r");
    ASSERT_EQ(result.code, 0) << harmless << "\n" << result.err;
    EXPECT_EQ(parse("r/run.json")["result"]["steps"], 2);
    EXPECT_EQ(parse("r/run.json")["network"]["shape"], "3-8-4-1");
    EXPECT_EQ(parse("r/run.json")["data"]["train"], 20);
  }
}

TEST_F(Training, SaysWhatIsWrongInAConfigFile) {
  for (const Row& bad :
       {Row{"stepz = 3", "stepz"}, Row{"rows = 9\nlr = [1", "c.toml, line 2"},
        Row{"batch = 'few'", "batch"}, Row{"batch = false", "batch"}, Row{"lr = 1979-05-27", "lr"},
        Row{"rows = 9\nl\u00e9r = 1", "c.toml, line 2"}, Row{"reshuffle = 'no'", "reshuffle"}}) {
    write("c.toml", bad[0]);
    expect_refused("--config c.toml --steps 2", bad[1]);
  }
}

class Resuming : public Training, public testing::WithParamInterface<const char*> {};

TEST_P(Resuming, EqualsAnUninterruptedRun) {
  const std::string common = std::string("--stop-loss 0 --method ") + GetParam();
  trained(common + " --steps 40 --out whole");
  trained(common + " --steps 20 --out run");
  ASSERT_EQ(cdt("train --resume run --steps 40").code, 0);
  expect_same_run("whole", "run");
}

INSTANTIATE_TEST_SUITE_P(Methods, Resuming,
                         testing::Values("gd", "cdt", "guarded", "guarded --rows 10",
                                         "guarded --lr 0.5 --dtype float64", "adam", "momentum",
                                         "lbfgs", "guarded --batch 9 --reshuffle"));

TEST_F(Training, LbfgsMayBeShort) { trained("--method lbfgs --steps 2 --out run"); }

TEST_F(Training, ResumesOnlyTheSameRun) {
  trained("--method gd --lr 0.1 --steps 3 --out run");
  const auto before = files_in("run");
  expect_refused(cdt("train --resume run --lr 0.2"), "started with lr 0.1");
  write("homes.csv", homes(kRows + 1));
  expect_refused(cdt("train --resume run --steps 9"), "homes.csv");
  EXPECT_EQ(files_in("run"), before);
  write("homes.csv", homes(kRows));
  EXPECT_EQ(cdt("train --out run --resume --steps 9").code, 0);
  EXPECT_EQ(cdt("train --resume run --lr 0.10 --seed 1 --hidden 16 --target price").code, 0)
      << "the same, said otherwise";
}

// A pipe has its bytes once: they are read, checked and learned in one pass.
TEST_F(Training, DataMayComeFromAPipe) {
  const std::string options = std::string(kTrain) + "--method gd --lr 0.1 --stop-loss 0 --out ";
  trained("--method gd --lr 0.1 --stop-loss 0 --out whole --steps 9");
  ASSERT_EQ(
      shell("cat homes.csv | " CDT_PROGRAM " train /dev/stdin" + options + "run --steps 3").code,
      0);
  EXPECT_EQ(parse("run/run.json")["data"]["checksum"], parse("whole/run.json")["data"]["checksum"]);
  const std::string resume = "fifo --resume run --steps 9";
  write("other.csv", homes(kRows + 1));
  ASSERT_EQ(shell("mkfifo fifo").code, 0);
  expect_refused(shell("cat other.csv >fifo & " CDT_PROGRAM " train " + resume), "has changed");
  ASSERT_EQ(shell("cat homes.csv >fifo & " CDT_PROGRAM " train " + resume).code, 0);
  expect_same_run("whole", "run");
}

TEST_F(Training, AFolderDoesNotChooseWhatIsWritten) {
  trained("--method gd --lr 0.1 --steps 3 --out run");
  const json whole = parse("run/run.json");
  write("victim", "precious");
  const auto resumed = [&](const std::string& name, const json& value) {
    json run = whole;
    run["settings"][name] = value;
    write("run/run.json", run.dump());
    const Result result = cdt("train --resume run --steps 9");
    EXPECT_EQ(slurp("victim"), "precious") << name;
    EXPECT_FALSE(exists("elsewhere")) << name;
    return result;
  };
  for (const char* name : {"json", "out", "config", "resume", "help"}) {
    expect_refused(resumed(name, name == std::string("json") ? "victim" : "elsewhere"),
                   std::string("run/run.json: settings.") + name + ": there is no such setting");
  }
  for (const char* name : {"overwrite", "quiet"}) {
    expect_refused(resumed(name, true), std::string("settings.") + name + ": there is no such");
  }
  // A value that looks like a flag is still a value.
  expect_refused(resumed("file", "--json=victim"), "--json=victim");
  expect_refused(resumed("lr", "0.1 --json=victim"), "lr");
  expect_refused(resumed("steps", {{"a", 1}}), "run/run.json: settings.steps: expected a setting");
  write("c.toml", "file = '--json=victim'\ntarget = 'price'\n");
  expect_refused(cdt("train --config c.toml --out elsewhere"), "--json=victim");
  EXPECT_EQ(slurp("victim"), "precious");
}

TEST_F(Training, NamesThatAreNotUtf8) {
  const std::string odd = "h\xff.csv";
  write(odd, homes(kRows));
  expect_refused("--steps 2", "run.json: settings.file: expected UTF-8 text, but came", odd);
  // What is not read again shows them as well as JSON can.
  trained("--steps 2 --out run");
  const std::string shown = "h\xEF\xBF\xBD.csv";
  for (Text command : {"data describe " + odd + " --target price --json -",
                       "predict run " + odd + " --out p.csv --json p.json && cat p.json"}) {
    const Result result = cdt(command);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(shown)) << command;
  }
  fs::rename(folder_ / "run", folder_ / "run\xff");
  EXPECT_EQ(cdt("report run\xff --json report.json").code, 0);
  EXPECT_EQ(cdt("data make made\xff.csv --rows 20 --json made.json").code, 0);
  EXPECT_EQ(cdt("compare " + odd +
                " --target price --archs 4 --lrs 0.1 --methods gd --seeds 1 "
                "--steps 2 --out cmp\xff --json cmp.json")
                .code,
            0);
  EXPECT_THAT(slurp("cmp.json"), HasSubstr(shown));
}

TEST_F(Training, TunesByTheForecastWhatIsNotGiven) {
  const std::string common =
      "train homes.csv --target price --threads 1 --hidden 32 --dtype float64 --method cdt ";
  const Result result = cdt(common + "--tune --p 0.2 --out tuned");
  ASSERT_EQ(result.code, 0) << result.err;
  const json run = parse("tuned/run.json");
  const json forecast = run["analysis"]["forecast"];
  EXPECT_EQ(run["tuned"]["lr"], forecast["best_lr"]);
  EXPECT_EQ(run["tuned"]["steps"], forecast["best_step"]);
  EXPECT_EQ(run["result"]["lr"], run["tuned"]["lr"]);
  EXPECT_EQ(run["result"]["steps"], run["tuned"]["steps"]);
  EXPECT_EQ(run["settings"]["p"], "0.2");
  EXPECT_THAT(result.out, HasSubstr("forecast"));
  ASSERT_EQ(cdt("train --resume tuned").code, 0) << "done already";
  EXPECT_EQ(parse("tuned/run.json")["tuned"], run["tuned"]);
}

class Interrupting : public Training, public testing::WithParamInterface<const char*> {};

TEST_P(Interrupting, LosesNothing) {
  const std::string common = "--method gd --lr 1e-4 --stop-loss 0 --out ";
  const Result result =
      shell("env --default-signal=HUP " CDT_PROGRAM " train homes.csv" + (kTrain + common) +
            "run --steps 100000000 --max-seconds 30 --checkpoint-seconds 0.2 & pid=$!; until [ -e "
            "run/checkpoint.safetensors ] || ! kill -0 $pid; do sleep 0.02; done; kill -" +
            GetParam() + " $pid; wait $pid");
  EXPECT_EQ(result.code, 130) << result.err;
  const std::string steps = std::to_string(parse("run/run.json")["result"]["steps"].get<int>() + 5);
  ASSERT_EQ(cdt("train --resume run --steps " + steps).code, 0);
  trained(common + "whole --steps " + steps);
  expect_same_run("whole", "run");
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupting, testing::Values("INT", "TERM", "HUP"));

TEST_F(Training, KeepsWhatIsThereUnlessTold) {
  trained("--steps 2 --out run");
  const auto before = files_in("run");
  expect_refused(train("--out run"), "--overwrite");
  expect_refused(train("--out run --overwrite --target cost"), "cost");
  expect_refused(train("--out homes.csv --overwrite"), "homes.csv");
  expect_refused(train("--out homes.csv/run"), "homes.csv/run");  // root too may not write there
  EXPECT_EQ(slurp("homes.csv"), homes(kRows));
  EXPECT_EQ(files_in("run"), before);
  trained("--steps 3 --out run --overwrite");
  EXPECT_EQ(history("run", 0).size(), 4u);
}

TEST_F(Training, AFullDiskLeavesNoHalfFiles) {
  for (const std::string blocks : {"1", "12"}) {  // too few for run.json; for the model
    const Result result =
        shell("ulimit -f " + blocks +
              "; " CDT_PROGRAM " train homes.csv --hidden 64,64 --out run --overwrite" + kTrain);
    EXPECT_EQ(result.code, 1) << "the machine's fault, not the caller's";
    EXPECT_THAT(result.err, HasSubstr("cannot write run/"));
    EXPECT_EQ(exists("run"), blocks == "12") << "nothing to show, no folder";
    if (!exists("run")) continue;
    for (const auto& file : files_in("run")) EXPECT_FALSE(file.first.starts_with(".cdt-"));
    EXPECT_FALSE(exists("run/model.safetensors"));
  }
  ASSERT_EQ(cdt("train --resume run").code, 0) << "with room again";
  EXPECT_TRUE(exists("run/model.safetensors"));
}

TEST_F(Training, NothingIsWrittenOverWhatARunKeeps) {
  trained("--steps 2 --out run");
  const auto before = files_in("run");
  for (const std::string name : {"run.json", "model.safetensors", "preprocess.json", "history.csv",
                                 "predictions.csv", "checkpoint.safetensors"}) {
    SCOPED_TRACE(name);
    const std::string message = "run/" + name + " belongs to the run or the sweep in ";
    expect_wrong_usage("predict run homes.csv --out run/" + name, message);
    expect_wrong_usage("predict run homes.csv --out p.csv --json run/" + name, message);
    expect_wrong_usage("report run --out run/" + name, message);
    expect_wrong_usage("data describe homes.csv --json run/../run/" + name, message);
  }
  fs::create_symlink("run/model.safetensors", folder_ / "link");
  expect_wrong_usage("predict run homes.csv --out link", "belongs to the run");
  EXPECT_EQ(files_in("run"), before);
  // A folder that is to hold a run, and its own data.
  expect_wrong_usage("train homes.csv --target price --out . --json history.csv", "belongs to");
  write("predictions.csv", homes(kRows));
  expect_wrong_usage("train predictions.csv --target price --out .", "is predictions.csv of");
  EXPECT_EQ(slurp("predictions.csv"), homes(kRows));
  EXPECT_FALSE(exists("run.json"));
  // What is nobody's is written.
  EXPECT_EQ(cdt("predict run homes.csv --out run/new.csv").code, 0);
  EXPECT_EQ(cdt("report run --out run/report.html").code, 0);
}

TEST_F(Training, AFolderBelongsToOneProcess) {
  const Result result = shell(
      CDT_PROGRAM " train homes.csv" + std::string(kTrain) +
      "--out run --method gd --lr 1e-4 --stop-loss 0 --steps 100000000 --max-seconds 30 "
      "--checkpoint-seconds 0.1 >first.txt 2>&1 & pid=$!; until [ -e "
      "run/checkpoint.safetensors ] || ! kill -0 $pid; do sleep 0.02; done; echo $pid "
      ">pid; " CDT_PROGRAM " train --resume run; code=$?; kill -INT $pid; wait $pid; exit $code");
  EXPECT_EQ(result.code, 2);
  const std::string pid = slurp("pid").substr(0, slurp("pid").size() - 1);
  EXPECT_THAT(result.err, testing::StartsWith("cdt: run: is in use by process " + pid + " on "));
  EXPECT_EQ(parse("run/run.json")["result"]["outcome"], "interrupted");
}

TEST_F(Training, FoldersThatCannotBeAreRefusedInPlainWords) {
  const std::string endless(300, 'n');
  for (const std::string flag : {"--out ", "--resume "}) {
    const Result result = cdt("train homes.csv --target price " + flag + endless);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, testing::AllOf(testing::StartsWith("cdt: cannot look at nnn"),
                                           testing::EndsWith("/run.json: File name too long\n")));
  }
  EXPECT_EQ(cdt("report " + endless).code, 2);
}

TEST_F(Training, AClosedPipeDoesNotEndARun) {
  const Result result = shell("(" CDT_PROGRAM " train homes.csv" + std::string(kTrain) +
                              "--steps 5 --out run; echo $? >code) | true");
  EXPECT_EQ(slurp("code"), "1\n");
  EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
  EXPECT_TRUE(exists("run/model.safetensors"));
  EXPECT_FALSE(parse("run/run.json")["result"].is_null());
}

TEST_F(Training, VerifyTellsWhatIsDamaged) {
  trained("--steps 2 --out run");
  Result result = cdt("verify run --json v.json");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::StartsWith("run: a run, intact\n"));
  EXPECT_TRUE(parse("v.json")["intact"]);
  EXPECT_EQ(parse("v.json")["version"], parse("run/run.json")["version"]);
  // A folder's name may be any bytes.
  EXPECT_EQ(
      shell("n=$(printf 'r\\377'); cp -r run $n && " CDT_PROGRAM " verify $n --json v.json").code,
      0)
      << slurp("err.txt");
  std::string bytes = slurp("run/model.safetensors");
  bytes[bytes.size() - 5] ^= 1;
  write("run/model.safetensors", bytes);
  fs::remove(folder_ / "run/history.csv");
  result = cdt("verify run --json v.json");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("NOT INTACT"));
  std::map<std::string, std::string> states;
  const json found = parse("v.json");  // a temporary would be gone before the loop begins
  for (const json& each : found["files"]) states[each["file"]] = each["state"];
  EXPECT_EQ(states["model.safetensors"], "damaged");
  EXPECT_EQ(states["history.csv"], "missing");
  EXPECT_EQ(states["preprocess.json"], "intact");
  EXPECT_EQ(predict("run", "homes.csv").code, 2);
  expect_wrong_usage("verify .", "has neither run.json nor sweep.json");
}

TEST_F(Training, WaitsForNobodyWhoWritesToAPipe) {
  trained("--steps 2 --out run");
  for (const Row& each : {Row{"run.json", "predict run homes.csv --out new.csv"},
                          Row{"run.json", "train --resume run --steps 9"},
                          Row{"preprocess.json", "predict run homes.csv --out new.csv"},
                          Row{"model.safetensors", "predict run homes.csv --out new.csv"},
                          Row{"checkpoint.safetensors", "train --resume run --steps 9"},
                          Row{"history.csv", "report run --out report.html"}}) {
    const std::string file = "run/" + each[0];
    fs::rename(folder_ / file, folder_ / "aside");
    ASSERT_EQ(shell("mkfifo " + file).code, 0);
    expect_refused(shell("timeout 60 " CDT_PROGRAM " " + each[1]),
                   file + ": expected a regular file, but it is a pipe");
    EXPECT_EQ(shell("timeout 60 " CDT_PROGRAM " verify run").code, 1) << file;
    fs::rename(folder_ / "aside", folder_ / file);
  }
  EXPECT_EQ(cdt("verify run").code, 0);
}

TEST_F(Training, ARunThatDivergedHasNoModel) {
  const std::string common = "--method gd --lr 1e6 --out run --steps ";
  const Result result = train(common + "50");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out + result.err, HasSubstr("DIVERGED"));
  EXPECT_FALSE(exists("run/model.safetensors"));
  EXPECT_TRUE(exists("run/history.csv"));
  trained(common + "1 --overwrite");
  const auto before = files_in("run");
  const Result went_on = cdt("train --resume run --steps 50");
  EXPECT_EQ(went_on.code, 1);
  EXPECT_THAT(went_on.err, HasSubstr("run keeps the model and the results that it had"));
  EXPECT_EQ(files_in("run"), before);
}

TEST_F(Training, JsonAndQuietKeepStdoutClean) {
  const Result result = cdt("train homes.csv --target price --hidden 8 --steps 3 --json -");
  EXPECT_EQ(json::parse(result.out), parse("run1/run.json"));  // the folder without --out
  EXPECT_EQ(train("--quiet --steps 3").out, "");
}

TEST_F(Training, PredictRefusesDamagedRuns) {
  expect_refused(predict(".", "homes.csv"), "run");
  trained("--steps 2 --out run");
  for (const std::string name : {"run/model.safetensors", "run/preprocess.json"}) {
    const std::string good = slurp(name);
    write(name, good.substr(0, good.size() / 2));
    expect_refused(predict("run", "homes.csv"), name);
    write(name, good);
  }
}

}  // namespace
}  // namespace cdt
