// The folder of a sweep: what is saved comes back, what does not fit is refused or made again.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/experiment/store.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "experiment/sample_plan.h"
#include "support/temp_folder.h"

namespace cdt::experiment {
namespace {

using test::made_up;
using test::sample_plan;
using testing::HasSubstr;
using testing::NanSensitiveDoubleEq;
using testing::Pointwise;

class StoreTest : public testing::Test {
 protected:
  std::filesystem::path folder() const { return folder_ / "sweep"; }
  void expect_refused(const Plan& plan, const std::string& checksum, const std::string& message) {
    try {
      Store(folder(), plan, checksum);
      ADD_FAILURE() << "not refused: " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
  cdt::test::TempFolder folder_;
};

TEST_F(StoreTest, ARunComesBackAsItWas) {
  const Store store(folder(), sample_plan(), "12");
  Case what{"small", "cdt", 0.1, 0.1, 3, 6, true, true};
  CaseRun run = made_up(what, 0.125);
  run.preflight = "all \"well\"\n";
  run.eigenvalues = {3, 1e-9};
  run.gain = {0.1, 2};
  run.factor_gd = {-1, 1};
  run.factor_cdt = {0.5, 0.9};
  run.trace_step = {0, 2};
  run.traces = {{4, 0.5, {0.1, 0.2}, {0.5, 0.75}}};
  run.errors = {{"price", false, 12.5}, {"rent", false, 0.5}};
  run.together = 7;
  EXPECT_FALSE(store.load(what));
  store.save(run);
  const auto back = store.load(what);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->what.key(), what.key());
  EXPECT_EQ(back->shape, run.shape);
  EXPECT_EQ(back->outcome, run.outcome);
  EXPECT_EQ(back->val_loss, run.val_loss);
  EXPECT_EQ(back->operations, run.operations);
  EXPECT_EQ(back->together, 7);
  EXPECT_EQ(back->step, run.step);
  EXPECT_THAT(back->val, Pointwise(NanSensitiveDoubleEq(), run.val)) << "a gap stays a gap";
  EXPECT_EQ(back->rejections, run.rejections);
  EXPECT_EQ(back->final_error, run.final_error);
  EXPECT_EQ(back->preflight, run.preflight);
  EXPECT_EQ(back->eigenvalues, run.eigenvalues);
  EXPECT_EQ(back->factor_cdt, run.factor_cdt);
  ASSERT_EQ(back->errors.size(), 2U);
  EXPECT_EQ(back->errors[1].target, "rent");
  EXPECT_EQ(back->errors[0].value, 12.5);
  EXPECT_FALSE(back->errors[0].is_class);
  ASSERT_EQ(back->traces.size(), 1U);
  EXPECT_EQ(back->traces[0].sample, 4);
  EXPECT_EQ(back->traces[0].augmented, run.traces[0].augmented);
}

TEST_F(StoreTest, OfARunAloneNothingIsSaidOfOthers) {
  const Store store(folder(), sample_plan(), "12");
  const Case what{"small", "cdt", 0.1, 0.1, 3, 6};
  store.save(made_up(what, 0.125));
  const auto file = folder() / "runs" / (what.key() + ".json");
  auto content = nlohmann::ordered_json::parse(read_file(file));
  EXPECT_FALSE(content.contains("together"));
  EXPECT_EQ(store.load(what)->together, 1) << "as in files of earlier versions";
  for (const nlohmann::ordered_json& wrong :
       {nlohmann::ordered_json(0), nlohmann::ordered_json(-2), nlohmann::ordered_json(1.5),
        nlohmann::ordered_json("all")}) {
    content["together"] = wrong;
    EXPECT_THROW(parse_run(content.dump(), "a run"), InvalidArgument) << wrong;
  }
}

TEST_F(StoreTest, ARunThatPredictsHasNoRateAndNoKernel) {
  const Store store(folder(), sample_plan(), "12");
  const Case what{"small", kPredict, 0, 0, 3, 0};
  CaseRun run = made_up(what, 0.125);
  run.lr = std::nan("");
  run.final_error.clear();
  run.row_norm.clear();
  run.errors = {{"kind", true, 0.25}};
  store.save(run);
  ASSERT_TRUE(std::filesystem::exists(folder() / "runs/small-predict-seed3.json"));
  const auto back = store.load(what);
  ASSERT_TRUE(back);
  EXPECT_TRUE(std::isnan(back->lr));
  ASSERT_EQ(back->errors.size(), 1U);
  EXPECT_TRUE(back->errors[0].is_class);
}

TEST_F(StoreTest, WhatIsDamagedOrTooLittleIsToBeRunAgain) {
  const Store store(folder(), sample_plan(), "12");
  Case what{"small", "cdt", 0.1, 0.1, 1, 6};
  store.save(made_up(what, 1));
  ASSERT_TRUE(store.load(what));
  what.details = true;
  EXPECT_FALSE(store.load(what)) << "it was saved without its spectrum";
  store.save(made_up(what, 1));
  ASSERT_TRUE(store.load(what));
  what.details = false;
  EXPECT_FALSE(store.load(what)->what.details) << "more than is wanted does no harm";
  const auto file = folder() / "runs" / (what.key() + ".json");
  const std::string text = read_file(file);
  std::ofstream(file) << text.substr(0, text.size() / 2);
  EXPECT_FALSE(store.load(what));
  std::ofstream(file) << "{}";
  EXPECT_FALSE(store.load(what));
  std::ofstream(file) << std::string(100'000, '[');
  EXPECT_FALSE(store.load(what));
}

TEST_F(StoreTest, ListsThatDoNotFitEachOtherAreRunAgain) {
  const Store store(folder(), sample_plan(), "12");
  const Case what{"small", "cdt", 0.1, 0.1, 1, 6, true, true};
  CaseRun run = made_up(what, 1);
  run.eigenvalues = {3, 1};
  run.gain = run.factor_gd = run.factor_cdt = {0.5, 0.25};
  run.trace_step = {0, 2};
  run.traces = {{4, 0.5, {0.1, 0.2}, {0.5, 0.75}}};
  store.save(run);
  ASSERT_TRUE(store.load(what));
  const auto file = folder() / "runs" / (what.key() + ".json");
  auto whole = nlohmann::ordered_json::parse(read_file(file));
  for (const char* seal : {"sealed", "checksum"})
    whole.erase(seal);  // as earlier versions wrote it
  std::ofstream(file) << whole;
  ASSERT_TRUE(store.load(what));
  for (const std::string place :
       {"/curve/step", "/curve/train", "/curve/val", "/curve/refreshed", "/curve/rejected",
        "/final_error", "/row_norm", "/details/eigenvalues", "/details/gain", "/details/factor_gd",
        "/details/factor_cdt", "/traces/step", "/traces/samples/0/outputs",
        "/traces/samples/0/augmented"}) {
    SCOPED_TRACE(place);
    for (const char* other : {"[]", "[1]", "[1, 2, 3, 4]", "null", "3", "[\"a\", \"b\", \"c\"]"}) {
      auto damaged = whole;
      damaged[nlohmann::ordered_json::json_pointer(place)] = nlohmann::ordered_json::parse(other);
      std::ofstream(file) << damaged;
      EXPECT_FALSE(store.load(what)) << other;
    }
  }
  auto empty = whole;  // of one length, but no curve
  for (auto& [name, list] : empty["curve"].items()) list = nlohmann::ordered_json::array();
  std::ofstream(file) << empty;
  EXPECT_FALSE(store.load(what));
  auto other = whole;
  other["outcome"] = "elsewhere";
  std::ofstream(file) << other;
  EXPECT_FALSE(store.load(what));
}

TEST_F(StoreTest, ArchitecturesNameFilesOfTheFolderAlone) {
  Plan plan = sample_plan();
  for (const std::string name : {"../../x", "/tmp/x", "..", "", "a/b", "a\nb"}) {
    SCOPED_TRACE(name);
    plan.architectures = {{name, {6}}};
    EXPECT_THROW(require_sound(plan), InvalidArgument);
    const Store store(folder(), sample_plan(), "12");
    const Case what{"../../x", "cdt", 0.1, 0.1, 1, 6};
    EXPECT_THROW(store.save(made_up(what, 1)), InvalidArgument);
    EXPECT_THROW(store.load(what), InvalidArgument);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x-cdt-lr0.1-p0.1-seed1-steps6.json"));
}

TEST_F(StoreTest, WritesThroughNoLinkAndOverNoFileOfAnother) {
  namespace fs = std::filesystem;
  fs::create_directories(folder());
  const fs::path mine = folder() / "results.csv";
  write_file_atomically(mine, {"mine"});
  expect_refused(sample_plan(), "12", "has a results.csv");
  EXPECT_EQ(read_file(mine), "mine");
  fs::remove(mine);
  const fs::path elsewhere = folder_ / "elsewhere";
  write_file_atomically(elsewhere, {"precious"});
  const Store store(folder(), sample_plan(), "12");
  const CaseRun run = made_up({"small", "cdt", 0.1, 0.1, 3, 6}, 0.125);
  store.save(run);
  const fs::path saved = fs::directory_iterator(folder() / "runs")->path();
  for (const fs::path& file : {saved, folder() / "sweep.json"}) {
    const std::string text = read_file(file);
    write_file_atomically(folder_ / "copy", {text});
    fs::remove(file);
    fs::create_symlink(folder_ / "copy", file);
    store.save(run);
    const Store again(folder(), sample_plan(), "12");
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file))) << file;
    fs::remove(file);
    fs::create_symlink(elsewhere, file);
    store.save(run);
    EXPECT_EQ(read_file(elsewhere), "precious") << file;
    fs::remove(file);
    write_file_atomically(file, {text});
  }
}

TEST_F(StoreTest, NothingIsWrittenThroughALinkedFolder) {
  namespace fs = std::filesystem;
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::create_directories(elsewhere);
  write_file_atomically(elsewhere / "mine", {"precious"});
  fs::create_directories(folder());
  fs::create_directory_symlink(elsewhere, folder() / "runs");
  expect_refused(sample_plan(), "12", "runs: expected a folder, got a link");
  EXPECT_FALSE(fs::exists(folder() / "sweep.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(elsewhere), fs::directory_iterator()), 1);
}

TEST_F(StoreTest, NoBitOfASweepChangesUnseen) {
  namespace fs = std::filesystem;
  {
    const Store store(folder(), sample_plan(), "12");
  }
  const fs::path path = folder() / "sweep.json";
  const std::string sound = read_file(path);
  for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    std::string text = sound;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    EXPECT_THROW(require_intact(folder(), "sweep.json"), InvalidArgument) << "bit " << bit;
    if (bit % 101 == 0) {
      EXPECT_THROW(Store(folder(), sample_plan(), "12"), InvalidArgument) << "bit " << bit;
    }
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << sound;
  EXPECT_NO_THROW(Store(folder(), sample_plan(), "12"));
  EXPECT_TRUE(require_intact(folder(), "sweep.json"));
}

TEST_F(StoreTest, SettingsAreUtf8) {
  Plan plan = sample_plan();
  plan.settings.push_back({"drop", "caf\xe9", "given", ""});
  expect_refused(plan, "12", "sweep.json: settings.drop: expected UTF-8 text");
}

TEST_F(StoreTest, RunsOfAFolderShareTheirSettings) {
  Plan plan = sample_plan();
  Store(folder(), plan, "12");
  EXPECT_NO_THROW(Store(folder(), plan, "12"));
  expect_refused(plan, "13", "its runs were made with file \"12\", not \"13\"");
  plan.settings[0].value = "rent";
  expect_refused(plan, "12", "with target \"price\", not \"rent\"; take another folder");
  plan = sample_plan();
  plan.settings.push_back({"drop", "area", "given", ""});
  expect_refused(plan, "12", "with drop \"\", not \"area\"");
  plan = sample_plan();
  plan.settings[1].value = "7";  // of the axes, which may grow
  plan.architectures = {{"small", {6}}, {"other", {3}}};
  EXPECT_NO_THROW(Store(folder(), plan, "12"));
  plan.architectures = {{"large", {5}}};
  expect_refused(plan, "12", "with architecture large \"12,12\", not \"5\"");

  const auto refused = [&](const std::string& content, const std::string& message) {
    SCOPED_TRACE(content.substr(0, 60));
    std::ofstream(folder() / "sweep.json") << content;
    expect_refused(sample_plan(), "12", "sweep.json: " + message);
  };
  refused("{", "is not JSON");
  refused("[]", "expected the format \"cdt-sweep-1\", got a file without a format");
  refused(R"({"format": "cdt-sweep-9"})", "expected the format \"cdt-sweep-1\", got");
  refused(R"({"format": 3})", "expected the format \"cdt-sweep-1\", got 3");
  refused(R"({"format": "cdt-sweep-1", "settings": 1})", "settings: expected an object");
  refused(R"({"format": "cdt-sweep-1"})", "settings: expected an object, got nothing");
  refused(R"({"format": "cdt-sweep-1", "settings": {"file": 12}})", "settings.file: expected text");
  refused(R"({"format": "cdt-sweep-1", "settings": {}, "sessions": {}})",
          "sessions: expected a list");
  refused(R"({"format": "cdt-sweep-1", "settings": {}, "sessions": [{"runs": "3"}]})",
          "sessions[0].runs: expected a whole number");
  refused(R"({"format": "cdt-sweep-1", "settings": )" + std::string(100'000, '['),
          "expected at most 32 lists and objects within each other");
  std::ofstream(folder_ / "file") << "";
  EXPECT_THROW(Store(folder_ / "file", sample_plan(), "12"), InvalidArgument);
}

TEST_F(StoreTest, SessionsThatMadeRunsAreKept) {
  const Store store(folder(), sample_plan(), "12");
  EXPECT_TRUE(store.add({}).empty());
  EXPECT_EQ(store.add({3, 1.5, 20, 2, "cpu", "1.13", 100}).size(), 1U);
  EXPECT_EQ(Store(folder(), sample_plan(), "12").add({}).size(), 1U) << "no runs, no session";
  const auto sessions = store.add({1, 0.5, 4, 1, "cpu", "1.13", 50});
  ASSERT_EQ(sessions.size(), 2U);
  EXPECT_EQ(sessions[0].runs, 3);
  EXPECT_EQ(sessions[0].wall_seconds, 1.5);
  EXPECT_EQ(sessions[1].gemm_gflops, 50);
  EXPECT_EQ(sessions[1].libtorch, "1.13");
}

}  // namespace
}  // namespace cdt::experiment
