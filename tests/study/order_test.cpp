// Rows in an order: found, and the error on the last of them measured.
#include <cdt/study/order.h>
#include <gmock/gmock.h>

#include <numeric>

namespace cdt::study {
namespace {

using torch::Tensor;

const auto kDoubles = torch::kFloat64;

/// Rows in the order of the table, drawn at random for training and validation.
struct OrderedTable {
  data::Table table;
  Problem problem;
};

OrderedTable ordered(const Tensor& x, const Tensor& y, uint64_t seed) {
  OrderedTable made;
  const int64_t r = x.size(0);
  for (int64_t row = 0; row < r; ++row) made.table.lines.push_back(row + 2);
  Problem& problem = made.problem;
  data::TargetColumn target;
  target.name = "y";
  target.scale = {0, 1};
  problem.preprocess.targets.push_back(target);
  problem.split = data::split_rows(r, r, r * 4 / 5, seed);
  const auto rows = [&](const Tensor& of, const std::vector<int64_t>& which) {
    return of.index_select(0, torch::tensor(which, torch::kInt64));
  };
  const Tensor wide = x.to(torch::kFloat32);
  problem.data.x = rows(wide, problem.split.train);
  problem.data.x_val = rows(wide, problem.split.validation);
  problem.data.y = rows(y, problem.split.train);
  problem.data.y_val = rows(y, problem.split.validation);
  nn::NetworkOptions layers;
  layers.hidden = {20};
  layers.input_shape = {x.size(1)};
  problem.model = nn::make_network(layers, 1, torch::kFloat32);
  return made;
}

/// A walk that goes up and down in time, which is one of the features.
Tensor wandering(int64_t r, uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn({r, 1}, kDoubles).cumsum(0) / 5;
}

TEST(RowOrder, IsSeenInTheTargetsOfNeighbours) {
  const int64_t r = 200;
  const Tensor time = torch::linspace(-2, 2, r, kDoubles).unsqueeze(1);
  const Tensor y = wandering(r, 1);
  const OrderedTable made = ordered(time, y, 3);
  const auto order = find_order(made.table, made.problem);
  ASSERT_TRUE(order);
  ASSERT_EQ(order->rows.size(), 200U);
  const train::TrainData all = all_rows(made.problem);
  const Tensor in_order = all.x.index_select(0, torch::tensor(order->rows, torch::kInt64));
  EXPECT_TRUE(torch::equal(in_order, time.to(torch::kFloat32)));

  for (const uint64_t seed : {1, 2, 3, 4, 5}) {  // shuffled rows have none
    torch::manual_seed(seed);
    const OrderedTable shuffled =
        ordered(time, y.index_select(0, torch::randperm(r, torch::kInt64)), seed);
    EXPECT_FALSE(find_order(shuffled.table, shuffled.problem)) << seed;
  }
  // Sorted by the target: no order that new rows could come behind.
  const OrderedTable sorted = ordered(time, std::get<0>(y.sort(0)), 4);
  EXPECT_FALSE(find_order(sorted.table, sorted.problem));
  OrderedTable by_time = made;
  by_time.problem.fixed_split = true;  // the caller knows
  EXPECT_FALSE(find_order(by_time.table, by_time.problem));
}

TEST(RowOrder, OfDatesIsThatOfTheCalendar) {
  const int64_t r = 60;
  const Tensor x = torch::randn({r, 1}, kDoubles);
  OrderedTable made = ordered(x, torch::randn({r, 1}, kDoubles), 3);
  data::Column column;
  column.name = "day";
  column.type = data::ColumnType::kText;
  for (int64_t row = 0; row < r; ++row) {  // the last row is the first day
    column.categories.push_back("2024-0" + std::to_string(1 + row / 28) + "-" +
                                (row % 28 < 9 ? "0" : "") + std::to_string(1 + row % 28));
    column.codes.push_back(static_cast<int32_t>(r - 1 - row));
  }
  made.table.columns.push_back(column);
  const auto order = find_order(made.table, made.problem);
  ASSERT_TRUE(order);
  EXPECT_THAT(order->by, testing::HasSubstr("day"));
  const Tensor in_order =
      all_rows(made.problem).x.index_select(0, torch::tensor(order->rows, torch::kInt64));
  EXPECT_TRUE(torch::equal(in_order, x.flip(0).to(torch::kFloat32)));
}

TEST(RowOrder, MeasuresTheErrorOnLaterRows) {
  const int64_t r = 200;
  const Tensor time = torch::linspace(-2, 2, r, kDoubles).unsqueeze(1);
  const OrderedTable made = ordered(time, wandering(r, 2), 3);
  LearnOptions options;
  options.training.method = train::Method::kPath;
  options.training.steps = 15;
  options.training.patience = kPathPatience;
  options.network.hidden = {20};
  options.network.sigma_w = 0.5;
  options.members = 4;
  const Learned learned = Learner(made.problem, options).run();
  auto expected = expect(made.problem, learned, calibrate(made.problem, learned));
  ASSERT_GT(expected[0].r2, 0.8);  // rows in between
  measure_later(made.problem, options, learned, *find_order(made.table, made.problem), {},
                expected);
  ASSERT_TRUE(expected[0].later);
  EXPECT_EQ(expected[0].later->rows, 40);
  EXPECT_LT(expected[0].later->r2, 0.5);
  EXPECT_GT(expected[0].later->error.value, expected[0].rmse.value);
  EXPECT_THAT(to_text(expected[0]), testing::HasSubstr("their place in the table"));
}

}  // namespace
}  // namespace cdt::study
