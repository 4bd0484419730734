// The goal predict from outside: what a table becomes, what is expected of new rows, intervals,
// interruption, the tables that are hardly any.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/program.h"

namespace cdt {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using Text = const std::string&;

/// Numbers, text and a target with noise; all from a small generator of our own.
std::string rooms(int rows, unsigned seed) {
  const char* kinds[] = {"flat", "house", "hut"};
  std::ostringstream csv("area,age,kind,price\n", std::ios::ate);
  unsigned state = seed;
  const auto draw = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<double>(state >> 8) / (1U << 24);
  };
  for (int i = 0; i < rows; ++i) {
    const double area = 40 + 100 * draw(), age = 50 * draw();
    const auto kind = static_cast<int>(3 * draw());
    const double noise = draw() + draw() + draw() - 1.5;
    csv << area << "," << age << "," << kinds[kind] << ","
        << 10 * area - 4 * age + 100 * kind + 60 * std::sin(area / 10) + 40 * noise << "\n";
  }
  return csv.str();
}

class Goal : public test::Program {
 protected:
  void SetUp() override { write("rooms.csv", rooms(90, 1)); }
  Result train(Text flags, Text file = "rooms.csv --target price") {
    return cdt("train " + file + " --threads 1 --hidden 16,16 " + flags);
  }
  json record(Text run) const { return json::parse(slurp(run + "/run.json")); }
  std::vector<std::vector<double>> table(Text file) const {
    std::vector<std::vector<double>> rows;
    std::istringstream lines(slurp(file));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      rows.emplace_back();
      std::istringstream cells(line);
      for (std::string cell; std::getline(cells, cell, ',');)
        rows.back().push_back(std::stod(cell));
    }
    return rows;
  }
  /// With 0 for the name of the split.
  std::vector<std::vector<double>> rows_of_split(Text file, Text split) const {
    std::vector<std::vector<double>> rows;
    std::istringstream lines(slurp(file));
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find("," + split + ",");
      if (at == std::string::npos) continue;
      rows.emplace_back();
      std::istringstream cells(line.replace(at + 1, split.size(), "0"));
      for (std::string cell; std::getline(cells, cell, ',');)
        rows.back().push_back(std::stod(cell));
    }
    return rows;
  }
};

TEST_F(Goal, IsExplainedWithAllThatFollowsFromIt) {
  const Result plan = train("--dry-run");
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, testing::ContainsRegex("goal +predict +data +tables are learned"));
  EXPECT_THAT(plan.out, testing::ContainsRegex("hidden +16,16 +user +given"));
  EXPECT_THAT(plan.out, testing::ContainsRegex("method +path +goal +a path of falling decay"));
  EXPECT_THAT(plan.out, testing::ContainsRegex("ensemble +4 +data"));
  EXPECT_FALSE(exists("run1"));  // nothing was written
  const json choices = json::parse(train("--dry-run --json -").out)["choices"];
  EXPECT_EQ(choices[0]["setting"], "file");
  EXPECT_EQ(choices[0]["by"], "user");
  // The same, and then the training.
  const Result run = train("--explain --ensemble 1 --steps 2 --out run");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, testing::ContainsRegex("ensemble +1 +user +given"));
  EXPECT_THAT(run.out, HasSubstr("price: expected RMS error on new rows"));
  EXPECT_TRUE(exists("run/run.json"));
  // What training would refuse is refused.
  const Result wrong = train("--dry-run --stop-loss 1e-3");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("give --goal fit, or leave it out"));
}

TEST_F(Goal, IsToPredictUnlessFittingIsAskedFor) {
  const Result result = train("--out run");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("price: expected RMS error on new rows"));
  EXPECT_THAT(result.out, HasSubstr("held out"));
  const json run = record("run");
  EXPECT_EQ(run["settings"]["goal"], "predict");
  EXPECT_EQ(run["defaults"]["method"], "path");
  const json& expected = run["prediction"]["expected"][0];
  EXPECT_EQ(expected["rows"], 90);
  EXPECT_LT(expected["rmse"]["value"], 0.5 * expected["rmse_of_mean"].get<double>());
  EXPECT_GT(expected["rmse"]["error"], 0);
  // Those trained on all rows, as many as the planned points are worth, then the four folds'
  // networks; a line that has a say is the last.
  const int members = run["prediction"]["members"];
  const int line = run["prediction"]["targets"][0].contains("line");
  EXPECT_GT(members, 4 + line);
  EXPECT_LE(members, 12 + 4 + line);
  EXPECT_FALSE(exists("run/model-" + std::to_string(members + 1) + ".safetensors"));
  for (int member = 2; member <= members; ++member) {
    EXPECT_TRUE(exists("run/model-" + std::to_string(member) + ".safetensors"));
  }
  EXPECT_THAT(slurp("run/history.csv"), HasSubstr(",objective,decay,freedom\n"));
  EXPECT_EQ(cdt("verify run").code, 0);

  // Options of the other goal are refused, and change no goal.
  for (const char* flag : {"--lr 0.1", "--stop-loss 1e-3", "--weight-decay 1e-4", "--tune"}) {
    const Result refused = train(std::string("--steps 3 --out fit ") + flag);
    EXPECT_EQ(refused.code, 2) << flag;
    EXPECT_THAT(refused.err, HasSubstr("--goal fit")) << flag;
    EXPECT_FALSE(exists("fit")) << flag;
    const Result fit = train(std::string("--goal fit --steps 3 --overwrite --out done ") + flag);
    ASSERT_EQ(fit.code, 0) << flag << fit.err;
    EXPECT_FALSE(record("done").contains("prediction")) << flag;
  }
  ASSERT_EQ(train("--no-analysis --ensemble 1 --steps 3 --out plain").code, 0);
  EXPECT_TRUE(record("plain").contains("prediction"));
  const Result adam = train("--goal predict --method adam --ensemble 1 --out adam");
  ASSERT_EQ(adam.code, 0) << adam.err;
  EXPECT_EQ(record("adam")["prediction"]["decay"], nullptr);
  EXPECT_LT(record("adam")["prediction"]["expected"][0]["r2"], 1);
}

TEST_F(Goal, ExpectsWhatNewRowsShow) {
  write("new.csv", rooms(600, 7));
  ASSERT_EQ(train("--out run --quiet").code, 0);
  const Result result =
      cdt("predict run new.csv --interval 0.9 --out p.csv --json p.json --threads 1");
  ASSERT_EQ(result.code, 0) << result.err;
  const double expected = record("run")["prediction"]["expected"][0]["rmse"]["value"];
  const double error = record("run")["prediction"]["expected"][0]["rmse"]["error"];
  const double found = json::parse(slurp("p.json"))["errors"]["price"]["rmse"];
  EXPECT_NEAR(found, expected, 4 * error + 0.1 * expected);
  // Columns row, price, price_low, price_high.
  EXPECT_THAT(slurp("p.csv"), HasSubstr("row,price,price_low,price_high\n"));
  const auto predicted = table("p.csv");
  std::istringstream lines(slurp("new.csv"));
  std::string line;
  std::getline(lines, line);
  int within = 0;
  for (const auto& row : predicted) {
    std::getline(lines, line);
    const double price = std::stod(line.substr(line.rfind(',') + 1));
    EXPECT_LE(row[2], row[1]);
    EXPECT_LE(row[1], row[3]);
    within += row[2] <= price && price <= row[3] ? 1 : 0;
  }
  // Rows that were held out have bounds around what was predicted there, nine of ten hold them.
  EXPECT_THAT(slurp("run/predictions.csv"),
              HasSubstr("row,split,price,\"price predicted\",\"price low\",\"price high\"\n"));
  int held = 0, inside = 0;
  for (const auto& row : rows_of_split("run/predictions.csv", "validation")) {
    ASSERT_EQ(row.size(), 6U);
    ++held;
    inside += row[4] <= row[2] && row[2] <= row[5] ? 1 : 0;
  }
  EXPECT_EQ(held, 90);
  EXPECT_NEAR(inside, 0.9 * held, 2);  // the same rows made them: the rank, up to ties
  EXPECT_THAT(slurp("run/report.html"), HasSubstr("9 of 10 new rows"));
  // 90 held-out rows know the quantile to ± 0.03, and 600 new rows show it to ± 0.012.
  EXPECT_NEAR(within / 600.0, 0.9, 0.1);
}

TEST_F(Goal, TestRowsAreSeenAtTheEndAlone) {
  const Result result = train("--test-fraction 0.2 --ensemble 1 --out run");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("test"));
  EXPECT_TRUE(record("run")["errors"]["test"]["price"]["rmse"].is_number());
  int tested = 0;
  std::istringstream lines(slurp("run/predictions.csv"));
  for (std::string line; std::getline(lines, line);) tested += line.find(",test,") != line.npos;
  EXPECT_EQ(tested, 18);
}

TEST_F(Goal, TheSameSeedGivesTheSameBitsThroughAnInterruption) {
  ASSERT_EQ(train("--out whole --quiet --ensemble 2").code, 0);
  ASSERT_EQ(train("--out again --quiet --ensemble 2").code, 0);
  EXPECT_EQ(slurp("whole/model-3.safetensors"), slurp("again/model-3.safetensors"));
  // Interrupted as soon as there is a checkpoint, then resumed to the end.
  const Result cut = shell(
      CDT_PROGRAM
      " train rooms.csv --target price --threads 1 --hidden 16,16 --out cut --quiet --ensemble 2 "
      "--checkpoint-seconds 1e-3 & "
      "pid=$!; while ! ls cut/checkpoint.safetensors >/dev/null 2>&1; do sleep 0.01; done; "
      "kill -TERM $pid; wait $pid");
  EXPECT_EQ(cut.code, 130) << cut.err;
  EXPECT_FALSE(exists("cut/model-3.safetensors"));
  EXPECT_EQ(cdt("train --resume cut --quiet --threads 1").code, 0);
  EXPECT_EQ(slurp("cut/model-3.safetensors"), slurp("whole/model-3.safetensors"));
}

TEST_F(Goal, TablesThatAreHardlyAny) {
  write("two.csv", "x,y\n1,2\n2,5\n");
  write("constant.csv", "x,y\n1,3\n2,3\n4,3\n5,3\n");
  for (const char* file : {"two.csv", "constant.csv"}) {
    const Result result = train("--quiet --overwrite --out run", std::string(file) + " --target y");
    ASSERT_EQ(result.code, 0) << file << result.err;
    const Result predicted = cdt("predict run " + std::string(file) + " --out p.csv --threads 1");
    ASSERT_EQ(predicted.code, 0) << predicted.err;
    for (const auto& row : table("p.csv")) EXPECT_TRUE(row[1] >= 2 && row[1] <= 5) << file;
  }
}

TEST_F(Goal, PureNoiseIsCalledSo) {
  std::string csv = "a,b,y\n";
  unsigned state = 5;
  const auto draw = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<double>(state >> 8) / (1U << 24) - 0.5;
  };
  for (int i = 0; i < 200; ++i) {
    const double a = draw(), b = draw();
    csv += std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(draw()) + "\n";
  }
  write("noise.csv", csv);
  const Result result = train("--out run", "noise.csv --target y");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("No better than the mean"));
  const json expected = record("run")["prediction"]["expected"][0];
  EXPECT_NEAR(expected["rmse"]["value"].get<double>() / expected["rmse_of_mean"].get<double>(), 1,
              0.05);
}

TEST_F(Goal, ClassesOfTextNeedNoOption) {
  std::string csv = "x,z,kind\n";
  for (int i = 0; i < 80; ++i) {
    const double x = (i * 37 % 80) / 10.0;
    csv += std::to_string(x) + "," + std::to_string(i % 7) + "," +
           (i == 11 ? "rare"
            : x > 4 ? "right"
                    : "left") +
           "\n";
  }
  write("kinds.csv", csv);
  const Result result = train("--out run", "kinds.csv --target kind");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("expected error on new rows"));
  EXPECT_EQ(record("run")["settings"]["loss"], "cross-entropy");
  EXPECT_LT(record("run")["prediction"]["expected"][0]["wrong"]["value"], 0.15);
  ASSERT_EQ(cdt("predict run kinds.csv --out p.csv --threads 1").code, 0);
  EXPECT_THAT(slurp("p.csv"), HasSubstr("P(kind=rare)"));
  EXPECT_THAT(cdt("predict run kinds.csv --interval 0.9 --out q.csv").err,
              HasSubstr("has no intervals"));
}

TEST_F(Goal, SaysWhichColumnsMatter) {
  const Result result = train("--importance --ensemble 1 --out run");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Importance: growth of held-out errors"));
  const json found = record("run")["prediction"]["importance"];
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0]["column"], "area");
}

TEST_F(Goal, RefusesWhatContradictsIt) {
  const auto refused = [&](Text flags, Text message) {
    const Result result = train(flags + " --out no");
    EXPECT_EQ(result.code, 2) << flags;
    EXPECT_THAT(result.err, HasSubstr(message)) << flags;
    EXPECT_FALSE(exists("no"));
  };
  refused("--goal predict --tune", "--goal fit");
  refused("--lr 0.1", "lr: the method path does not read it under the goal predict");
  refused("--goal predict --weight-decay 0.1", "weight-decay: the method path");
  refused("--ensemble 0", "--ensemble");
  refused("--folds 1", "--folds");
  refused("--goal guess", "--goal");
  refused("--train-fraction 0 --ensemble 1", "leaves none to train on");
}

TEST_F(Goal, PredictionsCarryAnIdAndComeAsRowsDo) {
  // The model was told to leave the column out; it is text even where it looks like a number.
  ASSERT_EQ(
      shell("awk 'NR == 1 { print \"id,\" $0 } NR > 1 { print \"00\" NR \",\" $0 }' rooms.csv "
            "> named.csv")
          .code,
      0);
  ASSERT_EQ(train("--out r --ensemble 1 --no-intervals --drop id", "named.csv --target price").code,
            0);
  ASSERT_EQ(cdt("predict r named.csv --id id --out p.csv").code, 0);
  EXPECT_THAT(slurp("p.csv"), testing::StartsWith("row,id,price\n1,002,"));
  ASSERT_EQ(cdt("predict r named.csv --id area --out a.csv").code, 0);  // a feature
  EXPECT_THAT(slurp("a.csv"), testing::StartsWith("row,area,price\n1,"));
  ASSERT_EQ(cdt("predict r named.csv --id price --out t.csv").code, 0);  // the target itself
  EXPECT_THAT(slurp("t.csv"), testing::StartsWith("row,\"price given\",price\n1,"));
  EXPECT_THAT(cdt("predict r named.csv --id size --out n.csv").err, HasSubstr("size"));
  // The first prediction is there before the second row is.
  const Result piped = shell(
      "mkfifo in; " CDT_PROGRAM
      " predict r in --out - > out & (head -2 named.csv; for i in $(seq 600); do "
      "[ $(wc -l < out) -ge 2 ] && break; sleep 0.1; done; wc -l < out >&2; tail -n +3 named.csv) "
      "> in; wait");
  EXPECT_THAT(piped.err, testing::StartsWith("2"));
  ASSERT_EQ(cdt("predict r named.csv --out whole.csv").code, 0);
  // A row alone rounds its products in another order than among others.
  const auto parts = table("out"), whole = table("whole.csv");
  ASSERT_EQ(parts.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(parts[i][0], whole[i][0]);
    EXPECT_NEAR(parts[i][1], whole[i][1], 1e-3);
  }
}

TEST_F(Goal, ClassWeightsMakeRareClassesCount) {
  std::istringstream lines(rooms(300, 5));
  std::string csv = "area,age,rare\n", line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::string area, age, kind, price;
    std::getline(cells, area, ',');
    std::getline(cells, age, ',');
    std::getline(cells, kind, ',');
    std::getline(cells, price, ',');
    csv += area + "," + age + "," + (std::stod(price) > 1500 ? "yes" : "no") + "\n";
  }
  write("rare.csv", csv);
  const auto recall = [&](Text run, Text flags) {
    EXPECT_EQ(train("--ensemble 1 --out " + run + " " + flags, "rare.csv --target rare").code, 0);
    return record(run)["errors"]["validation"]["rare"]["recall"][1].get<double>();
  };
  const double plain = recall("plain", "");
  EXPECT_GT(recall("balanced", "--class-weights balanced"), plain);
  EXPECT_GT(recall("given", "--class-weights yes=50"), plain);
  EXPECT_THAT(train("--class-weights maybe=2 --out x", "rare.csv --target rare").err,
              HasSubstr("class weights: expected balanced or NAME=WEIGHT"));
  EXPECT_THAT(train("--class-weights yes=0 --out x", "rare.csv --target rare").err,
              HasSubstr("class weights"));
  EXPECT_THAT(train("--class-weights balanced --out x").err, HasSubstr("class weights are for"));
}

TEST_F(Goal, ErrorsOutOfReachEndAFit) {
  // Rows that differ by next to nothing, and in their price by much: no network tells them apart.
  std::string csv = "area,age,price\n";
  for (int i = 0; i < 40; ++i) {
    csv += std::to_string(50 + i % 8) + "." + (i % 2 == 0 ? "0000001" : "0000002") + "," +
           std::to_string(i % 5) + "," + std::to_string((i * 7919) % 101) + "\n";
  }
  write("noise.csv", csv);
  const Result fitted = train("--goal fit --steps 5000 --out f", "noise.csv --target price");
  EXPECT_EQ(fitted.code, 0);
  EXPECT_LT(record("f")["result"]["steps"].get<int>(), 500);
  EXPECT_THAT(record("f")["result"]["outcome"].get<std::string>(),
              testing::AnyOf("plateau", "floor", "stuck"));
}

}  // namespace
}  // namespace cdt
