// Pages of runs, from folders as they are and as they may be damaged.
#include <cdt/core/error.h>
#include <cdt/report/run_page.h>
#include <cdt/run/parts/tables.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace cdt::run {
namespace {

using nlohmann::ordered_json;
using report::Figure;
using report::Page;
using report::Series;
using testing::HasSubstr;
using Text = const std::string&;

constexpr const char* kHeader =
    "step,lr,train_loss,val_loss,augment_norm,linearization_error,refreshed,rejected,seconds\n";

ordered_json a_run() {
  return ordered_json::parse(R"({
    "format": "cdt-run-1", "version": "0.1.0", "revision": "abc", "seed": 1,
    "settings": {"file": "/data/homes.csv", "target": "price", "method": "gd"},
    "defaults": {"steps": "1000"},
    "data": {"file": "/data/homes.csv", "rows": 40, "train": 28, "validation": 12},
    "network": {"shape": "3-16-1", "parameters": 81},
    "machine": {"device": "cpu", "threads": 1},
    "analysis_text": "Pre-flight: all well",
    "result": {"outcome": "target", "in_words": "Converged.", "steps": 2, "lr": 0.1, "train_loss": 1e-7,
               "val_loss": 0.002, "best_step": 2, "best_val_loss": 0.002, "linearizations": 2, "rejected": 1,
               "seconds": 0.5},
    "errors": {"train": {"price": {"rmse": 3.5, "mae": 2, "r2": 1}},
               "validation": {"price": {"rmse": 42.5, "mae": 21, "r2": null}}},
    "seconds": {"load": 0.1, "training": 0.5, "total": 0.7}})");
}

class RunPages : public testing::Test {
 protected:
  void write(Text name, Text text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  void write_run(Text name, const ordered_json& run = a_run()) {
    write(name + "/run.json", run.dump());
    write(name + "/history.csv", std::string(kHeader) +
                                     "0,0.1,0.5,0.6,2.5,,1,0,0.0\n"
                                     "1,0.1,0.01,,1.5,,1,1,0.2\n"
                                     "2,,1e-7,0.002,,,0,0,0.5\n");
    write(name + "/predictions.csv",
          "row,split,price,price "
          "predicted\n1,train,100,101\n2,train,200,199\n3,validation,150,190\n");
    write(name + "/spectrum.csv",
          "mode,eigenvalue,step,gain,factor_gd,factor_cdt\n1,100,3,-0.4,-2,-0.8\n2,1,0.03,2.1,0.97,"
          "0.907\n");
  }
  Page page(const std::vector<std::string>& names) const {
    std::vector<std::filesystem::path> folders;
    folders.reserve(names.size());
    for (Text name : names) folders.push_back(folder_ / name);
    Page page = report::run_page(read_records(folders));
    EXPECT_NO_THROW(report::to_html(page));
    return page;
  }
  static std::vector<std::string> ids(const Page& page) {
    std::vector<std::string> ids;
    for (const auto& section : page.sections) {
      for (const auto& figure : section.figures) ids.push_back(figure.id);
    }
    return ids;
  }
  static const Figure& figure(const Page& page, Text id) {
    for (const auto& section : page.sections) {
      for (const auto& figure : section.figures) {
        if (figure.id == id) return figure;
      }
    }
    throw std::runtime_error("no figure " + id);
  }
  void expect_refused(const std::function<void()>& action, Text message) const {
    try {
      action();
      ADD_FAILURE() << "not refused: " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_LT(std::string(error.what()).size(), 400u) << error.what();
    }
  }
  test::TempFolder folder_;
};

TEST_F(RunPages, ARunBecomesAPage) {
  write_run("run");
  const Page page = this->page({"run"});
  EXPECT_EQ(ids(page), (std::vector<std::string>{"losses", "control", "events", "predictions-1",
                                                 "residuals-1", "spectrum"}));
  EXPECT_EQ(figure(page, "losses").series[0].y, (std::vector<double>{0.5, 0.01, 1e-7}));
  EXPECT_EQ(figure(page, "losses").series[1].x, (std::vector<double>{0, 2}))
      << "no gap where it was not evaluated";
  EXPECT_EQ(figure(page, "events").series[1].y, (std::vector<double>{0, 1}));
  EXPECT_EQ(figure(page, "predictions-1").series[1].x, (std::vector<double>{190}));
  EXPECT_EQ(figure(page, "spectrum").series[1].y, (std::vector<double>{2, 0.97}));
  EXPECT_NEAR(figure(page, "spectrum").series[3].y[0], 0.6, 1e-12);
  const std::string html = report::to_html(page);
  for (const char* text :
       {"Converged.", "Pre-flight: all well", "homes.csv", "42.5", "threads", "3-16-1"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
}

TEST_F(RunPages, RunsThatDidNotEndWellHaveAPageToo) {
  ordered_json lasting = a_run();
  lasting["result"] = nullptr;
  for (const char* part : {"errors", "seconds", "analysis_text"}) lasting.erase(part);
  write("lasting/run.json", lasting.dump());
  EXPECT_THAT(report::to_html(page({"lasting"})), HasSubstr("has not ended"));

  ordered_json diverged = a_run();
  diverged["errors"] = nullptr;
  diverged["result"]["train_loss"] = diverged["result"]["val_loss"] = nullptr;
  diverged["result"]["best_step"] = nullptr;
  write("diverged/run.json", diverged.dump());
  write("diverged/history.csv",
        std::string(kHeader) + "0,9,1,,,,0,0,0\n1,9,1e300,,,,0,0,0\n2,,inf,,,,0,0,0\n");
  EXPECT_EQ(figure(page({"diverged"}), "losses").series[0].y, (std::vector<double>{1, 1e300}));

  ordered_json unvalidated = a_run();
  unvalidated["errors"]["validation"] = nullptr;
  write_run("unvalidated", unvalidated);
  write("unvalidated/history.csv", std::string(kHeader) + "0,,1,,,,0,0,0\n");
  EXPECT_EQ(figure(page({"unvalidated"}), "losses").series.size(), 1u);

  write_run("classes");
  write("classes/predictions.csv",
        "row,split,kind,kind predicted\n1,train,a,a\n2,validation,a,\"b, c\"\n");
  EXPECT_THAT(report::to_html(page({"classes"})), HasSubstr("true against predicted"));
  write("classes/history.csv", kHeader);
  write("classes/predictions.csv", "row,split,price,price predicted\n");
  EXPECT_EQ(ids(page({"classes"})), std::vector<std::string>{"spectrum"});
}

TEST_F(RunPages, ARunThatPredictsShowsItsPathAndWhatToExpect) {
  ordered_json run = a_run();
  run["settings"]["goal"] = "predict";
  run["settings"]["method"] = "path";
  run["prediction"] = ordered_json::parse(R"({"members": 4, "points": 2, "decay": 3.5,
    "picked": [{"activation": "relu", "point": 2, "loss": 0.15},
               {"activation": "tanh", "point": 1, "loss": 0.55}],
    "expected": [{"target": "price", "rows": 20, "rmse": {"value": 42.5, "error": 3.1}, "r2": 0.9,
                  "rmse_of_linear": 60.5, "rmse_of_mean": 100.25}],
    "importance": [{"column": "area", "increase": 2.5}]})");
  run["errors"]["test"] = {{"price", {{"rmse", 44.25}, {"mae", 30}, {"r2", 0.8}}}};
  write_run("run", run);
  std::string header = kHeader;
  header.insert(header.size() - 1, ",objective,decay,freedom");
  write("run/history.csv", header +
                               "0,,1,1,,,1,0,0,1,8,5\n"
                               "1,,0.5,0.6,,,1,0,1,0.6,4,10\n"
                               "2,,0.1,0.2,,,1,0,2,0.2,2,20\n"
                               "3,,,0.3,,,0,0,3,,,\n");
  write("run/predictions.csv",
        "row,split,price,price predicted\n1,train,100,101\n3,validation,150,190\n4,test,10,12\n");
  const Page page = this->page({"run"});
  EXPECT_EQ(ids(page),
            (std::vector<std::string>{"path", "predictions-1", "residuals-1", "spectrum"}));
  EXPECT_EQ(figure(page, "path").series[1].x, (std::vector<double>{8, 4, 2}));
  EXPECT_EQ(figure(page, "path").series[3].x, std::vector<double>{4});
  EXPECT_EQ(figure(page, "path").series[3].y, std::vector<double>{0.15});
  EXPECT_EQ(figure(page, "path").series[4].name, "picked point of tanh");
  EXPECT_EQ(figure(page, "path").series[4].x, std::vector<double>{8});
  EXPECT_EQ(figure(page, "predictions-1").series[2].name, "test rows");
  EXPECT_THAT(page.summary[0], HasSubstr("42.5 ± 3.1"));
  EXPECT_THAT(page.summary[0], HasSubstr("100.2"));
  EXPECT_THAT(report::to_html(page), HasSubstr("250.0 %"));
  EXPECT_THAT(page.summary[1], HasSubstr("On test rows the RMS error of price is 44.25"));
  EXPECT_THAT(page.summary[2], HasSubstr("4 networks 3-16-1 (81 parameters each) on 40 rows"));
}

TEST_F(RunPages, ClassesHaveTheirProbabilitiesAndTheirBaselines) {
  ordered_json run = a_run();
  run["errors"]["train"] = run["errors"]["validation"] = ordered_json::parse(R"({"kind":
    {"accuracy": 0.875, "cross_entropy": 0.3, "classes": ["a", "b(c"],
     "confusion": [[6, 0], [1, 1]]
}
})");
  write_run("run", run);
  write("run/predictions.csv",
        "row,split,kind,kind predicted,P(kind=a),P(kind=b(c)\n1,train,a,a,0.75,0.25\n"
        "2,validation,a,a,0.75,0.25\n3,validation,b(c,a,0.75,0.25\n");
  const RunRecord record = read_record(folder_ / "run");
  EXPECT_EQ(record.predictions.targets[0].classes, (std::vector<std::string>{"a", "b(c"}));
  const auto& classes = std::get<study::ClassErrors>(record.errors->validation[0].value);
  EXPECT_EQ(classes.balanced_accuracy, 0.75);
  EXPECT_EQ(classes.majority, 0.75);
  const Page page = this->page({"run"});
  EXPECT_EQ(figure(page, "reliability-1").series[0].y, std::vector<double>{0.5});
  EXPECT_THAT(
      page.summary[2],
      HasSubstr("87.5 % of kind are right (always saying the most frequent class: 75.0 %)"));
}

TEST_F(RunPages, WhatWasTunedReplacesTheDefaults) {
  ordered_json run = a_run();
  run["settings"]["lr"] = "0.5";
  run["defaults"]["p"] = "0.1";
  run["tuned"] = {{"lr", 0.25}, {"p", 0.03}, {"steps", 77}, {"val_loss", 0.1}};
  write_run("run", run);
  const Page page = this->page({"run"});
  for (const auto& section : page.sections) {
    EXPECT_NE(section.title, "Defaults of the other settings") << "all of them were tuned";
    if (section.title != "Settings that the forecast chose") continue;
    EXPECT_EQ(section.tables[0].rows,
              (std::vector<std::vector<std::string>>{{"p", "0.03"}, {"steps", "77"}}))
        << "the rate was given";
  }
  const std::string html = report::to_html(page);
  EXPECT_THAT(html, HasSubstr("Settings that the forecast chose"));
  EXPECT_THAT(html, testing::Not(HasSubstr("<td class=\"n\">1000</td>")));
}

TEST_F(RunPages, SeveralRunsAreLaidOverEachOther) {
  write_run("a/run");
  write_run("b/run");
  ordered_json other = a_run();
  other["settings"]["method"] = "cdt";
  write_run("c", other);
  const Page page = this->page({"a/run", "b/run", "c"});
  EXPECT_EQ(figure(page, "training-loss").series.size(), 3u);
  EXPECT_NE(figure(page, "training-loss").series[0].name,
            figure(page, "training-loss").series[1].name);
  EXPECT_EQ(page.sections[0].tables[0].rows.size(), 3u);
  EXPECT_THAT(report::to_html(page), HasSubstr("Settings in which they differ"));
}

TEST_F(RunPages, LongRunsKeepTheirPeaks) {
  write_run("run");
  std::string csv = kHeader;
  for (int k = 0; k < 50000; ++k) {
    csv += std::to_string(k) + ",0.1," + (k == 33333 ? "7" : "0.5") + ",,,," + (k % 3 ? "0" : "1") +
           ",0,0\n";
  }
  write("run/history.csv", csv);
  const Page page = this->page({"run"});
  const Series& loss = figure(page, "losses").series[0];
  EXPECT_LE(loss.x.size(), 1100u);
  EXPECT_EQ(loss.x.front(), 0);
  EXPECT_EQ(loss.x.back(), 49999);
  EXPECT_THAT(loss.y, testing::Contains(7.0));
  EXPECT_LE(figure(page, "events").series[0].x.size(), 201u);
}

TEST_F(RunPages, SaysWhatIsWrongWithARun) {
  write("file.txt", "");
  std::filesystem::create_directories(folder_ / "empty");
  expect_refused([&] { page({"nowhere"}); },
                 "nowhere: expected the folder of a run, but it does not exist");
  expect_refused([&] { page({"file.txt"}); }, "got a file");
  expect_refused([&] { page({"empty"}); }, "neither run.json nor results.json");
  write("run/run.json", "{\"format\": ");
  expect_refused([&] { page({"run"}); }, "run.json: is not JSON");
  ordered_json newer = a_run();
  newer["format"] = "cdt-run-2";
  newer["version"] = "9.0.0";
  write("run/run.json", newer.dump());
  expect_refused([&] { page({"run"}); },
                 "expected the format \"cdt-run-1\", got \"cdt-run-2\" of cdt 9.0.0");
  write_run("run");
  write("run/history.csv", "step,lr\n0,1\n");
  expect_refused([&] { page({"run"}); }, "run/history.csv: history: expected the header");
  write_run("run");
  write("run/predictions.csv", "row,split\n0,train\n1\n");
  expect_refused([&] { page({"run"}); }, "predictions.csv, line 3: expected 2 cells, got 1");
}

}  // namespace
}  // namespace cdt::run
