// A training run whose every write, sync, rename and removal fails once, or is its last: the folder
// afterwards holds what it held before or what a run that went well would have left, and who tries
// again gets the same bytes.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/run/parts/verify.h>
#include <cdt/run/train.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "faults/system_calls.h"
#include "support/small_run.h"

namespace cdt {
namespace {

namespace fs = std::filesystem;
using test::End;
using test::Fault;
using Files = std::map<std::string, std::string>;

/// A file without what a clock has measured.
std::string timeless(const std::string& name, const std::string& text) {
  if (name != "history.csv") return text;
  std::istringstream lines(text);
  std::string kept;
  constexpr int kSeconds = 8;  // the column
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    int column = 0;
    for (std::string cell; std::getline(cells, cell, ','); ++column) {
      if (column != kSeconds) kept += cell + ",";
    }
    kept += "\n";
  }
  return kept;
}

class RunFaults : public testing::Test {
 protected:
  /// The files that count: model, preprocessing, predictions, history, spectrum.
  static Files results_in(const fs::path& folder) {
    Files files;
    for (const std::string& name : run::RunFolder::file_names()) {
      if (name == "run.json" || name == "checkpoint.safetensors" || !fs::exists(folder / name)) {
        continue;
      }
      files[name] = timeless(name, read_file(folder / name));
    }
    return files;
  }

  /// Every byte of every file, left-overs included.
  static Files all_in(const fs::path& folder) {
    Files files;
    if (!fs::exists(folder)) return files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      files[entry.path().filename()] = entry.is_directory() ? "" : read_file(entry.path());
    }
    return files;
  }

  /// What may be tried with a folder, and what comes of it if nothing goes wrong.
  struct Attempt {
    std::string name;
    run::Options options;
    fs::path before;  ///< empty: no folder
    Files whole;
    std::optional<train::TrainResult> end;  ///< of the whole one
  };

  Attempt attempt(const std::string& name, const run::Options& options, const fs::path& before) {
    Attempt made{name, options, before, {}, {}};
    const fs::path folder = folder_ / (name + "-whole");
    prepare(made, folder);
    made.options.folder = folder;
    EXPECT_TRUE(test::work_apart([&] { run::train(made.options); }));
    made.whole = results_in(folder);
    made.end = run::RunFolder(folder).read_record().result;
    return made;
  }
  static void prepare(const Attempt& attempt, const fs::path& folder) {
    if (attempt.before.empty()) return;
    fs::create_directory(folder);
    for (const auto& entry : fs::directory_iterator(attempt.before)) {
      fs::copy_file(entry.path(), folder / entry.path().filename());
    }
  }

  /// Sound, and as before or whole.
  static void expect_one_of_both(const Attempt& attempt, const fs::path& folder) {
    cdt::finish_update(folder);
    const run::RunFolder run(folder);
    if (!run.holds_run()) {
      EXPECT_TRUE(attempt.before.empty());
      return;
    }
    const run::FolderCheck found = run::verify_run(folder);
    for (const run::FileCheck& each : found.files) {
      EXPECT_EQ(to_string(each.state), "intact") << each.file << ": " << each.note;
    }
    const run::RunRecord record = run.read_record();
    if (!record.result) {  // it lasts: nothing to be mistaken for a result
      EXPECT_FALSE(fs::exists(run.model()));
      return;
    }
    const Files now = results_in(folder);
    if (record.result->steps == attempt.end->steps &&
        record.result->outcome == attempt.end->outcome) {
      EXPECT_EQ(now, attempt.whole);
    } else {
      EXPECT_EQ(now, results_in(attempt.before));
    }
  }

  /// Once more, with nothing in the way.
  static void expect_same_in_the_end(const Attempt& attempt, const fs::path& folder) {
    run::Options again = attempt.options;
    again.folder = folder;
    again.resume = again.resume || (!again.overwrite && run::RunFolder(folder).holds_run());
    EXPECT_TRUE(test::work_apart([&] { run::train(again); }));
    EXPECT_EQ(results_in(folder), attempt.whole);
    EXPECT_TRUE(fs::exists(folder / "report.html"));
    for (const auto& entry : fs::directory_iterator(folder)) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".cdt-")) << entry;
    }
  }

  /// The fault at each call in turn, or each so many; how many calls there were.
  int64_t at_every_call(const Attempt& attempt, Fault fault, int64_t stride) {
    bool tried_from_before = false;
    for (int64_t at = 1;; at += stride) {
      SCOPED_TRACE(fmt::format("{}, call {}", attempt.name, at));
      const fs::path folder =
          folder_ / fmt::format("{}-{}-{}", attempt.name, static_cast<int>(fault), at);
      prepare(attempt, folder);
      run::Options options = attempt.options;
      options.folder = folder;
      const End end = test::work_apart([&] { run::train(options); }, at, fault);
      EXPECT_NE(end, End::kOther);
      expect_one_of_both(attempt, folder);
      if (end == End::kWell) return at;
      // Nothing has changed, as so often: once more was tried from there already.
      const bool as_before = all_in(folder) == all_in(attempt.before);
      if (!as_before || !tried_from_before) expect_same_in_the_end(attempt, folder);
      tried_from_before = tried_from_before || as_before;
      if (HasFailure()) return at;
    }
  }

  void expect_robust(Fault fault, int64_t stride = 1) {
    run::Options options = options_;
    options.analysis = true;
    const Attempt fresh = attempt("fresh", options, {});
    options.analysis = false;
    options.overwrite = true;
    options.training.checkpoint_seconds = 0;  // one before each step
    options.training.steps = 1;
    const Attempt other = attempt("other", options, folder_ / "fresh-whole");
    options.overwrite = false;
    options.resume = true;
    options.training.steps = 3;
    const Attempt further = attempt("further", options, folder_ / "other-whole");
    int64_t calls = 0;
    for (const Attempt& each : {fresh, other, further}) {
      calls += at_every_call(each, fault, stride);
    }
    EXPECT_GT(calls, 200);
    std::cout << calls << " calls\n";
  }

  /// Learning to predict: walks, a refit, several networks and intervals in one folder; and one
  /// that was stopped among its walks, going on.
  void expect_robust_learning(Fault fault, int64_t stride) {
    run::Options options = test::small_run(folder_, 20, 4);
    options.data.goal = study::Goal::kPredict;
    options.training.method = "path";
    options.training.steps = 3;
    options.ensemble = 2;
    const Attempt fresh = attempt("fresh", options, {});
    EXPECT_TRUE(fresh.whole.contains("model-4.safetensors"));
    options.training.checkpoint_seconds = 0;
    options.folder = folder_ / "stopped";
    run::Hooks hooks;
    int points = 0;
    hooks.on_point = [&](auto...) { ++points; };
    hooks.stop_requested = [&] { return points >= 1; };
    EXPECT_TRUE(test::work_apart([&] { run::train(options, hooks); }));
    options.resume = true;
    const Attempt further = attempt("further", options, folder_ / "stopped");
    EXPECT_EQ(further.whole, fresh.whole);
    int64_t calls = 0;
    for (const Attempt& each : {fresh, further}) calls += at_every_call(each, fault, stride);
    EXPECT_GT(calls, 100);
    std::cout << calls << " calls\n";
  }

  test::TempFolder folder_;
  run::Options options_ = test::small_descent(folder_, 20, 4, 2);
};

TEST_F(RunFaults, ACallThatFailsLeavesOneWholeRun) { expect_robust(Fault::kOnce); }
TEST_F(RunFaults, ADiskThatIsFullLeavesOneWholeRun) { expect_robust(Fault::kFull, 3); }
TEST_F(RunFaults, AProcessThatDiesLeavesOneWholeRun) { expect_robust(Fault::kKill); }

TEST_F(RunFaults, ACallThatFailsLeavesOneWholePredictor) {
  expect_robust_learning(Fault::kOnce, 11);
}
TEST_F(RunFaults, AProcessThatDiesLeavesOneWholePredictor) {
  expect_robust_learning(Fault::kKill, 11);
}

TEST_F(RunFaults, KilledFiftyTimesItEndsWithTheSameBytes) {
  options_.training.steps = 40;
  options_.training.checkpoint_seconds = 0;
  options_.folder = folder_ / "whole";
  ASSERT_TRUE(test::work_apart([&] { run::train(options_); }));
  std::mt19937 random(1);
  int kills = 0;
  int finished = 0;
  for (int round = 1; kills < 50; ++round) {
    const run::RunFolder run(folder_ / fmt::format("run{}", round));
    run::Options options = options_;
    options.folder = run.path();
    for (int code = -1; code != 0;) {
      options.resume = run.holds_run();
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(60);
        try {
          run::train(options);
        } catch (const std::exception&) {
          ::_exit(1);
        }
        ::_exit(0);
      }
      ::usleep(static_cast<useconds_t>(random() % 60000));
      ::kill(child, SIGKILL);
      int status = 0;
      ::waitpid(child, &status, 0);
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
      ASSERT_NE(code, 1) << "round " << round << ", kill " << kills;
      kills += code == 128 ? 1 : 0;
      cdt::finish_update(run.path());
      if (run.holds_run()) {
        for (const run::FileCheck& each : run::verify_run(run.path()).files) {
          ASSERT_EQ(to_string(each.state), "intact") << each.file << ": " << each.note;
        }
      }
      if (kills >= 50) break;
    }
    options.resume = run.holds_run();
    ASSERT_TRUE(test::work_apart([&] { run::train(options); }));
    EXPECT_EQ(results_in(run.path()), results_in(folder_ / "whole"));
    ++finished;
  }
  std::cout << kills << " kills, " << finished << " runs\n";
}

TEST_F(RunFaults, AClockThatGoesBackChangesNothing) {
  options_.folder = folder_ / "whole";
  run::train(options_);
  const test::ClockScope clock;
  (void)::time(nullptr);
  options_.folder = folder_ / "run";
  options_.training.steps = 1;
  run::train(options_);
  options_.resume = true;
  options_.training.steps = 2;
  const run::TrainedRun done = run::train(options_);
  EXPECT_GT(clock.readings(), 0);
  EXPECT_EQ(results_in(folder_ / "run"), results_in(folder_ / "whole"));
  for (const train::StepRecord& row : done.result.history) EXPECT_GE(row.seconds, 0);
  EXPECT_GE(done.record.seconds->total, 0);
}

}  // namespace
}  // namespace cdt
