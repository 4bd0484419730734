// What is there stays, whatever a training is asked to do or meets.
#include <gmock/gmock.h>

#include "cli/training.h"

namespace cdt {
namespace {

using test::homes;
using test::Training;
using testing::HasSubstr;
namespace fs = std::filesystem;

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

/// The run is finished and kept; the program then ends as others do whom nobody reads.
TEST_F(Training, AClosedPipeDoesNotEndARun) {
  const Result result = shell("(" CDT_PROGRAM " train homes.csv" + std::string(kTrain) +
                              "--steps 5 --out run; echo $? >code) | true");
  EXPECT_EQ(slurp("code"), "141\n");
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(exists("run/model.safetensors"));
  EXPECT_FALSE(parse("run/run.json")["result"].is_null());
}

TEST_F(Training, AClosedPipeEndsWhatIsWrittenToItAtOnce) {
  trained("--steps 2 --out run");
  write("row", homes(1).substr(homes(1).find('\n') + 1));
  // Rows without end, predictions that nobody reads beyond the first.
  const Result endless =
      shell("{ head -1 homes.csv; while cat row; do :; done; } 2>&- | { timeout 60 " CDT_PROGRAM
            " predict run /dev/stdin --out - --threads 1; echo $? >code; } | head -2");
  EXPECT_EQ(slurp("code"), "141\n");
  EXPECT_THAT(endless.out, testing::StartsWith("row,price\n1,"));
  EXPECT_EQ(endless.err, "");
  for (const std::string command :
       {"data describe homes.csv", "verify run", "info", "--help", "train --help",
        "predict run homes.csv --out p.csv", "predict run homes.csv --out /dev/stdout",
        "data describe homes.csv --json - --quiet",
        "analyze homes.csv --target price --hidden 4"}) {
    SCOPED_TRACE(command);
    const Result result =
        shell("{ sleep 0.2; " CDT_PROGRAM " " + command + "; echo $? >code; } | true");
    EXPECT_EQ(slurp("code"), "141\n");
    EXPECT_EQ(result.err, "");
  }
}

/// Of files that others may not read, and what is written in their place.
TEST_F(Training, PrivateRunsStayPrivate) {
  const auto modes = [&] {
    std::map<std::string, unsigned> found;
    for (const auto& file : fs::directory_iterator(folder_ / "run")) {
      found[file.path().filename()] = static_cast<unsigned>(file.status().permissions());
    }
    return found;
  };
  const std::string open = "umask 022; " CDT_PROGRAM " train ";
  ASSERT_EQ(shell(open + "homes.csv" + kTrain + "--steps 2 --out run").code, 0);
  for (const auto& [name, mode] : modes()) EXPECT_EQ(mode, 0644U) << name;
  ASSERT_EQ(shell("chmod 600 run/*").code, 0);
  for (const std::string command :
       {std::string("--resume run --steps 4 --csv-safe"),
        "homes.csv" + std::string(kTrain) + "--steps 3 " + "--out run --overwrite"}) {
    ASSERT_EQ(shell(open + command).code, 0) << command << slurp("err.txt");
    for (const auto& [name, mode] : modes()) EXPECT_EQ(mode, 0600U) << name << " after " << command;
  }
  ASSERT_EQ(shell("chmod 644 run/*; chmod 600 run/model.safetensors").code, 0);
  ASSERT_EQ(shell(open + "homes.csv" + kTrain + "--steps 3 --out run --overwrite").code, 0);
  for (const auto& [name, mode] : modes()) {
    EXPECT_EQ(mode, name == "model.safetensors" ? 0600U : 0644U) << name;
  }
  ASSERT_EQ(shell("umask 022; " CDT_PROGRAM " report run; chmod 640 run/report.html; " CDT_PROGRAM
                  " report run")
                .code,
            0);
  EXPECT_EQ(modes().at("report.html"), 0640U);
}

TEST_F(Training, ARunThatDivergedHasNoModel) {
  const std::string common = "--method gd --lr 1e6 --out run --steps ";
  const Result result = train(common + "50");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out + result.err, HasSubstr("DIVERGED"));
  EXPECT_FALSE(exists("run/model.safetensors"));
  EXPECT_TRUE(exists("run/history.csv"));
  const Result quiet = train(common + "50 --overwrite --quiet");
  EXPECT_EQ(quiet.code, 1);
  EXPECT_THAT(quiet.err, HasSubstr("DIVERGED"));
  trained(common + "1 --overwrite");
  const auto before = files_in("run");
  const Result went_on = cdt("train --resume run --steps 50");
  EXPECT_EQ(went_on.code, 1);
  EXPECT_THAT(went_on.err, HasSubstr("run keeps the model and the results that it had"));
  EXPECT_EQ(files_in("run"), before);
}

}  // namespace
}  // namespace cdt
