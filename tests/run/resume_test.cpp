// Runs that are stopped and go on, under every method and goal, with what nobody has decided.
#include <cdt/core/io/file.h>
#include <cdt/run/folder.h>
#include <cdt/run/train.h>
#include <cdt/train/options.h>
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace cdt::run {
namespace {

class Resumed : public testing::Test {
 protected:
  Options in(const std::string& name) const {
    Options options = options_;
    options.folder = folder_ / name;
    return options;
  }
  /// Where the method does not find one itself.
  void set_rate(const std::string& method) {
    options_.training.learning_rate.reset();
    if (method != "guarded" && method != "path" && method != "adam" && method != "lbfgs") {
      options_.training.learning_rate = 0.01;
    }
  }
  /// Stops when something has been learned, then goes on by what the folder says; the same model
  /// as if nothing had happened.
  void expect_to_go_on() {
    static int count = 0;
    const std::string name = "run" + std::to_string(++count);
    train(in(name + "-whole"));
    Hooks hooks;
    auto seen = std::make_shared<int64_t>(0);
    hooks.on_step = [seen](const train::StepRecord&, int64_t) { ++*seen; };
    hooks.on_point = [seen](study::LearnStage, const train::StepRecord&, int64_t) { ++*seen; };
    hooks.stop_requested = [seen] { return *seen >= 2; };
    const TrainedRun stopped = train(in(name), hooks);
    ASSERT_EQ(stopped.result.outcome, train::Outcome::kInterrupted);
    Options again = options_of(RunFolder(folder_ / name).read_record());
    again.folder = folder_ / name;
    again.resume = true;
    ASSERT_NO_THROW(train(again));
    const auto model = [&](const std::string& run) {
      return read_file(RunFolder(folder_ / run).model());
    };
    EXPECT_TRUE(model(name) == model(name + "-whole"));
    // And once more when it has ended: there is nothing to do, and nothing to refuse.
    again = options_of(RunFolder(folder_ / name).read_record());
    again.folder = folder_ / name;
    again.resume = true;
    ASSERT_NO_THROW(train(again));
    EXPECT_TRUE(model(name) == model(name + "-whole"));
  }

  test::TempFolder folder_;
  Options options_ = test::small_run(folder_, 40, 4);
};

TEST_F(Resumed, EveryMethodToFit) {
  for (const std::string& method : train::Method::names()) {
    if (method == "path") continue;  // it predicts
    SCOPED_TRACE(method);
    options_.training.method = method;
    options_.training.steps = 6;
    options_.training.stop_loss = 0;
    set_rate(method);
    expect_to_go_on();
  }
}

/// Nothing is decided but the method: batches, steps and patience are the goal's.
TEST_F(Resumed, EveryMethodToPredict) {
  options_.data.goal = study::Goal::kPredict;
  options_.ensemble = 1;
  options_.training.stop_loss = 0;
  options_.training.steps = 6;
  for (const std::string& method : train::Method::names()) {
    SCOPED_TRACE(method);
    options_.training.method = method;
    set_rate(method);
    try {
      expect_to_go_on();
    } catch (const InvalidArgument& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace
}  // namespace cdt::run
