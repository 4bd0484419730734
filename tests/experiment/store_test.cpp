// The folder of a sweep: what is saved comes back, what does not fit is refused or made again.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/experiment/store.h>
#include <gmock/gmock.h>

#include <fstream>

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
  EXPECT_FALSE(store.load(what));
  store.save(run);
  const auto back = store.load(what);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->what.key(), what.key());
  EXPECT_EQ(back->shape, run.shape);
  EXPECT_EQ(back->outcome, run.outcome);
  EXPECT_EQ(back->val_loss, run.val_loss);
  EXPECT_EQ(back->operations, run.operations);
  EXPECT_EQ(back->step, run.step);
  EXPECT_THAT(back->val, Pointwise(NanSensitiveDoubleEq(), run.val)) << "a gap stays a gap";
  EXPECT_EQ(back->rejections, run.rejections);
  EXPECT_EQ(back->final_error, run.final_error);
  EXPECT_EQ(back->preflight, run.preflight);
  EXPECT_EQ(back->eigenvalues, run.eigenvalues);
  EXPECT_EQ(back->factor_cdt, run.factor_cdt);
  ASSERT_EQ(back->traces.size(), 1U);
  EXPECT_EQ(back->traces[0].sample, 4);
  EXPECT_EQ(back->traces[0].augmented, run.traces[0].augmented);
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

  std::ofstream(folder() / "sweep.json") << "{";
  expect_refused(sample_plan(), "12", "sweep.json: expected JSON; the file is damaged");
  std::ofstream(folder() / "sweep.json") << "{\"format\": \"cdt-sweep-9\"}";
  expect_refused(sample_plan(), "12", "expected the format cdt-sweep-1, but came 'cdt-sweep-9'");
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
