// cdt report, and the report that every run writes, as a sceptical user runs them.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/program.h"

namespace cdt {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using Text = const std::string&;

class Report : public test::Program {
 protected:
  void SetUp() override {
    std::ofstream csv(folder_ / "homes.csv");
    csv << "area,rooms,price\n";
    for (int i = 0; i < 30; ++i) {
      csv << 50 + i * 37 % 91 << "," << 1 + i % 5 << ","
          << 900 * (50 + i * 37 % 91) + 7000 * (i % 5) << "\n";
    }
  }
  void trained(Text flags) {
    const Result result =
        cdt("train homes.csv --target price --threads 1 --goal fit --hidden 8 --steps 5 --quiet " +
            flags);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  void expect_refused(Text arguments, Text message) {
    SCOPED_TRACE(arguments);
    const Result result = cdt("report " + arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_LT(result.err.size(), 400u) << result.err;
    EXPECT_EQ(result.out, "");
  }
  static std::string results(Text rows, Text format = "cdt-results-1") {
    return R"({"format": ")" + format + R"(", "version": "0.1.0", "title": "A sweep", "rows": )" +
           rows + "}";
  }
  static constexpr const char* kRows =
      R"([{"architecture": "2-8-1", "lr": 0.1, "method": "cdt", "val_mse_mean": 0.5}])";
};

TEST_F(Report, EveryRunWritesOne) {
  trained("--out run");
  const json run = json::parse(slurp("run/run.json"));
  EXPECT_THAT(run["analysis_text"].get<std::string>(), HasSubstr("Pre-flight"));
  const std::string html = slurp("run/report.html");
  EXPECT_THAT(html, HasSubstr("Pre-flight: 21 samples"));
  EXPECT_THAT(html, HasSubstr("2-8-1"));
  EXPECT_THAT(html, HasSubstr("figure-spectrum"));

  std::istringstream spectrum(slurp("run/spectrum.csv"));
  std::string line;
  std::getline(spectrum, line);
  EXPECT_EQ(line, "mode,eigenvalue,step,gain,factor_gd,factor_cdt");
  int modes = 0;
  for (double last = INFINITY, value[6]; std::getline(spectrum, line); ++modes) {
    std::istringstream cells(line);
    char comma = 0;
    for (double& cell : value) cells >> cell >> comma;
    EXPECT_EQ(value[0], modes + 1);
    EXPECT_LE(value[1], last) << "the fastest mode comes first";
    EXPECT_NEAR(value[4], 1 - value[2], 1e-9 * (1 + value[2]));
    EXPECT_NEAR(value[5], 1 - value[2] * (1 + value[3]), 1e-6 * (1 + value[2]));
    EXPECT_LE(std::abs(value[5]), 1);
    last = value[1];
  }
  EXPECT_EQ(modes, 21);
}

TEST_F(Report, TellsOfTheRunThatIsThereNow) {
  trained("--out run");
  trained("--out run --overwrite --no-analysis --method gd");
  EXPECT_FALSE(exists("run/spectrum.csv"));
  EXPECT_THAT(slurp("run/report.html"), Not(HasSubstr("figure-spectrum")));
  trained("--out other");
  ASSERT_EQ(cdt("train --resume other --steps 8 --stop-loss 0 --quiet").code, 0);
  EXPECT_THAT(slurp("other/report.html"), HasSubstr("figure-spectrum"));
  EXPECT_THAT(json::parse(slurp("other/run.json"))["analysis_text"].get<std::string>(),
              HasSubstr("Pre-flight"));
}

TEST_F(Report, InterruptedAndDivergedRunsHaveOneToo) {
  EXPECT_EQ(cdt("train homes.csv --target price --goal fit --hidden 8 --method gd --lr 1e6 --out "
                "run --quiet")
                .code,
            1);
  EXPECT_THAT(slurp("run/report.html"), HasSubstr("DIVERGED"));
  const Result result = shell(
      CDT_PROGRAM
      " train homes.csv --target price --goal fit --hidden 8 --threads 1 --method gd --lr 1e-4 "
      "--stop-loss 0 "
      "--out cut "
      "--quiet --steps 100000000 --max-seconds 30 --checkpoint-seconds 0.2 & pid=$!; until [ -e "
      "cut/checkpoint.safetensors ] || ! kill -0 $pid; do sleep 0.02; done; kill -INT $pid; wait "
      "$pid");
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(slurp("cut/report.html"), HasSubstr("figure-losses"));
  EXPECT_LT(slurp("cut/report.html").size(), 400'000u) << "long histories are thinned";
}

TEST_F(Report, GoesWhereItIsTold) {
  trained("--out a --no-analysis");
  trained("--out b --no-analysis --method gd");
  std::filesystem::remove(folder_ / "a/report.html");
  EXPECT_THAT(cdt("report a").out, HasSubstr("a/report.html"));
  EXPECT_TRUE(exists("a/report.html"));
  EXPECT_EQ(cdt("report a/ b --quiet").out, "");
  EXPECT_THAT(slurp("report.html"), HasSubstr("Settings in which they differ"));
  EXPECT_EQ(json::parse(cdt("report a --out page.html --json -").out)["report"], "page.html");
  EXPECT_TRUE(exists("page.html"));
  EXPECT_THAT(cdt("report --help").out, HasSubstr("cdt report run1"));
}

TEST_F(Report, TakesTheFolderOfASweep) {
  std::filesystem::create_directory(folder_ / "sweep");
  write("sweep/results.json", results(kRows));
  EXPECT_EQ(cdt("report sweep").code, 0);
  EXPECT_THAT(slurp("sweep/report.html"), HasSubstr("A sweep"));
  write("sweep/figures.json",
        R"({"format": "cdt-figures-1", "figures": [{"id": "f", "title": "t", "series": []}]})");
  EXPECT_EQ(cdt("report sweep").code, 0);
  EXPECT_THAT(slurp("sweep/report.html"), HasSubstr("figure-f"));
}

TEST_F(Report, SaysWhatIsWrong) {
  trained("--out run --no-analysis");
  std::filesystem::create_directory(folder_ / "empty");
  std::filesystem::create_directory(folder_ / "sweep");
  expect_refused("empty",
                 "empty: expected the folder of a run or a sweep, but it has neither run.json nor "
                 "results.json");
  expect_refused("nowhere", "nowhere: expected the folder of a run, but it does not exist");
  expect_refused("homes.csv", "homes.csv: expected the folder of a run, got a file");
  expect_refused("run empty", "empty: ");
  expect_refused("run --out nowhere/page.html", "nowhere/page.html");
  write("sweep/results.json", results("[]"));
  expect_refused("sweep", "sweep/results.json: expected results, but its list of rows is empty");
  write("sweep/results.json", results(kRows, "cdt-results-2"));
  expect_refused("sweep",
                 "sweep/results.json: expected the format \"cdt-results-1\", got "
                 "\"cdt-results-2\" of cdt 0.1.0");
  write("sweep/results.json", "{\"format\": \"cdt-res");
  expect_refused("sweep", "sweep/results.json: is not JSON");
  write("sweep/results.json", results(kRows));
  write("sweep/figures.json", "{\"format\": \"cdt-figures-9\"}");
  expect_refused(
      "sweep", "sweep/figures.json: expected the format \"cdt-figures-1\", got \"cdt-figures-9\"");
  write("sweep/figures.json",
        R"({"format": "cdt-figures-1", "figures": [{"id": "../f", "title": "t", "series": []}]})");
  expect_refused("sweep", "the id of a figure must be letters, digits and hyphens, got '../f'");
  expect_refused("run sweep", "sweep: is a sweep");
  EXPECT_FALSE(exists("sweep/report.html"));
  EXPECT_EQ(cdt("report").code, 2);
}

/// A browser that draws nothing, but makes the file.
TEST_F(Report, PicturesAreWrittenThroughNoLink) {
  trained("--out run");
  std::filesystem::create_directory(folder_ / "bin");
  std::ofstream(folder_ / "bin/chromium")
      << "#!/bin/sh\nfor a; do case $a in --screenshot=*) echo drawn > \"${a#*=}\";; esac; done\n";
  std::ofstream(folder_ / "victim") << "precious";
  for (const char* name : {"losses.png", "losses.png.tmp"}) {
    std::filesystem::create_symlink("../victim", folder_ / "run" / name);
  }
  const Result result =
      shell("chmod +x bin/chromium; PATH=$PWD/bin:$PATH " CDT_PROGRAM " report run --png");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(slurp("victim"), "precious");
  EXPECT_EQ(slurp("run/losses.png"), "drawn\n");
  EXPECT_FALSE(std::filesystem::is_symlink(folder_ / "run/losses.png"));
}

}  // namespace
}  // namespace cdt
