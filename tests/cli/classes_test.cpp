// cdt train, predict and analyze with a target that is a class.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/program.h"

namespace cdt {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Row = std::vector<std::string>;

Row parts_of(const std::string& text, char mark) {
  Row parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  return parts;
}

/// Fruit by weight and colour; a few are mislabelled. `name` turns the class into a cell.
std::string fruit(int rows, const Row& names = {"apple", "lemon", "plum"}) {
  std::ostringstream csv("weight,redness,kind,price\n", std::ios::ate);
  for (int i = 0; i < rows; ++i) {
    const int kind = i % 3;
    const int weight = (kind == 0 ? 180 : kind == 1 ? 120 : 60) + (i * 37) % 41 - 20;
    const int redness = (kind == 1 ? 20 : 60) + (i * 53) % 31;
    csv << weight << "," << redness << "," << names[i % 20 == 7 ? (kind + 1) % 3 : kind] << "," << i
        << "\n";
  }
  return csv.str();
}

class Classes : public test::Program {
 protected:
  void SetUp() override { write("fruit.csv", fruit(60)); }
  Result cdt(const std::string& arguments) const {
    return test::Program::cdt(arguments + " --threads 1");
  }
  Result train(const std::string& flags, const std::string& file = "fruit.csv") {
    return cdt("train " + file + kTrain + flags);
  }
  void expect_refused(const std::string& flags, const std::string& message,
                      const std::string& file = "fruit.csv") {
    const Result result = train("--out refused --overwrite " + flags, file);
    EXPECT_EQ(result.code, 2) << flags;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
  }
  static constexpr const char* kTrain =
      " --target kind --drop price --goal fit --loss cross-entropy --hidden 16 --no-analysis ";
};

TEST_F(Classes, ARunTellsProbabilitiesAccuracyAndConfusion) {
  const Result result = train("--out run --steps 30");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("accuracy of kind"));
  const json run = parse("run/run.json");
  EXPECT_EQ(run["network"]["shape"], "2-16-3");
  const json target = parse("run/preprocess.json")["targets"][0];
  EXPECT_EQ(target["classes"], (json{"apple", "lemon", "plum"}));
  // Everything again from predictions.csv.
  const Row lines = parts_of(slurp("run/predictions.csv"), '\n');
  EXPECT_EQ(lines[0], "row,split,kind,\"kind predicted\",P(kind=apple),P(kind=lemon),P(kind=plum)");
  ASSERT_EQ(lines.size(), 61U);
  const Row names{"apple", "lemon", "plum"};
  std::map<std::string, std::vector<std::vector<int>>> confusion;
  std::map<std::string, double> loss;
  for (const std::string part : {"train", "validation"}) {
    confusion[part] = std::vector<std::vector<int>>(3, std::vector<int>(3, 0));
  }
  for (size_t k = 1; k < lines.size(); ++k) {
    const Row row = parts_of(lines[k], ',');
    size_t wanted = 3, best = 0;
    double sum = 0;
    for (size_t c = 0; c < 3; ++c) {
      if (row[2] == names[c]) wanted = c;
      if (std::stod(row[4 + c]) > std::stod(row[4 + best])) best = c;
      sum += std::stod(row[4 + c]);
    }
    ASSERT_LT(wanted, 3U);
    EXPECT_EQ(row[3], names[best]);
    EXPECT_NEAR(sum, 1, 1e-6);
    ++confusion[row[1]][wanted][best];
    loss[row[1]] -= std::log(std::stod(row[4 + wanted]));
  }
  for (const auto& [part, rows] :
       std::map<std::string, double>{{"train", 42}, {"validation", 18}}) {
    const json error = run["errors"][part]["kind"];
    EXPECT_EQ(error["confusion"], json(confusion[part])) << part;
    const auto& c = confusion[part];
    EXPECT_NEAR(error["accuracy"], (c[0][0] + c[1][1] + c[2][2]) / rows, 1e-12);
    EXPECT_NEAR(error["cross_entropy"], loss[part] / rows, 1e-6);
    EXPECT_NEAR(run["result"][part == "train" ? "train_loss" : "val_loss"], loss[part] / rows,
                1e-5);
  }
  EXPECT_GT(run["errors"]["train"]["kind"]["accuracy"], 0.9);
}

TEST_F(Classes, PredictRepeatsTheRun) {
  ASSERT_EQ(train("--out run --steps 10").code, 0);
  const Result result = cdt("predict run fruit.csv --out new.csv --json new.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("accuracy of kind in the file"));
  const Row repeated = parts_of(slurp("new.csv"), '\n');
  EXPECT_EQ(repeated[0], "row,kind,P(kind=apple),P(kind=lemon),P(kind=plum)");
  for (const std::string& line : parts_of(slurp("run/predictions.csv"), '\n')) {
    const Row row = parts_of(line, ',');
    if (row[0] == "row") continue;
    const Row again = parts_of(repeated.at(std::stoul(row[0])), ',');
    EXPECT_EQ(again[1], row[3]);
    for (size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(std::stod(again[2 + c]), std::stod(row[4 + c]), 1e-6);
  }
  EXPECT_TRUE(parse("new.json")["errors"]["kind"].contains("confusion"));
  write("unlabelled.csv", "redness,weight\n70,180\n");
  EXPECT_EQ(cdt("predict run unlabelled.csv --out new.csv").code, 0);
  EXPECT_EQ(parts_of(slurp("new.csv"), '\n').size(), 2U);
  write("strange.csv", "redness,weight,kind\n70,180,melon\n");
  const Result strange = cdt("predict run strange.csv --out strange-out.csv");
  EXPECT_EQ(strange.code, 0);  // a prediction needs no label
  EXPECT_THAT(strange.err, HasSubstr("errors were not measured"));
  EXPECT_THAT(strange.err, HasSubstr("strange.csv:2: expected a known class"));
  EXPECT_EQ(parts_of(slurp("strange-out.csv"), '\n').size(), 2U);
}

TEST_F(Classes, WholeNumbersAreClassesToo) {
  write("numbers.csv", fruit(60, {"10", "2", "-1"}));
  ASSERT_EQ(train("--out run --steps 5", "numbers.csv").code, 0);
  EXPECT_EQ(parse("run/preprocess.json")["targets"][0]["classes"], (json{"-1", "2", "10"}));
  // The page counts confusions and draws no scatter of numbers.
  const std::string page = slurp("run/report.html");
  EXPECT_NE(page.find("true against predicted"), std::string::npos);
  EXPECT_EQ(page.find("predictions-1"), std::string::npos);
  ASSERT_EQ(cdt("predict run numbers.csv --out new.csv").code, 0);
}

TEST_F(Classes, EveryMethodTrains) {
  for (const std::string method : {"gd", "gd-matched", "cdt", "guarded", "momentum", "adam",
                                   "lbfgs", "guarded --batch 16", "guarded --smoothing 0.02"}) {
    const Result result = train("--out run --overwrite --steps 40 --method " + method);
    ASSERT_EQ(result.code, 0) << method << "\n" << result.err;
    const json history = parse("run/run.json");
    EXPECT_LT(history["result"]["train_loss"], std::log(3.0)) << method;
  }
  EXPECT_EQ(cdt("train fruit.csv --target price --drop kind --goal fit --loss mae --method adam "
                "--steps 5 "
                "--hidden 8 --out m")
                .code,
            0);
}

TEST_F(Classes, EveryFormFitsThem) {
  const auto result_of = [&](const std::string& run) { return parse(run + "/run.json")["result"]; };
  for (const std::string name : {"dual", "primal", "free", "sketch", "batch"}) {
    SCOPED_TRACE(name);
    const std::string flags = "--form " + name + " --steps ";
    const Result whole = train(flags + "8 --out " + name);
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_EQ(result_of(name)["form"]["name"], name);
    EXPECT_THAT(result_of(name)["form"]["why"].get<std::string>(),
                HasSubstr(name == "batch" ? "one after another" : "asked for"));
    EXPECT_LT(result_of(name)["train_loss"], std::log(3.0));
    ASSERT_EQ(train(flags + "3 --overwrite --out parts").code, 0);
    ASSERT_EQ(cdt("train --resume parts --steps 8").code, 0);
    EXPECT_TRUE(slurp(name + "/model.safetensors") == slurp("parts/model.safetensors"));
  }
  expect_refused("--form free --lr 3", "a form of guarded steps goes without lr");
  // Weights have no controller of classes: a form solves the steps.
  std::string weights = "weight,redness,kind,price,mass\n";
  std::istringstream lines(fruit(60));
  std::string line;
  std::getline(lines, line);
  for (int i = 0; std::getline(lines, line); ++i) weights += line + (i % 2 ? ",1\n" : ",4\n");
  write("weights.csv", weights);
  const Result weighted = train("--sample-weights mass --steps 2 --out mass", "weights.csv");
  ASSERT_EQ(weighted.code, 0) << weighted.err;
  EXPECT_EQ(result_of("mass")["form"]["name"], "dual");
  EXPECT_THAT(result_of("mass")["form"]["why"].get<std::string>(), HasSubstr("126 residuals"));
  // By itself a small table has its controller, and a kernel that does not fit gives way to a form.
  const Result small = train("--steps 2 --out small");
  ASSERT_EQ(small.code, 0) << small.err;
  EXPECT_FALSE(result_of("small").contains("form"));
  write("many.csv", fruit(400));
  const Result large = train("--steps 2 --memory 1 --out large", "many.csv");
  ASSERT_EQ(large.code, 0) << large.err;
  EXPECT_THAT(large.err, HasSubstr("steps are taken from all 280 rows, by a form"));
  EXPECT_EQ(result_of("large")["form"]["name"], "primal");
  EXPECT_THAT(result_of("large")["form"]["why"].get<std::string>(), HasSubstr("840 residuals"));
  EXPECT_EQ(cdt("train --resume large --steps 3").code, 0) << slurp("err.txt");
}

TEST_F(Classes, ResumedEqualsUninterrupted) {
  const std::string common = "--stop-loss 0 --smoothing 0.2 --lr 20 ";
  ASSERT_EQ(train(common + "--steps 12 --out whole").code, 0);
  ASSERT_EQ(train(common + "--steps 5 --out run").code, 0);
  ASSERT_EQ(cdt("train --resume run --steps 12").code, 0);
  EXPECT_TRUE(slurp("whole/model.safetensors") == slurp("run/model.safetensors"));
  EXPECT_TRUE(slurp("whole/predictions.csv") == slurp("run/predictions.csv"));
}

TEST_F(Classes, SaysWhatCannotBeLearned) {
  const Result text = cdt("train fruit.csv --target kind --goal fit --out refused");
  EXPECT_EQ(text.code, 2);
  EXPECT_THAT(text.err, HasSubstr("loss cross-entropy"));
  expect_refused("--target weight", "a single target");
  expect_refused("--target-scale none", "target-scale is for numbers");
  expect_refused("--method guarded --smoothing 0", "hard labels have none");
  expect_refused("--tune", "tune");
  const Result each =
      cdt("train fruit.csv --target price --drop kind --loss cross-entropy --out refused");
  EXPECT_EQ(each.code, 2);
  EXPECT_THAT(each.err, HasSubstr("60 classes in 60 rows"));
  const Result mae = cdt("train fruit.csv --target price --loss mae --out refused");
  EXPECT_EQ(mae.code, 2);
  EXPECT_THAT(mae.err, HasSubstr("no curvature"));
  write("same.csv", fruit(60, {"a", "a", "a"}));
  expect_refused("", "two classes or more", "same.csv");
  write("gap.csv", fruit(60) + "100,50,,1\n");
  expect_refused("--train-fraction 1", "missing in line 62", "gap.csv");
  write("rare.csv", fruit(60) + "100,50,quince,1\n");
  const Result rare = train("--train-fraction 0.5 --seed 2 --steps 2 --out rare", "rare.csv");
  EXPECT_EQ(rare.code, 0) << rare.err;
  EXPECT_EQ(parse("rare/run.json")["network"]["shape"], "2-16-4");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

TEST_F(Classes, WarnsOfAClassWithoutTrainingRowsAndOfContradictions) {
  write("rare.csv", fruit(60) + "100,50,quince,1\n");
  bool warned = false;
  for (int seed = 1; seed <= 8 && !warned; ++seed) {  // until the split leaves it out
    const Result result = train(
        "--train-fraction 0.5 --steps 1 --overwrite --out rare --seed " + std::to_string(seed),
        "rare.csv");
    ASSERT_EQ(result.code, 0) << result.err;
    warned = result.err.find("no training row has the class \"quince\"") != std::string::npos;
  }
  EXPECT_TRUE(warned);
  const Row first = parts_of(parts_of(fruit(60), '\n')[1], ',');
  write("twice.csv", fruit(60) + first[0] + "," + first[1] + ",plum,1\n");
  const Result result = train("--train-fraction 1 --steps 1 --out twice", "twice.csv");
  EXPECT_THAT(result.err,
              HasSubstr("lines 2, 62 are equal in every feature, but their kind differs"));
}

TEST_F(Classes, AnalyzeReportsTheLoopInLogits) {
  const Result result =
      cdt("analyze fruit.csv --target kind --drop price --loss cross-entropy --hidden 16 --json "
          "a.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("42 samples × 3 classes"));
  const json found = parse("a.json");
  EXPECT_EQ(found["n"], 42 * 2);
  EXPECT_TRUE(found["stable"]);
  EXPECT_GT(found["lr_max"], found["lr"]);
  const double rate = 2.5 * found["lr_max"].get<double>();
  ASSERT_EQ(cdt("analyze fruit.csv --target kind --drop price --loss cross-entropy --hidden 16 "
                "--json b.json --lr " +
                std::to_string(rate))
                .code,
            0);
  const json fast = parse("b.json");
  EXPECT_FALSE(fast["stable"]);
  EXPECT_NEAR(fast["radius_gd"].get<double>(), 4, 1e-3);  // |1 − 2·2.5|
  EXPECT_LE(fast["radius_cdt"], 1);
}

}  // namespace
}  // namespace cdt
