// A sweep whose every write, sync, rename and removal fails once, or is its last.
#include <cdt/core/error.h>
#include <cdt/core/folder.h>
#include <cdt/core/io/file.h>
#include <cdt/data/houses.h>
#include <cdt/experiment/parts/verify.h>
#include <cdt/experiment/results_file.h>
#include <cdt/experiment/store.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <iostream>
#include <map>

#include "experiment/sample_plan.h"
#include "faults/system_calls.h"
#include "support/temp_folder.h"

namespace cdt {
namespace {

namespace fs = std::filesystem;
using test::End;
using test::Fault;

class SweepFaults : public testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    write_file_atomically(folder_ / "houses.csv", {data::make_houses(20, 1)});
    plan_ = experiment::test::sample_plan();
    plan_.data.file = (folder_ / "houses.csv").string();
    plan_.architectures = {{"small", {4}}};
    plan_.methods = {"gd"};
    plan_.lrs = {0.1};
    plan_.samples.lr = 0.1;
    plan_.seeds = 2;
    plan_.steps = 2;
    whole_ = sweep_apart(folder_ / "whole");
  }

  /// Makes what is missing and writes the results.
  void sweep(const fs::path& folder) const {
    experiment::RunnerOptions how;
    how.jobs = 1;
    const experiment::Sweep done = experiment::run(plan_, folder, how);
    const auto rows = experiment::collect_rows(plan_, done.runs);
    experiment::write_results(folder, {plan_, done, rows, {}, {}});
  }

  /// In a process of its own; the errors that each run ended with.
  std::map<std::string, std::vector<double>> sweep_apart(const fs::path& folder) const {
    EXPECT_TRUE(test::work_apart([&] { sweep(folder); }));
    std::map<std::string, std::vector<double>> errors;
    for (const auto& entry : fs::directory_iterator(folder / "runs")) {
      errors[entry.path().filename()] =
          experiment::parse_run(read_file(entry.path()), entry.path().string()).final_error;
    }
    return errors;
  }

  void expect_sound(const fs::path& folder) const {
    cdt::finish_update(folder);
    if (!experiment::holds_sweep(folder)) return;
    for (const run::FileCheck& each : experiment::verify_sweep(folder).files) {
      EXPECT_EQ(to_string(each.state), "intact") << each.file << ": " << each.note;
    }
  }

  void expect_robust(Fault fault, int64_t stride = 1) const {
    for (int64_t at = 1;; at += stride) {
      SCOPED_TRACE(fmt::format("call {}", at));
      const fs::path folder = folder_ / fmt::format("sweep{}", at);
      const End end = test::work_apart([&] { sweep(folder); }, at, fault);
      EXPECT_NE(end, End::kOther);
      expect_sound(folder);
      if (end == End::kWell) {
        EXPECT_GT(at, 60);
        std::cout << at << " calls\n";
        return;
      }
      EXPECT_EQ(sweep_apart(folder), whole_);
      expect_sound(folder);
      for (const fs::path& place : {folder, folder / "runs"}) {
        for (const auto& entry : fs::directory_iterator(place)) {
          EXPECT_FALSE(entry.path().filename().string().starts_with(".cdt-")) << entry;
        }
      }
      if (HasFailure()) return;
    }
  }

  test::TempFolder folder_;
  experiment::Plan plan_;
  std::map<std::string, std::vector<double>> whole_;
};

TEST_F(SweepFaults, ACallThatFailsLosesNoRun) { expect_robust(Fault::kOnce); }
TEST_F(SweepFaults, ADiskThatIsFullLosesNoRun) { expect_robust(Fault::kFull, 5); }
TEST_F(SweepFaults, AProcessThatDiesLosesNoRun) { expect_robust(Fault::kKill); }

}  // namespace
}  // namespace cdt
