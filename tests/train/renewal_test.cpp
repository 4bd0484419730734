// When linearizations are renewed: each policy with feedbacks that cost nothing.
#include <cdt/train/loop/renewal.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::kDouble;
using torch::Tensor;

/// A kernel of its own, of so many bytes, whatever the network is.
class Stub : public FeedbackSource {
 public:
  explicit Stub(double of = 1) : largest(of) {}

  std::shared_ptr<Feedback> at(int64_t step, const Pass& pass, const Feedback* before) override {
    made.push_back(step);
    had_one.push_back(before != nullptr);
    return make(pass.labels);
  }
  std::shared_ptr<Feedback> saved(int64_t step, const SavedState& state) const override {
    CDT_REQUIRE(state.tensors.contains("eigenvectors"), "modes were not saved at step ", step);
    return make(torch::zeros({state.tensors.at("eigenvalues").size(0)}, kDouble));
  }
  bool lasts() const override { return true; }
  void wants_more(int64_t step) override { more.push_back(step); }

  double largest;
  std::vector<int64_t> made, more;
  std::vector<bool> had_one;

 private:
  std::shared_ptr<Feedback> make(const Tensor& labels) const {
    const int64_t n = labels.numel();
    dynamics::Modes modes;
    modes.values = torch::full({n}, largest, kDouble);
    modes.vectors = torch::eye(n, kDouble);
    modes.rank = n;
    FeedbackOptions options;
    options.make = [](const control::Plant& plant) { return control::design(plant); };
    const auto errors = error_coordinates(labels.reshape({-1}), {}, 1);
    return std::make_shared<Feedback>(errors, control::Plant::of_modes(modes, errors->plant(0)),
                                      options);
  }
};

struct Renewed {
  std::shared_ptr<const Setup> setup;
  Stub* stub;
  Renewal renewal;

  Renewed(const TrainOptions& options, int64_t samples = 8, bool renews_rate = false,
          std::unique_ptr<Stub> made = std::make_unique<Stub>())
      : setup(std::make_shared<Setup>(kernel::Model(test::small_network(4, 1, 3)),
                                      test::smooth_data(samples, 1, 2), options, nullptr)),
        stub(made.get()),
        renewal(setup, std::move(made), renews_rate) {}
  /// Steps from `first` on, with the parameters moved in between.
  void steps(int64_t first, int64_t count, double by = 0) {
    for (int64_t k = first; k < first + count; ++k) {
      Pass pass = setup->forward(k);
      StepRecord row;
      Plan& plan = renewal.plan_for(k, pass, row);
      refreshed.push_back(row.refreshed);
      plan.tighten_bound(1);
      if (by == 0) continue;
      const torch::NoGradGuard no_graph;
      for (const Tensor& parameter : setup->model.parameters()) Tensor(parameter).add_(by);
    }
  }
  std::vector<int64_t> refreshed;
};

TrainOptions under(const std::string& policy, Method method = "cdt") {
  TrainOptions options;
  options.method = method;
  options.learning_rate = 0.5;
  options.relinearize = parse_relinearization(policy);
  return options;
}

TEST(Renewal, NeverMakesOneAlone) {
  Renewed run(under("never"));
  run.steps(0, 7, 0.01);
  EXPECT_EQ(run.stub->made, std::vector<int64_t>{0});
  EXPECT_EQ(run.renewal.linearizations(), 1);
  EXPECT_EQ(run.renewal.unwatched_steps(0, 7), std::numeric_limits<int64_t>::max());
}

TEST(Renewal, EveryCountsStepsFromTheLastOne) {
  Renewed run(under("every:3"));
  run.steps(0, 8);
  EXPECT_EQ(run.stub->made, (std::vector<int64_t>{0, 3, 6}));
  EXPECT_EQ(run.refreshed, (std::vector<int64_t>{1, 0, 0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(run.stub->had_one, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(run.renewal.unwatched_steps(0, 8), 1);
  EXPECT_EQ(run.renewal.unwatched_steps(0, 9), 0);
}

TEST(Renewal, ErrorAsksHowFarTheLocalModelIsOff) {
  Renewed still(under("error:0.1"));
  still.steps(0, 5);
  EXPECT_EQ(still.stub->made, std::vector<int64_t>{0});
  Renewed moved(under("error:0.1"));
  moved.steps(0, 3, 0.2);
  EXPECT_EQ(moved.stub->made, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(moved.renewal.unwatched_steps(0, 3), 0) << "somebody has to look";
}

TEST(Renewal, KcAsksWhetherTheBoundHolds) {
  // The stub's loop contracts at once, and the network stays where it is: the bound is broken.
  Renewed run(under("kc"), 8, false, std::make_unique<Stub>(1e3));
  run.steps(0, 3);
  EXPECT_EQ(run.stub->made, (std::vector<int64_t>{0, 1, 2}));
  // One that hardly moves leaves room.
  Renewed slow(under("kc"), 8, false, std::make_unique<Stub>(1e-12));
  slow.steps(0, 3);
  EXPECT_EQ(slow.stub->made, std::vector<int64_t>{0});
}

TEST(Renewal, AGuardDistrustsAKernelOfOtherParameters) {
  Renewed run(under("guard", "guarded"));
  run.steps(0, 2);
  run.renewal.distrust();
  run.steps(2, 2);
  EXPECT_EQ(run.stub->made, (std::vector<int64_t>{0, 2}));
  Renewed other(under("never"));
  other.steps(0, 2);
  other.renewal.distrust();
  other.steps(2, 1);
  EXPECT_EQ(other.stub->made, std::vector<int64_t>{0});
}

TEST(Renewal, TheFirstRateHoldsUnlessItIsRenewed) {
  TrainOptions options;
  options.relinearize = parse_relinearization("every:1");
  for (const bool renews : {false, true}) {
    Renewed run(options, 8, renews, std::make_unique<Stub>(0.25));
    run.steps(0, 1);
    const double first = run.renewal.plan_of(0).guard.rate;
    EXPECT_DOUBLE_EQ(first, start_rate(options.method, 4));  // c = 1
    EXPECT_EQ(run.renewal.learning_rate(), first);
    run.stub->largest = 1;
    run.renewal.plan_of(0).guard.wary_steps = 5;
    run.steps(1, 1);
    EXPECT_DOUBLE_EQ(run.renewal.plan_of(0).guard.rate, renews ? first / 4 : first);
    EXPECT_EQ(run.renewal.plan_of(0).guard.wary_steps, 5) << "the guard's memory is the batch's";
  }
}

TEST(Renewal, ForgetsTheOldestPlanBeyondTheMemory) {
  TrainOptions options = under("guard", "guarded");
  options.batch = 4;
  Renewed all(options, 16);
  all.steps(0, 8);
  EXPECT_EQ(all.stub->made, (std::vector<int64_t>{0, 1, 2, 3}));
  options.memory_bytes = 300;  // two of the stub's kernels [4, 4]
  Renewed some(options, 16);
  some.steps(0, 8);
  EXPECT_EQ(some.stub->made, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  some.steps(7, 1);
  EXPECT_EQ(some.stub->made.size(), 8) << "the last one is there";
}

TEST(Renewal, AsksForMoreWhereASolverRanOut) {
  Renewed run(under("guard", "guarded"));
  run.steps(0, 1);
  run.renewal.accepted(run.renewal.plan_of(0), true);
  EXPECT_TRUE(run.stub->more.empty());
  run.renewal.accepted(run.renewal.plan_of(0), false);
  EXPECT_EQ(run.stub->more, std::vector<int64_t>{0});
}

TEST(Renewal, GoesOnFromWhatItHasSaved) {
  Renewed run(under("every:3"));
  run.steps(0, 5);
  run.renewal.plan_of(0).guard.failures = 3;
  SavedState state;
  run.renewal.save(state);
  Renewed next(under("every:3"));
  next.renewal.restore(state);
  EXPECT_EQ(next.renewal.linearizations(), 2);
  const Plan& plan = next.renewal.plan_of(0);
  EXPECT_EQ(plan.step, 3);
  EXPECT_EQ(plan.guard.failures, 3);
  EXPECT_EQ(plan.bound.distance, run.renewal.plan_of(0).bound.distance);
  next.steps(5, 2);
  EXPECT_EQ(next.stub->made, std::vector<int64_t>{6});
}

}  // namespace
}  // namespace cdt::train
