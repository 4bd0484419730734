// Runs that were stopped, go on as if they had not been, and take nothing else from their folder.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/training.h"

namespace cdt {
namespace {

using nlohmann::json;
using test::homes;
using test::Training;

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
  json whole = parse("run/run.json");
  for (const char* seal : {"sealed", "checksum"}) whole.erase(seal);
  whole["version"] = "0.1.0";  // which has no seal
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

/// A pipe that stays empty keeps it reading.
TEST_P(Interrupting, EndsWhatHasNothingToSave) {
  for (const std::string command : {"analyze", "train"}) {
    const Result result = shell(
        "rm -f pipe; mkfifo pipe; sleep 60 > pipe & writer=$!; "
        "env --default-signal=HUP " CDT_PROGRAM " " +
        command +
        " pipe --target price & pid=$!; until ls -l /proc/$pid/fd 2>&- | grep -q '/pipe$' || ! "
        "kill -0 "
        "$pid; do sleep 0.02; done; sleep 0.2; kill -" +
        GetParam() + " $pid; wait $pid; code=$?; kill $writer; exit $code");
    EXPECT_EQ(result.code, 130) << command << ": " << result.err;
    EXPECT_EQ(result.err, "cdt: interrupted\n") << command;
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupting, testing::Values("INT", "TERM", "HUP"));

}  // namespace
}  // namespace cdt
