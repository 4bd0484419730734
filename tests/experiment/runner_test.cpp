// Sweeps from a program of one's own: jobs, interruption, and going on.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/data/houses.h>
#include <cdt/experiment/runner.h>
#include <gmock/gmock.h>

#include <atomic>

#include "experiment/sample_plan.h"
#include "support/temp_folder.h"

namespace cdt::experiment {
namespace {

using test::sample_plan;
using testing::HasSubstr;

class Runner : public testing::Test {
 protected:
  Runner() { write_file_atomically(folder_ / "houses.csv", {data::make_houses(30, 1)}); }
  Plan plan() const {
    Plan plan = sample_plan();
    plan.data.file = (folder_ / "houses.csv").string();
    plan.methods = {"gd", "cdt"};
    return plan;
  }
  cdt::test::TempFolder folder_;
};

TEST_F(Runner, MakesEveryRunOnceWhateverTheNumberOfJobs) {
  RunnerOptions options;
  options.jobs = 1;
  int64_t shown = 0;
  options.on_start = [&](int64_t runs, int64_t known, int64_t jobs) {
    EXPECT_EQ(runs, 16);
    EXPECT_EQ(known, 0);
    EXPECT_EQ(jobs, 1);
  };
  options.progress = [&](int64_t done, int64_t total, const std::string& key) {
    EXPECT_EQ(done, ++shown);
    EXPECT_EQ(total, 16);
    EXPECT_FALSE(key.empty());
  };
  const Sweep one = run(plan(), folder_ / "one", options);
  EXPECT_TRUE(one.complete);
  EXPECT_EQ(one.made, 16);
  EXPECT_EQ(shown, 16);
  EXPECT_EQ(one.sessions.size(), 1U);
  EXPECT_EQ(one.table_rows, 30);
  RunnerOptions three;
  three.jobs = 3;
  const Sweep other = run(plan(), folder_ / "three", three);
  ASSERT_EQ(other.runs.size(), one.runs.size());
  for (size_t i = 0; i < one.runs.size(); ++i) {
    EXPECT_EQ(other.runs[i].what.key(), one.runs[i].what.key());
    EXPECT_EQ(other.runs[i].val_loss, one.runs[i].val_loss) << one.runs[i].what.key();
    EXPECT_EQ(other.runs[i].final_error, one.runs[i].final_error);
    EXPECT_EQ(other.runs[i].what.details, !other.runs[i].preflight.empty());
    EXPECT_EQ(other.runs[i].what.traces, !other.runs[i].traces.empty());
  }
  options.on_start = {};
  options.progress = {};
  const Sweep again = run(plan(), folder_ / "one", options);
  EXPECT_EQ(again.made, 0);
  EXPECT_TRUE(again.complete);
  EXPECT_EQ(again.sessions.size(), 1U) << "a call that made nothing leaves no trace";
}

TEST_F(Runner, StopsWhenAskedAndGoesOn) {
  std::atomic<int64_t> done{0};
  RunnerOptions options;
  options.jobs = 1;
  options.progress = [&](int64_t count, int64_t, const std::string&) { done = count; };
  options.stop = [&] { return done >= 3; };
  const Sweep part = run(plan(), folder_ / "sweep", options);
  EXPECT_FALSE(part.complete);
  EXPECT_EQ(part.made, 3);
  options.stop = {};
  const Sweep rest = run(plan(), folder_ / "sweep", options);
  EXPECT_TRUE(rest.complete);
  EXPECT_EQ(rest.made, 13);
  EXPECT_EQ(rest.sessions.size(), 2U);
}

TEST_F(Runner, SaysWhatIsWrongBeforeItRuns) {
  const auto refused = [&](const Plan& plan, const std::string& message) {
    try {
      run(plan, folder_ / "none", {});
      ADD_FAILURE() << "not refused: " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
  };
  Plan wrong = plan();
  wrong.data.train_fraction = 1;
  refused(wrong, "no rows are left to validate on");
  wrong = plan();
  wrong.data.file = (folder_ / "nowhere.csv").string();
  refused(wrong, "nowhere.csv");
  wrong = plan();
  wrong.lrs = {1, 1};
  refused(wrong, "learning rates: expected each one once");
}

TEST_F(Runner, AFailingRunEndsTheSweepWithItsMessage) {
  Plan wrong = plan();
  wrong.data.train_rows = 20;
  wrong.q = -1;
  EXPECT_THROW(run(wrong, folder_ / "sweep", {}), InvalidArgument);
}

}  // namespace
}  // namespace cdt::experiment
