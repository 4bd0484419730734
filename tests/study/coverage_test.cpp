// Intervals of small tables: as wide for new rows as for those held out, and nine of ten hold.
#include <cdt/study/predictor.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"

namespace cdt::study {
namespace {

using torch::Tensor;

const auto kFloat64 = torch::kFloat64;

Tensor truth_of(const Tensor& x) {
  return ((2 * x.select(1, 0)).sin() + x.select(1, 1) * x.select(1, 2)).unsqueeze(1);
}

TEST(Intervals, OfEachRowByTheOthersIsThatOfANewRow) {
  torch::manual_seed(1);
  nn::NetworkOptions layers;
  layers.hidden = {12};
  layers.input_shape = {3};
  for (const int64_t outputs : {1, 2}) {
    layers.outputs = outputs;
    const nn::Network net = nn::make_network(layers, 1, kFloat64);
    const Tensor x = torch::randn({15, 3}, kFloat64);
    const Tensor found = left_out_variance(net, x, 0.3);
    for (const int64_t row : {0, 7, 14}) {
      const Tensor others = torch::cat({x.narrow(0, 0, row), x.narrow(0, row + 1, 14 - row)});
      const Tensor v = relative_variance(net, others, 0.3, x.narrow(0, row, 1));
      EXPECT_LE(test::relative_error(found[row], v[0]), 1e-8) << outputs << " outputs, " << row;
    }
  }
}

// Rows that repeat are left out together.
TEST(Intervals, OfRowsThatRepeatAreLeftOutTogether) {
  torch::manual_seed(2);
  nn::NetworkOptions layers;
  layers.hidden = {12};
  layers.input_shape = {3};
  const nn::Network net = nn::make_network(layers, 1, kFloat64);
  const Tensor once = torch::randn({8, 3}, kFloat64);
  const Tensor x = torch::cat({once, once.narrow(0, 0, 4), once.narrow(0, 0, 2)});
  const std::vector<int64_t> different{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 0, 1};
  const Tensor found = left_out_variance(net, x, 0.3, different);
  for (const int64_t row : {0, 3, 9, 6}) {
    std::vector<int64_t> others;
    for (int64_t i = 0; i < 14; ++i) {
      if (different[static_cast<size_t>(i)] != different[static_cast<size_t>(row)]) {
        others.push_back(i);
      }
    }
    const Tensor v =
        relative_variance(net, x.index_select(0, torch::tensor(others)), 0.3, x.narrow(0, row, 1));
    EXPECT_LE(test::relative_error(found[row], v[0]), 1e-8) << row;
  }
}

// The bar of a simulation: coverage of 90 % over many tables, each with its own calibration rows,
// has a standard deviation of 1.5 % here.
TEST(Intervals, OfSmallTablesHoldNineOfTen) {
  double within = 0, rows = 0, wide_new = 0, wide_held = 0;
  constexpr int kTables = 12;
  for (int seed = 1; seed <= kTables; ++seed) {
    torch::manual_seed(seed);
    const auto draw = [](int64_t r) {
      const Tensor x = torch::randn({r, 3}, kFloat64);
      return std::pair(x, truth_of(x) + 0.2 * torch::randn({r, 1}, kFloat64));
    };
    Problem problem;
    data::TargetColumn target;
    target.name = "y";
    target.scale = {0, 1};
    problem.preprocess.targets.push_back(target);
    const auto [x, y] = draw(48);
    const auto [x_val, y_val] = draw(12);
    problem.data.x = x.to(torch::kFloat32);
    problem.data.y = y;
    problem.data.x_val = x_val.to(torch::kFloat32);
    problem.data.y_val = y_val;
    LearnOptions options;
    options.training.method = "path";
    options.training.steps = 20;
    options.training.patience = kPathPatience;
    options.training.seed = static_cast<uint64_t>(seed);
    options.network.hidden = {24, 24};
    options.network.sigma_w = 0.5;
    options.members = 4;
    options.intervals = true;
    const Learned learned = Learner(problem, options).run();
    const Predictor predictor = calibrate(problem, learned);
    const auto intervals = make_intervals(problem, learned, predictor);
    ASSERT_TRUE(intervals);
    EXPECT_LE(intervals->new_median, intervals->median);
    const auto [fresh, wanted] = draw(300);
    const Bounds bounds =
        bounds_of(*intervals, predictor, problem.preprocess, fresh.to(torch::kFloat32), 0.9);
    const Bounds held = held_out_bounds(problem, learned, predictor, *intervals,
                                        torch::arange(60, torch::kInt64), 0.9);
    const double width = (bounds.high - bounds.low).mean().item<double>();
    const double width_held = (held.high - held.low).mean().item<double>();
    EXPECT_GE(width, 0.9 * width_held) << "seed " << seed;
    wide_new += width;
    wide_held += width_held;
    within += (wanted.ge(bounds.low) & wanted.le(bounds.high)).sum().item<double>();
    rows += 300;
  }
  EXPECT_GE(wide_new, 0.98 * wide_held);
  EXPECT_GE(within / rows, 0.87);
  EXPECT_LE(within / rows, 0.97);
}

}  // namespace
}  // namespace cdt::study
