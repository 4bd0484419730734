// The guard over epochs alone: what it takes back, and what share of its rates a step may use.
#include <cdt/train/epoch_guard.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using torch::Tensor;

struct Guarding {
  nn::Mlp net = test::small_network(4, 1, 3);
  std::shared_ptr<const Setup> setup = std::make_shared<Setup>(
      kernel::Model(net), test::smooth_data(8, 1, 2), TrainOptions(), nullptr);
  EpochGuard guard{setup};

  void move(double by) const {
    const torch::NoGradGuard no_graph;
    for (Tensor parameter : net->parameters()) parameter.add_(by);
  }
  /// The start of an epoch at step k, with this objective; whether the epoch before was kept.
  bool accept(int64_t step, double objective) {
    Whole here{objective, objective};
    return guard.accept(step, here);
  }
};

TEST(EpochGuard, TakesBackWhatRaisedTheObjective) {
  Guarding run;
  EXPECT_TRUE(run.accept(0, 2));
  const auto start = test::parameters_of(run.net);
  run.move(0.5);
  EXPECT_TRUE(run.accept(0, 5)) << "asked again at the same step";
  Whole here{3, 3};
  EXPECT_FALSE(run.guard.accept(4, here));
  EXPECT_EQ(here.objective, 2);
  EXPECT_TRUE(test::same_bits(test::parameters_of(run.net), start));
  EXPECT_EQ(run.guard.rejected(), 4);
  EXPECT_EQ(run.guard.share(), 1.0 / 16);
  run.move(0.25);
  EXPECT_TRUE(run.accept(8, 2)) << "as high as before is no rise";
  EXPECT_FALSE(test::same_bits(run.guard.start(), start));
  EXPECT_FALSE(run.accept(12, NAN));
  EXPECT_EQ(run.guard.rejected(), 8);
}

TEST(EpochGuard, TwoGoodEpochsDoubleTheShare) {
  Guarding run;
  run.accept(0, 10);
  run.accept(1, 11);
  std::vector<double> shares;
  for (int64_t step = 2; step < 14; ++step) {
    run.accept(step, 10 - 0.1 * static_cast<double>(step));
    shares.push_back(16 * run.guard.share());
  }
  EXPECT_EQ(shares, (std::vector<double>{1, 2, 2, 4, 4, 8, 8, 16, 16, 16, 16, 16}));
}

TEST(EpochGuard, GivesUpAfterElevenFailures) {
  Guarding run;
  run.accept(0, 1);
  for (int64_t step = 1; step <= 11; ++step) {
    EXPECT_FALSE(run.guard.exhausted()) << step;
    EXPECT_FALSE(run.accept(step, 2));
  }
  EXPECT_TRUE(run.guard.exhausted());
  run.accept(12, 0.5);
  EXPECT_FALSE(run.guard.exhausted());
}

TEST(EpochGuard, GoesBackNoFurtherThanWhatOthersChanged) {
  Guarding run;
  run.accept(0, 1e9);
  run.move(0.5);
  run.guard.start_from(2);
  const auto theirs = test::parameters_of(run.net);
  const double loss =
      torch::mse_loss(run.net->forward(run.setup->data.x), run.setup->data.y).item<double>();
  EXPECT_NEAR(run.guard.at_start().objective, loss, 1e-12);
  run.move(0.5);
  EXPECT_TRUE(run.guard.holds({loss, loss}));
  EXPECT_FALSE(run.accept(4, 2 * loss));
  EXPECT_TRUE(test::same_bits(test::parameters_of(run.net), theirs));
}

TEST(EpochGuard, GoesOnFromWhatItHasSaved) {
  Guarding one, other;
  one.accept(0, 2);
  one.move(0.5);
  one.accept(3, 3);
  one.accept(6, 1);
  SavedState state;
  one.guard.save(state);
  other.guard.restore(state);
  for (Guarding* run : {&one, &other}) {
    EXPECT_EQ(run->guard.share(), 1.0 / 16);
    EXPECT_EQ(run->guard.rejected(), 3);
    run->move(0.125);
    EXPECT_FALSE(run->accept(9, 1.5));
    EXPECT_EQ(run->guard.at_start().objective, 1);
  }
  EXPECT_TRUE(test::same_bits(test::parameters_of(one.net), test::parameters_of(other.net)));
  Guarding older;
  older.guard.restore({});
  EXPECT_TRUE(older.accept(5, 1)) << "a state of before there were epoch guards";
}

}  // namespace
}  // namespace cdt::train
