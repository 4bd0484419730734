// cdt reproduce and cdt compare end to end, on a small table.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/program.h"

namespace cdt {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kExperiment = R"(
title = "A small experiment"
[settings]
target = { value = "price", source = "paper" }
drop = { value = [], source = "ours" }
rows = { value = 60, source = "paper" }
train-rows = { value = 40, source = "paper" }
categories = { value = "index", source = "ours" }
missing-numbers = { value = "zero", source = "ours" }
scale = { value = "minmax", source = "ours" }
target-scale = { value = "minmax", source = "ours" }
fit = { value = "all", source = "ours", note = "over the whole file" }
activation = { value = "relu", source = "paper" }
parametrization = { value = "standard", source = "ours" }
sigma-w = { value = 1.0, source = "ours" }
sigma-b = { value = 0.1, source = "ours" }
dtype = { value = "float32", source = "ours" }
loss = { value = "mse", source = "ours" }
schedule = { value = "inverse", source = "ours" }
decay = { value = 0.01, source = "ours" }
q = { value = 1.0, source = "paper" }
p = { value = 0.1, source = "paper" }
steps = { value = 30, source = "ours" }
seeds = { value = 2, source = "paper" }
lrs = { value = [30.0, 0.1], source = "paper" }
methods = { value = ["gd", "cdt", "gd-best", "guarded"], source = "ours" }
validate-every = { value = 10, source = "ours" }
[weights]
architecture = "1"
p = [0.01, 0.1]
lr = 0.1
seeds = 2
[samples]
architecture = "1"
lr = 0.1
published_closer = 3
published_samples = 4
[[architectures]]
name = "1"
hidden = [64]
[[architectures]]
name = "2"
hidden = [32, 32]
[published]
note = "Invented."
rows = [
  { architecture = "1", lr = 0.1, method = "cdt", converged = 2, val_mse_mean = 1.0, val_mse_std = 0.5 },
  { architecture = "1", lr = 30.0, method = "gd", converged = 0 },
]
)";

class Sweeping : public test::Program {
 protected:
  void SetUp() override {
    ASSERT_EQ(cdt("data make homes.csv --rows 80 --quiet").code, 0);
    std::ofstream(folder_ / "small.toml") << kExperiment;
  }
  Result reproduce(const std::string& flags) {
    return cdt("reproduce ames --experiment small.toml --data homes.csv " + flags);
  }
  size_t runs_in(const std::string& name) const {
    size_t count = 0;
    for (const auto& file : fs::directory_iterator(folder_ / name / "runs")) {
      count += file.path().extension() == ".json" ? 1 : 0;
    }
    return count;
  }
  void expect_refused(const Result& result, const std::string& message) {
    EXPECT_EQ(result.code, 2) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  }
};

/// Every row of results.json has the names of docs/formats.md, with their types.
void expect_row_schema(const json& row) {
  for (const char* name : {"architecture", "method"}) EXPECT_TRUE(row.at(name).is_string()) << row;
  for (const char* name : {"reachable", "strictly_contracting"}) {
    EXPECT_TRUE(row.at(name).is_boolean()) << row;
  }
  for (const char* name : {"converged", "runs"}) {
    EXPECT_TRUE(row.at(name).is_number_integer()) << row;
  }
  EXPECT_TRUE(row.at("lr").is_number()) << row;
  EXPECT_TRUE(row.at("seconds").is_number()) << row;
  const bool converged = row.at("converged") > 0;
  for (const char* name : {"val_mse_mean", "val_mse_std", "train_mse_mean"}) {
    EXPECT_EQ(row.at(name).is_number(), converged) << row;
  }
  EXPECT_TRUE(row.contains("published") && row.contains("difference"));
}

TEST_F(Sweeping, WritesTableFiguresAndClaims) {
  const Result result = reproduce("--out small");
  ASSERT_EQ(result.code, 0) << result.err;
  const json content = parse("small/results.json");
  EXPECT_EQ(content["format"], "cdt-results-1");
  EXPECT_EQ(content["kind"], "reproduce");
  EXPECT_TRUE(content["complete"]);
  // 2 architectures × (2 rates × 3 methods + gd-best)
  ASSERT_EQ(content["rows"].size(), 14U);
  for (const json& row : content["rows"]) {
    expect_row_schema(row);
    EXPECT_EQ(row["runs"], 2);
  }
  // At a rate of 30 descent is lost and control is not needed to see it; the guard holds.
  const auto find = [&](const std::string& method, double lr) {
    for (const json& row : content["rows"]) {
      if (row["architecture"] == "1" && row["method"] == method && row["lr"] == lr) return row;
    }
    return json();
  };
  EXPECT_EQ(find("gd", 30)["converged"], 0);
  EXPECT_EQ(find("guarded", 30)["converged"], 2);
  EXPECT_LT(find("guarded", 30)["train_mse_mean"], 1e-3);
  const json published = find("cdt", 0.1);
  EXPECT_NEAR(published["difference"].get<double>(),
              (published["val_mse_mean"].get<double>() - 1.0) / 0.5, 1e-12);
  EXPECT_TRUE(find("gd", 30)["published"]["val_mse_mean"].is_null());

  EXPECT_GE(content["claims"].size(), 8U);
  for (const json& claim : content["claims"]) {
    EXPECT_TRUE(claim["held"].is_boolean() || claim["held"].is_null());
    EXPECT_FALSE(claim["evidence"].get<std::string>().empty());
  }
  EXPECT_THAT(result.out, HasSubstr("published: 3 of 4"));
  std::set<std::string> figures;
  const json drawn = parse("small/figures.json");
  for (const json& figure : drawn["figures"]) figures.insert(figure["id"]);
  for (const char* id : {"relative-1", "rates-2", "sample-1", "spectrum-1", "guard-2",
                         "validation-1-lr-0-1", "validation-2-lr-30"}) {
    EXPECT_TRUE(figures.contains(id)) << id;
  }
  EXPECT_THAT(slurp("small/results.md"), HasSubstr("| 0.1 | cdt |"));
  EXPECT_THAT(slurp("small/results.csv"), HasSubstr("architecture,lr,method,"));
  EXPECT_THAT(slurp("small/report.html"), HasSubstr("A small experiment"));
  EXPECT_EQ(content["settings"].size(), 23U);  // but the empty list of dropped columns
}

TEST_F(Sweeping, MeansAreThoseOfItsRuns) {
  ASSERT_EQ(reproduce("--out small --archs 1 --methods cdt --lrs 0.1").code, 0);
  double sum = 0;
  double square = 0;
  for (const int seed : {1, 2}) {
    const json run =
        parse("small/runs/1-cdt-lr0.1-p0.1-seed" + std::to_string(seed) + "-steps30.json");
    const double loss = run["val_loss"];
    EXPECT_EQ(run["curve"]["val"].back(), run["val_loss"]);
    sum += loss;
    square += loss * loss;
  }
  const json row = parse("small/results.json")["rows"][0];
  EXPECT_NEAR(row["val_mse_mean"].get<double>(), sum / 2, 1e-15);
  EXPECT_NEAR(row["val_mse_std"].get<double>(), std::sqrt(square - sum * sum / 2), 1e-12);
}

TEST_F(Sweeping, AgreesWithTrain) {
  ASSERT_EQ(reproduce("--out small --archs 1 --methods cdt --lrs 0.1 --seeds 1").code, 0);
  ASSERT_EQ(cdt("train homes.csv --target price --rows 60 --train-rows 40 --fit all --hidden 64 "
                "--goal fit --method cdt --lr 0.1 --schedule inverse --decay 0.01 --steps 30 "
                "--stop-loss 0 "
                "--threads 1 --out run --quiet")
                .code,
            0);
  const json run = parse("run/run.json");
  const json swept = parse("small/runs/1-cdt-lr0.1-p0.1-seed1-steps30.json");
  EXPECT_EQ(swept["val_loss"], run["result"]["val_loss"]);
  EXPECT_EQ(swept["train_loss"], run["result"]["train_loss"]);
}

TEST_F(Sweeping, ContinuesAfterAKill) {
  // Long enough to be caught in the middle: kill -9 after the first finished run.
  const Result killed = shell(
      CDT_PROGRAM
      " reproduce ames --experiment small.toml --data homes.csv --out killed --steps 400 --jobs 1 "
      "& "
      "pid=$!; while ! ls killed/runs/*.json >/dev/null 2>&1; do sleep 0.02; done; kill -9 $pid; "
      "wait $pid; true");
  ASSERT_EQ(killed.code, 0);
  const size_t before = runs_in("killed");
  ASSERT_GE(before, 1U);
  EXPECT_FALSE(fs::exists(folder_ / "killed/results.json"));
  const Result second = reproduce("--out killed --steps 400");
  ASSERT_EQ(second.code, 0) << second.err;
  const json timings = parse("killed/results.json")["timings"];
  EXPECT_EQ(timings["runs"].get<size_t>() - timings["runs_made_now"].get<size_t>(), before);
  ASSERT_GT(timings["runs_made_now"], 0);
  // A damaged file is one more run to make; nothing else is repeated.
  std::ofstream(folder_ / "killed/runs/1-cdt-lr0.1-p0.1-seed1-steps400.json") << "{\"form";
  ASSERT_EQ(reproduce("--out killed --steps 400").code, 0);
  EXPECT_EQ(parse("killed/results.json")["timings"]["runs_made_now"], 1);
}

TEST_F(Sweeping, RunsTogetherAreSaidToBe) {
  const std::string compare =
      "compare homes.csv --target price --archs 8 --seeds 2 --steps 12 --methods gd,cdt "
      "--validate-every 4 --quiet --lrs ";
  ASSERT_EQ(cdt(compare + "0.1,0.01 --together 8 --out both").code, 0);
  ASSERT_EQ(cdt(compare + "0.1,0.01 --out alone").code, 0);
  ASSERT_EQ(runs_in("both"), 8U);
  for (const auto& file : fs::directory_iterator(folder_ / "both/runs")) {
    const json run = json::parse(std::ifstream(file.path()));
    const json alone = parse("alone/runs/" + file.path().filename().string());
    if (run.contains("traces")) {
      EXPECT_FALSE(run.contains("together"));
    } else {
      EXPECT_EQ(run["together"], 3) << "two rates, two seeds, less the one whose samples are drawn";
    }
    EXPECT_FALSE(alone.contains("together")) << "on a CPU each goes alone, unless told";
    EXPECT_NEAR(run["val_loss"].get<double>(), alone["val_loss"],
                1e-4 * alone["val_loss"].get<double>());
  }
  EXPECT_EQ(parse("both/results.json")["machine"]["runs_together"], 3);
  EXPECT_EQ(cdt("verify both").code, 0);
  // How runs are made is no setting of theirs: others may come alone.
  ASSERT_EQ(cdt(compare + "0.1,0.01,0.001 --together 1 --out both").code, 0);
  EXPECT_EQ(parse("both/results.json")["timings"]["runs_made_now"], 4);
  expect_refused(cdt(compare + "0.1 --together 0 --out none"), "--together");
}

TEST_F(Sweeping, StopsOnRequestAndSaysHowToGoOn) {
  const Result result = shell(
      CDT_PROGRAM
      " reproduce ames --experiment small.toml --data homes.csv --out part --archs 2 --steps 2000 "
      "--jobs 1 & "
      "pid=$!; while ! ls part/runs/*.json >/dev/null 2>&1; do sleep 0.02; done; kill -INT $pid; "
      "wait $pid");
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.err, HasSubstr("the same command continues"));
  EXPECT_FALSE(parse("part/results.json")["complete"]);
  EXPECT_NE(slurp("part/report.html").find("This sweep was interrupted"), std::string::npos);
}

TEST_F(Sweeping, ComparesOnTheUsersOwnTable) {
  const Result result =
      cdt("compare homes.csv --target price --archs 32,16x16 --lrs 0.1 --seeds 2 --steps 20 "
          "--methods gd,guarded,adam --out mine");
  ASSERT_EQ(result.code, 0) << result.err;
  const json content = parse("mine/results.json");
  EXPECT_EQ(content["kind"], "compare");
  ASSERT_EQ(content["rows"].size(), 8U);  // guarded also at its own rate
  for (const json& row : content["rows"]) {
    expect_row_schema(row);
    EXPECT_TRUE(row["published"].is_null());
  }
  EXPECT_TRUE(content["claims"].empty());  // nothing of CDT to check
  EXPECT_TRUE(fs::exists(folder_ / "mine/report.html"));
  // More methods later: what is there stays.
  ASSERT_EQ(cdt("compare homes.csv --target price --archs 32,16x16 --lrs 0.1 --seeds 2 --steps 20 "
                "--methods gd,guarded,adam,cdt --out mine")
                .code,
            0);
  EXPECT_EQ(parse("mine/results.json")["timings"]["runs_made_now"], 4);
}

TEST_F(Sweeping, ComparesGoalsAndMethodsAtTheirOwnRates) {
  const std::string compare = "compare homes.csv --target price --archs 8 --seeds 1 --out mine ";
  const auto methods = [&] {
    std::set<std::string> found;
    const json content = parse("mine/results.json");
    for (const json& row : content["rows"]) {
      const std::string rate = row["lr"].is_null()        ? ""
                               : row.contains("own_rate") ? " own"
                                                          : " " + row["lr"].dump();
      found.insert(row["method"].get<std::string>() + rate);
    }
    return found;
  };
  const Result both = cdt(compare + "--steps 5");
  ASSERT_EQ(both.code, 0) << both.err;
  const std::set<std::string> all = methods();
  EXPECT_EQ(all.size(), 9U + 2 + 2);
  for (const char* name : {"gd 0.1", "cdt 1.0", "guarded 0.01", "guarded own", "adam own",
                           "predict", "predict-adam"}) {
    EXPECT_TRUE(all.contains(name)) << name;
  }
  EXPECT_THAT(both.out, HasSubstr("RMSE of price"));
  EXPECT_THAT(both.out, HasSubstr("Lowest RMSE of price on the rows left out: "));
  const json content = parse("mine/results.json");
  for (const json& row : content["rows"]) {
    if (row["converged"] == 0) continue;
    ASSERT_EQ(row["errors"].size(), 1U) << row;
    EXPECT_GT(row["errors"][0]["rmse_mean"], 100) << "prices, not scaled ones";
  }
  // Rates or methods mean the goal fit; nothing is made again.
  ASSERT_EQ(cdt(compare + "--steps 5 --lrs 0.1 --methods gd,cdt,adam").code, 0);
  EXPECT_EQ(methods(), (std::set<std::string>{"gd 0.1", "cdt 0.1", "adam 0.1"}));
  EXPECT_EQ(parse("mine/results.json")["timings"]["runs_made_now"], 1) << "adam at that rate";
  const Result adam = cdt(compare + "--steps 5 --methods adam");
  ASSERT_EQ(adam.code, 0);
  EXPECT_THAT(adam.err, HasSubstr("--methods is for the goal fit, which alone is compared"));
  EXPECT_EQ(methods(), (std::set<std::string>{"adam own"}));
  ASSERT_EQ(cdt(compare + "--goals predict").code, 0);
  EXPECT_EQ(methods(), (std::set<std::string>{"predict", "predict-adam"}));
  EXPECT_EQ(parse("mine/results.json")["timings"]["runs_made_now"], 0) << "whatever the steps";
  expect_refused(cdt(compare + "--goals predict --lrs 0.1"), "--lrs belongs to the goal fit");
  expect_refused(cdt(compare + "--goals predict --steps 5"), "--steps belongs to the goal fit");
  EXPECT_EQ(cdt(compare + "--goals guess").code, 2);
  EXPECT_EQ(cdt(compare + "--methods path").code, 2);
}

TEST_F(Sweeping, GuardedAtItsOwnRateAgreesWithTrain) {
  ASSERT_EQ(cdt("compare homes.csv --target price --archs 16 --methods guarded --lrs 0.1 --seeds 1 "
                "--steps 8 --out mine")
                .code,
            0);
  ASSERT_EQ(cdt("train homes.csv --target price --goal fit --hidden 16 --steps 8 --stop-loss 0 "
                "--threads 1 --out run --quiet")
                .code,
            0);
  const json run = parse("run/run.json");
  const json swept = parse("mine/runs/16-guarded-p0.1-seed1-steps8.json");
  EXPECT_EQ(swept["val_loss"], run["result"]["val_loss"]);
  EXPECT_NEAR(swept["lr"].get<double>() / run["result"]["lr"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(swept["errors"][0]["rmse"].get<double>(),
              run["errors"]["validation"]["price"]["rmse"].get<double>(), 1e-6);
}

TEST_F(Sweeping, ComparesClasses) {
  const Result result =
      cdt("compare homes.csv --target heating --archs 8 --seeds 1 --steps 5 --drop garage --out c");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("validation cross entropy"));
  EXPECT_THAT(result.out, HasSubstr("error rate of heating"));
  const json content = parse("c/results.json");
  EXPECT_EQ(content["loss"], "cross-entropy");
  EXPECT_TRUE(content["claims"].empty());
  EXPECT_EQ(parse("c/sweep.json")["settings"]["loss"], "cross-entropy");
  ASSERT_EQ(cdt("train homes.csv --target heating --loss cross-entropy --goal fit --drop garage "
                "--method gd --lr 0.1 --hidden 8 --steps 5 --threads 1 --out run --quiet")
                .code,
            0);
  const json run = parse("run/run.json");
  const json swept = parse("c/runs/8-gd-lr0.1-p0.1-seed1-steps5.json");
  EXPECT_EQ(swept["val_loss"], run["result"]["val_loss"]);
  EXPECT_NEAR(swept["errors"][0]["error_rate"].get<double>(),
              1 - run["errors"]["validation"]["heating"]["accuracy"].get<double>(), 1e-12);
  // Given, it is the same sweep; another loss is not.
  ASSERT_EQ(cdt("compare homes.csv --target heating --archs 8 --seeds 1 --steps 5 --drop garage "
                "--loss cross-entropy --out c")
                .code,
            0);
  EXPECT_EQ(parse("c/results.json")["timings"]["runs_made_now"], 0);
  expect_refused(cdt("compare homes.csv --target heating --loss mse --out d"), "heating");
}

TEST_F(Sweeping, RefusesWhatItCannotDo) {
  expect_refused(reproduce("--archs 7"), "there is no architecture '7'; there are 1, 2");
  expect_refused(cdt("reproduce mnist --data homes.csv"), "expected an experiment, ames");
  expect_refused(cdt("reproduce ames --data homes.csv"), "homes.csv");  // no such columns
  expect_refused(cdt("reproduce ames --data nowhere.csv"), "nowhere.csv");
  expect_refused(cdt("compare homes.csv --target price --archs 3y3"), "got '3y3'");
  std::ofstream(folder_ / "broken.toml") << "title = ";
  expect_refused(cdt("reproduce ames --data homes.csv --experiment broken.toml"),
                 "broken.toml, line 1");
  std::ofstream(folder_ / "empty.toml") << "title = 'x'\n";
  expect_refused(cdt("reproduce ames --data homes.csv --experiment empty.toml"),
                 "empty.toml: settings.target.value: expected text, got nothing");
  const std::string published = R"(architecture = "1", lr = 0.1, method = "cdt")";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = kExperiment;
    text.replace(text.find(from), from.size(), to);
    std::ofstream(folder_ / "changed.toml") << text;
    return cdt("reproduce ames --data homes.csv --experiment changed.toml");
  };
  expect_refused(changed(published, R"(architecture = 1, lr = 0.1, method = "cdt")"),
                 "changed.toml: published.rows[0].architecture: expected text, got 1");
  expect_refused(
      changed("[weights]", "strange = { source = \"ours\" }\n[weights]"),
      "changed.toml: settings.strange: an experiment on a table does not read it; leave it out");
  expect_refused(reproduce("--lrs 0.1,0.1"), "learning rates: expected each one once");
  const std::string compare = "compare homes.csv --target price --archs 8 --seeds 1 --steps 5 ";
  expect_refused(cdt(compare + "--train-fraction 1"), "no rows are left to validate on");
  expect_refused(cdt(compare + "--sample-weights area"), "a comparison takes all samples alike");
  EXPECT_EQ(cdt(compare + "--device gpu").code, 2);
  EXPECT_EQ(cdt("reproduce ames --data homes.csv --methods sgd").code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "ames"));

  // Another choice of columns is another experiment, whichever way round.
  ASSERT_EQ(cdt(compare + "--lrs 0.1 --methods gd --out a").code, 0);
  expect_refused(cdt(compare + "--lrs 0.1 --methods gd --out a --drop area"),
                 "its runs were made with drop \"\", not \"area\"");
  ASSERT_EQ(cdt(compare + "--lrs 1e6,1e-6 --methods gd --out b --drop area").code, 0);
  expect_refused(cdt(compare + "--lrs 1e6,1e-6 --methods gd --out b"),
                 "its runs were made with drop \"area\", not \"\"");

  ASSERT_EQ(reproduce("--out small --archs 1 --methods gd --lrs 0.1 --seeds 1").code, 0);
  shell("sed -i 's/\"over the whole file\"/\"\"/; s/\"all\"/\"train\"/' small.toml");
  expect_refused(reproduce("--out small --archs 1 --methods gd --lrs 0.1 --seeds 1"),
                 "its runs were made with fit \"all\", not \"train\"");
  std::ofstream(folder_ / "small/sweep.json") << "{\"format\": \"cdt-sweep-9\"}";
  expect_refused(reproduce("--out small"), "expected the format \"cdt-sweep-1\", got");
}

TEST_F(Sweeping, RefusesExperimentsWithTheKeyThatIsWrong) {
  const auto refused = [&](const std::string& key, const std::string& value,
                           const std::string& message) {
    SCOPED_TRACE(key + " = " + value);
    std::string text = kExperiment;
    const size_t start = text.find("\n" + key + " = ") + 1;
    text.replace(start, text.find('\n', start) - start, key + " = " + value);
    std::ofstream(folder_ / "changed.toml") << text;
    expect_refused(cdt("reproduce ames --data homes.csv --experiment changed.toml --out deep/er"),
                   "changed.toml: " + message);
  };
  const auto setting = [](const std::string& value) { return "{ value = " + value + " }"; };
  refused("rows", setting("-5"),
          "settings.rows.value: expected a whole number, 0 or above, got -5");
  refused("train-rows", setting("-1"), "settings.train-rows.value: expected a whole number");
  refused("steps", setting("0"), "settings.steps.value: expected a whole number, 1 or above");
  refused("seeds", setting("\"2\""), "settings.seeds.value: expected a whole number, 1 or above");
  refused("dtype", setting("\"float99\""),
          "settings.dtype.value: dtype must be one of float32, float64, got 'float99'");
  refused("lrs", setting("[]"), "settings.lrs.value: expected a list that is not empty");
  refused("lrs", setting("[0.1, -0.1]"), "settings.lrs.value[1]: expected a number above 0");
  refused("sigma-w", setting("inf"), "settings.sigma-w.value: expected a finite number");
  refused("hidden", "[64, -3]", "architectures[0].hidden[1]: expected a whole number from 1 to");
  refused("name", "\"../../x\"", "architectures[0].name: the name of an architecture: expected a");
  refused("p", "3", "settings.p: expected an object, got 3");
  EXPECT_FALSE(fs::exists(folder_ / "deep")) << "nothing was written";

  // What the parser would take down by recursion.
  std::string parts = "a";
  for (int i = 0; i < 100'000; ++i) parts += ".a";
  for (const std::string& text :
       {parts + " = 1\n", "[" + parts + "]\n", "x = { " + parts + " = 1 }\n",
        "x = { y = \"\"\"z\"\"\"\", " + parts + " = 1 }\n",  // one quote is part of the text
        "x = " + std::string(17, '[') + std::string(17, ']') + "\n"}) {
    std::ofstream(folder_ / "deep.toml") << "# a.b\nnote = '[[[['\n" << text;
    const std::string message = "deep.toml, line 3: expected at most 16 lists and tables";
    expect_refused(cdt("train homes.csv --config deep.toml"), message);
  }
  expect_refused(cdt("reproduce ames --data homes.csv --experiment deep.toml"), "line 3: expected");
  std::ofstream(folder_ / "long.toml") << std::string(1'000'001, '\n');
  expect_refused(cdt("train homes.csv --config long.toml"),
                 "long.toml: expected a file of at most");
}

TEST_F(Sweeping, ADamagedRunIsMadeAgain) {
  const std::string compare =
      "compare homes.csv --target price --archs 8 --seeds 1 --steps 5 --lrs 0.1 --methods gd,cdt "
      "--out cmp --quiet";
  ASSERT_EQ(cdt(compare).code, 0);
  for (const auto& file : fs::directory_iterator(folder_ / "cmp/runs")) {
    json run = json::parse(std::ifstream(file.path()));
    run["curve"]["train"] = json::array();
    run.erase("checksum");
    std::ofstream(file.path()) << run;
  }
  ASSERT_EQ(cdt(compare).code, 0);
  EXPECT_EQ(parse("cmp/results.json")["timings"]["runs_made_now"], 2);
  write("cmp/sweep.json", "[1]");
  const Result result = cdt(compare);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("cmp/sweep.json: expected the format"));
}

TEST_F(Sweeping, WaitsForNobodyWhoWritesToAPipe) {
  const std::string compare =
      "compare homes.csv --target price --archs 8 --seeds 1 --steps 3 --lrs 0.1 --methods gd "
      "--out cmp --quiet";
  ASSERT_EQ(cdt(compare).code, 0);
  const auto piped = [&](const std::string& name, const std::string& command) {
    return shell("rm -f " + name + " && mkfifo " + name + " && timeout 60 " CDT_PROGRAM " " +
                 command);
  };
  const fs::path run = fs::directory_iterator(folder_ / "cmp/runs")->path();
  ASSERT_EQ(piped(run.string(), compare).code, 0) << slurp("err.txt");
  EXPECT_TRUE(fs::is_regular_file(run)) << "made again";
  const std::string message = ": expected a regular file, got a pipe";
  expect_refused(piped("cmp/results.json", "report cmp --out r.html"), "results.json" + message);
  expect_refused(piped("cmp/sweep.json", compare), "sweep.json" + message);
  EXPECT_EQ(cdt("verify cmp").code, 1);
}

TEST_F(Sweeping, KeepsItsFilesAndKnowsThemAgain) {
  const std::string compare =
      "compare homes.csv --target price --archs 8 --lrs 0.1 --methods gd --seeds 2 --steps 3 "
      "--quiet --out a";
  ASSERT_EQ(cdt(compare).code, 0);
  const std::string results = slurp("a/results.csv");
  expect_refused(cdt("compare a/results.csv --target seconds --out a"), "is results.csv of");
  for (const std::string name : {"results.json", "results.csv", "sweep.json", "runs/x.json"}) {
    expect_refused(cdt("data describe homes.csv --json a/" + name),
                   "belongs to the run or the sweep");
    expect_refused(cdt("report a --out a/" + name), "belongs to the run or the sweep");
  }
  EXPECT_EQ(slurp("a/results.csv"), results);
  const Result intact = cdt("verify a");
  EXPECT_EQ(intact.code, 0) << intact.out;
  EXPECT_THAT(intact.out, testing::StartsWith("a: a sweep, intact\n"));
  EXPECT_THAT(intact.out, HasSubstr("2 intact"));

  const fs::path run = fs::directory_iterator(folder_ / "a/runs")->path();
  const std::string name = "a/runs/" + run.filename().string();
  std::string text = slurp(name);
  const size_t digit = text.find("\"lambda_max\":") + 14;
  text[digit] = text[digit] == '1' ? '2' : '1';  // still a run, but not the one that was made
  write(name, text);
  fs::remove(folder_ / "a/figures.json");
  const Result damaged = cdt("verify a --json v.json");
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.out, HasSubstr(run.filename().string()));
  EXPECT_FALSE(parse("v.json")["intact"]);
  ASSERT_EQ(cdt(compare).code, 0) << "what is damaged is made again";
  EXPECT_EQ(cdt("verify a").code, 0);
  for (const std::string file : {"a/sweep.json", "a/results.json"}) {
    const std::string whole = slurp(file);
    std::string other = whole;
    other[other.find("seconds\": ") + 10] ^= 1;  // another digit
    write(file, other);
    EXPECT_EQ(cdt("verify a").code, 1) << file;
    write(file, whole);
  }
  EXPECT_THAT(cdt("verify a").out, testing::Not(HasSubstr("has not ended")));
  fs::remove(folder_ / "a/results.json");
  EXPECT_THAT(cdt("verify a").out, HasSubstr("has not ended"));
}

}  // namespace
}  // namespace cdt
