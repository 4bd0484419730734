// Runs whose files were damaged, exchanged or replaced by something else.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/training.h"

namespace cdt {
namespace {

using nlohmann::json;
using test::Training;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Row = test::Row;

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
                   file + ": expected a regular file, got a pipe");
    EXPECT_EQ(shell("timeout 60 " CDT_PROGRAM " verify run").code, 1) << file;
    fs::rename(folder_ / "aside", folder_ / file);
  }
  EXPECT_EQ(cdt("verify run").code, 0);
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
