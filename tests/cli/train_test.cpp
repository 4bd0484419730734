// cdt train and cdt predict as a sceptical user runs them.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/training.h"

namespace cdt {
namespace {

using nlohmann::json;
using test::edited;
using test::homes;
using test::split;
using test::Training;
using test::with_cell;
using test::without_rooms;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Row = test::Row;
using Text = test::Text;

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
                 "other.csv:4: expected a known category in column \"kind\", got \"castle\"");
  expect_refused(predict("run", saved(with_cell(csv, 5, 0, "large"))),
                 "other.csv:5: expected a number in column \"area\", got \"large\"");
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
          "target = 'price'\ngoal = 'fit'\nthreads = 1\nsteps = 7\nhidden = [8, 4]\nbatch = 9\n"
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
        Row{"batch = 'few'", "batch"}, Row{"batch = false", "batch"},
        Row{"lr = 1979-05-27", "line 1: expected text, a number"},
        Row{"rows = 9\nl\u00e9r = 1", "c.toml, line 2"},
        Row{"target = \"\"\"a\\\n\u00e9\"\"\"", "c.toml, line 2"},
        Row{"rows = 9\"x\"", "line 1: expected a blank or a separator before quotes"},
        Row{"rows = 9[1]", "line 1: expected a blank or a separator before a bracket"},
        Row{"rows = 9=1", "line 1: expected one = to a value"},
        Row{"reshuffle = 'no'", "reshuffle"}}) {
    write("c.toml", bad[0]);
    expect_refused("--config c.toml --steps 2", bad[1]);
  }
}

TEST_F(Training, LbfgsMayBeShort) { trained("--method lbfgs --steps 2 --out run"); }

TEST_F(Training, NamesThatAreNotUtf8) {
  const std::string odd = "h\xff.csv";
  write(odd, homes(kRows));
  expect_refused("--steps 2", "run.json: settings.file: expected UTF-8 text, got", odd);
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
      "train homes.csv --target price --goal fit --threads 1 --hidden 32 --dtype float64 --method "
      "cdt ";
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

/// Where one kernel of all rows takes longer, unless somebody has asked for something else.
TEST_F(Training, ManyRowsAreLearnedByBatches) {
  write("many.csv", homes(5200));
  const std::string command =
      "train many.csv --target price --hidden 64,64 --ensemble 1 --threads 1 --out ";
  const Result result = cdt(command + "many --steps 1");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("5200 rows: it learns by batches of 500"));
  const json run = parse("many/run.json");
  EXPECT_EQ(run["result"]["form"]["name"], "batch");
  EXPECT_EQ(run["defaults"]["patience"], "3") << run["defaults"];
  ASSERT_EQ(cdt("train --resume many --steps 2").code, 0) << slurp("err.txt");
  EXPECT_EQ(parse("many/run.json")["result"]["form"]["name"], "batch");
  ASSERT_EQ(cdt(command + "few --rows 700 --steps 1").code, 0) << slurp("err.txt");
  EXPECT_EQ(parse("few/run.json")["result"]["form"]["name"], "dual");
  ASSERT_EQ(cdt(command + "sketch --form sketch --steps 1").code, 0) << slurp("err.txt");
  EXPECT_EQ(parse("sketch/run.json")["result"]["form"]["name"], "sketch");
}

TEST_F(Training, JsonAndQuietKeepStdoutClean) {
  const Result result = cdt("train homes.csv --target price --hidden 8 --steps 3 --json -");
  EXPECT_EQ(json::parse(result.out), parse("run1/run.json"));  // the folder without --out
  EXPECT_EQ(train("--quiet --steps 3").out, "");
}

TEST_F(Training, TheFormIsTakenAndRecorded) {
  const auto form = [&](Text run) { return parse(run + "/run.json")["result"]["form"]; };
  const Row names{"dual", "primal", "free", "sketch", "batch"};
  for (Text name : names) {
    SCOPED_TRACE(name);
    const std::string flags = " --target price --hidden 4 --threads 1 --form " + name;
    const Result fit = cdt("train homes.csv --goal fit --steps 3 --out fit-" + name + flags);
    EXPECT_EQ(fit.code, 0) << fit.err;
    EXPECT_EQ(form("fit-" + name)["name"], name);
    EXPECT_THAT(form("fit-" + name)["why"].get<std::string>(),
                HasSubstr(name == "batch" ? "one after another" : "asked for"));
    EXPECT_EQ(parse("fit-" + name + "/run.json")["settings"]["form"], name);
    const Result path = cdt("train homes.csv --ensemble 1 --steps 3 --out path-" + name + flags);
    EXPECT_EQ(path.code, 0) << path.err;
    EXPECT_EQ(form("path-" + name)["name"], name);
    EXPECT_EQ(cdt("train --resume fit-" + name + " --steps 4").code, 0) << slurp("err.txt");
  }
  EXPECT_EQ(cdt("train homes.csv --target price --hidden 4 --steps 2 --out auto --threads 1").code,
            0);
  EXPECT_EQ(form("auto")["name"], "dual");
  EXPECT_NE(form("auto")["why"], "asked for");
  // Batches are of both goals where they are the form.
  const std::string batches = "train homes.csv --target price --hidden 4 --threads 1 --batch 30";
  EXPECT_EQ(cdt(batches + " --form batch --ensemble 1 --steps 2 --out small").code, 0);
  EXPECT_EQ(form("small")["why"], "kernels of 30 rows, one after another");
  EXPECT_EQ(parse("small/run.json")["settings"].value("goal", "predict"), "predict");
  EXPECT_EQ(cdt("train --resume small --steps 3").code, 0) << slurp("err.txt");
  expect_wrong_usage(batches + " --goal predict --out no",
                     "batch: it would do nothing here: it needs --form batch");
  // Other forms take their steps from all rows, also where a kernel of them does not fit.
  ASSERT_EQ(cdt("data make many.csv --rows 400").code, 0);
  const std::string fit =
      "train many.csv --target price --goal fit --hidden 4 --memory 1 --steps 2";
  EXPECT_THAT(cdt(fit + " --out by-batches").err, HasSubstr("training by batches"));
  const std::string words = cdt(fit + " --form free --out by-form").err;
  EXPECT_THAT(words, HasSubstr("form free: each step is taken from all 280 rows"));
  EXPECT_THAT(words, Not(HasSubstr("training by batches")));
  expect_wrong_usage("train homes.csv --target price --form cube --out no", "--form");
  expect_wrong_usage("train --resume fit-free --form primal --steps 5",
                     "was started with form free, and cannot be resumed with primal");
  expect_wrong_usage(
      "train homes.csv --target price --form primal --hidden 400,400 --memory 1 --out no",
      "form primal needs");
}

}  // namespace
}  // namespace cdt
