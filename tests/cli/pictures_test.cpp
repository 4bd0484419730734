// Pictures as a user meets them: made, analysed, trained on, predicted, reproduced.
#include <sys/stat.h>

#include "support/program.h"

namespace cdt::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class PictureProgram : public Program {
 protected:
  void SetUp() override {
    const Result made = cdt("data make-pictures shapes --rows 16 --size 16");
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(made.out, HasSubstr("classes disc and square"));
  }
  static constexpr const char* kSmall =
      " --size 8 --hidden 4 --train-fraction 0.5 --threads 1 --no-analysis ";
};

TEST_F(PictureProgram, AreAnalysedTrainedOnAndPredicted) {
  const Result analysis =
      cdt("analyze shapes --arch cnn --size 8 --hidden 4 --lr 0.01 --threads 1 --json -");
  ASSERT_EQ(analysis.code, 0) << analysis.err;
  const auto findings = nlohmann::json::parse(analysis.out);
  EXPECT_EQ(findings["samples"], 11);
  EXPECT_EQ(findings["outputs"], 2);

  const Result trained = cdt(std::string("train shapes --out run --stop-loss 1e-4") + kSmall);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("cnn 3×8×8-2"));
  EXPECT_THAT(trained.out, HasSubstr("accuracy of class"));
  const auto record = parse("run/run.json");
  EXPECT_LE(record["result"]["train_loss"], 1e-4);
  EXPECT_EQ(record["settings"]["arch"], "cnn");
  EXPECT_TRUE(exists("run/report.html"));
  EXPECT_EQ(cdt("verify run").code, 0);
  EXPECT_EQ(cdt("report run --out page.html").code, 0);

  const Result predicted = cdt("predict run shapes --out new.csv --json -");
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_GE(nlohmann::json::parse(predicted.out)["errors"]["class"]["accuracy"], 0.5);
  EXPECT_THAT(slurp("new.csv"), HasSubstr("row,picture,class,P(class=disc),P(class=square)\n"));
  // What has no class, one picture, and a class that training did not know.
  ASSERT_EQ(
      shell("cp -r shapes/disc flat && mkdir -p zoo/cat && cp shapes/disc/*.png zoo/cat").code, 0);
  EXPECT_EQ(cdt("predict run flat --out flat.csv").code, 0);
  EXPECT_EQ(cdt("predict run flat/01.png --out -").code, 0);
  const Result unknown = cdt("predict run zoo --out zoo.csv");
  EXPECT_EQ(unknown.code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("errors were not measured"));
  write("flat/notes.txt", "no picture");
  expect_wrong_usage("predict run flat --out flat.csv", "notes.txt");
  const Result skipped = cdt("predict run flat --skip-bad --out flat.csv --json -");
  EXPECT_EQ(skipped.code, 0);
  EXPECT_EQ(nlohmann::json::parse(skipped.out)["skipped"], 1);
  write("t.csv", "a,b\n1,2\n");
  expect_wrong_usage("predict run t.csv --out new.csv", "expected pictures");

  // More steps of the same run.
  const Result more = cdt("train --resume run --stop-loss 1e-5");
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_LE(parse("run/run.json")["result"]["train_loss"], 1e-5);

  // A folder from elsewhere does not choose where is written.
  auto evil = parse("run/run.json");
  for (const char* seal : {"sealed", "checksum"}) evil.erase(seal);
  evil["version"] = "0.1.0";  // which has no seal
  evil["settings"]["cache"] = (folder_ / "evil/place").string();
  write("run/run.json", evil.dump());
  EXPECT_EQ(cdt("train --resume run --stop-loss 1e-6").code, 0);
  EXPECT_FALSE(exists("evil"));
}

TEST_F(PictureProgram, SayWhatIsWrong) {
  expect_wrong_usage("train shapes --target price --out refused", "target is for tables");
  expect_wrong_usage("train shapes --categories onehot --out refused", "categories is for tables");
  expect_wrong_usage("train shapes --goal predict --out refused", "goal predict is for tables");
  expect_wrong_usage("train shapes --out shapes/run", "as if it were a class");
  expect_wrong_usage("train shapes --arch alexnet --size 32 --out refused", "too small");
  expect_wrong_usage("train shapes --arch alexnet --hidden 4 --out refused", "hidden");
  expect_wrong_usage("train shapes/disc --out refused", "no folders");
  expect_wrong_usage("analyze shapes --quantiles 3", "quantiles is for tables");
  expect_wrong_usage("data make-pictures shapes", "expected a new folder");
  expect_wrong_usage("compare shapes --target a", "shapes");
  write("t.csv", "a,b\n1,2\n2,4\n3,5\n");
  expect_wrong_usage("train t.csv --out refused", "--target is required");
  expect_wrong_usage("train t.csv --target b --size 9 --out refused", "size is for pictures");
  expect_wrong_usage("train t.csv --target b --arch cnn --goal fit --out refused", "cnn");
  write("shapes/square/bad.png", "no picture");
  expect_wrong_usage(std::string("train shapes --out refused") + kSmall, "bad.png");
  EXPECT_FALSE(exists("refused"));
  const Result done =
      cdt(std::string("train shapes --out run --steps 2 --skip-bad --lr 0.01") + kSmall);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(parse("run/run.json")["data"]["skipped"], 1);
  EXPECT_THAT(done.err, HasSubstr("1 files left out"));
}

TEST_F(PictureProgram, WithoutAGpuEveryCommandSaysSo) {
  if (cdt("info --device cuda").code == 0) GTEST_SKIP() << "there is a GPU";
  for (const char* command :
       {"info", "train shapes --out refused", "analyze shapes", "reproduce pets --out refused",
        "predict run shapes --out x.csv", "compare t.csv --target b --out refused",
        "kernel --model m.safetensors --inputs x.npy --out k.npy"}) {
    write("t.csv", "a,b\n1,2\n2,4\n3,5\n");
    expect_wrong_usage(std::string(command) + " --device cuda", "CUDA");
  }
}

constexpr const char* kExperiment = R"toml(
title = "Shapes"
loss_unit = 0.1
[settings]
rows = { value = 12 }
train-fraction = { value = 0.5 }
size = { value = 8 }
scale = { value = "standard" }
fit = { value = "train" }
activation = { value = "relu" }
parametrization = { value = "standard" }
sigma-w = { value = 1.0 }
sigma-b = { value = 0.1 }
dtype = { value = "float32" }
loss = { value = "mse" }
schedule = { value = "inverse" }
decay = { value = 0.01 }
q = { value = 1.0 }
p = { value = 0.1 }
steps = { value = 10 }
seeds = { value = 2 }
lrs = { value = [0.1, 0.01] }
methods = { value = ["gd", "cdt", "guarded"] }
validate-every = { value = 5 }
[[architectures]]
name = "small"
arch = "cnn"
hidden = [3]
[published]
rows = [{ architecture = "small", lr = 0.1, method = "gd", converged = 2, val_mse_mean = 0.25, val_mse_std = 0.1 }]
)toml";

TEST_F(PictureProgram, SweepsGoOnAndTellAccuracies) {
  write("shapes.toml", kExperiment);
  const std::string command = "reproduce pets --experiment shapes.toml --jobs 1 --out sweep ";
  const Result part = cdt(command + "--data shapes --lrs 0.1 --methods gd");
  ASSERT_EQ(part.code, 0) << part.err;
  const Result whole = cdt(command + "--data shapes --json -");
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto results = nlohmann::json::parse(whole.out);
  ASSERT_EQ(results["rows"].size(), 6U);
  EXPECT_EQ(results["timings"]["runs"], 12);
  EXPECT_EQ(results["timings"]["runs_made_now"], 10);
  EXPECT_EQ(results["rows"][0]["shape"], "cnn 3×8×8-2");
  EXPECT_EQ(results["rows"][0]["published"]["val_mse_mean"], 0.25);
  EXPECT_EQ(results["rows"][0]["errors"][0]["target"], "class");
  EXPECT_TRUE(results["rows"][0]["errors"][0].contains("error_rate_mean"));
  EXPECT_THAT(results["claims"].dump(), HasSubstr("At 0.1 both methods overfit"));
  EXPECT_THAT(slurp("sweep/results.md"), HasSubstr("units of 10⁻¹"));
  EXPECT_EQ(cdt("verify sweep").code, 0);
  // Other pictures are another sweep.
  ASSERT_EQ(shell("rm shapes/disc/01.png").code, 0);
  expect_wrong_usage(command + "--data shapes", "take another folder");
  // Generated ones, without published values beside them.
  const Result generated =
      cdt("reproduce pets --experiment shapes.toml --jobs 1 --out made "
          "--seeds 1 --lrs 0.1 --methods gd --json -");
  ASSERT_EQ(generated.code, 0) << generated.err;
  EXPECT_TRUE(nlohmann::json::parse(generated.out)["rows"][0]["published"].is_null());
  EXPECT_THAT(generated.out, HasSubstr("generated discs and squares"));
  expect_wrong_usage("reproduce ames", "--data is required");
  expect_wrong_usage("reproduce ames --data shapes", "expected a table");
  expect_wrong_usage("reproduce pets --data shapes.toml", "expected a folder of pictures");
  expect_wrong_usage("reproduce cats --data shapes", "ames or pets");
}

}  // namespace
}  // namespace cdt::test
