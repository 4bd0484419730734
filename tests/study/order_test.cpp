// Rows in an order: found, and the error on the last of them measured.
#include <cdt/study/parts/order.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
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

/// A table whose column "day" is this: the last row has the first text.
OrderedTable dated(const Tensor& x, std::vector<std::string> days) {
  torch::manual_seed(7);
  OrderedTable made = ordered(x, torch::randn({x.size(0), 1}, kDoubles), 3);
  data::Column column;
  column.name = "day";
  column.type = data::ColumnType::kText;
  column.categories = days;
  std::sort(column.categories.begin(), column.categories.end());
  for (auto day = days.rbegin(); day != days.rend(); ++day) {
    const auto at = std::ranges::lower_bound(column.categories, *day);
    column.codes.push_back(static_cast<int32_t>(at - column.categories.begin()));
  }
  made.table.columns.push_back(column);
  return made;
}

TEST(RowOrder, OfDatesIsThatOfTheCalendar) {
  const int r = 60;
  const Tensor x = torch::arange(r, kDoubles).unsqueeze(1);
  const auto check = [&](const char* what, const std::function<std::string(int)>& text) {
    SCOPED_TRACE(what);
    std::vector<std::string> days;
    for (int k = 0; k < r; ++k) days.push_back(text(k));
    const OrderedTable made = dated(x, days);
    const auto order = find_order(made.table, made.problem);
    ASSERT_TRUE(order);
    EXPECT_THAT(order->by, testing::HasSubstr("day"));
    const Tensor in_order =
        all_rows(made.problem).x.index_select(0, torch::tensor(order->rows, torch::kInt64));
    EXPECT_TRUE(torch::equal(in_order, x.flip(0).to(torch::kFloat32)));
  };
  // Day k: over the years' end, so that neither days nor months go one way.
  const auto month = [](int k) { return k < 20 ? 11 : k < 40 ? 12 : 1; };
  const auto year = [](int k) { return k < 40 ? 2020 : 2021; };
  const auto day = [](int k) { return 1 + k % 20; };
  check("ISO", [&](int k) { return fmt::format("{}-{:02}-{:02}", year(k), month(k), day(k)); });
  check("day first",
        [&](int k) { return fmt::format("{:02}.{:02}.{}", day(k), month(k), year(k)); });
  check("month first",
        [&](int k) { return fmt::format("{}/{}/{:02}", month(k), day(k), year(k) % 100); });
  check("names", [&](int k) {
    const char* name = month(k) == 11 ? "Nov" : month(k) == 12 ? "Dec" : "January";
    return fmt::format("{} {} {}", day(k), name, year(k));
  });
  // Instants an hour apart, written in zones of their own.
  check("zones", [](int k) {
    const int zone = k % 3 == 0 ? 10 : k % 3 == 1 ? -8 : 0;
    const int hour = 30 + k + zone;
    return fmt::format("2020-12-{:02}T{:02}:00:00{}{:02}:00", 10 + hour / 24, hour % 24,
                       zone < 0 ? '-' : '+', std::abs(zone));
  });
}

/// Of 1/2/2020 nobody has said which is the month: no order, rather than one of two.
TEST(RowOrder, OfDatesThatAreOpenIsNone) {
  const Tensor x = torch::arange(60, kDoubles).unsqueeze(1);
  std::vector<std::string> days;
  for (int k = 0; k < 60; ++k) {
    days.push_back(fmt::format("{}/{}/{}", 1 + k % 12, 1 + k / 12, 2000 + k));
  }
  OrderedTable made = dated(x, days);
  EXPECT_FALSE(find_order(made.table, made.problem));
  made.table.columns[0].dates = data::DateOrder::kDayMonth;
  EXPECT_TRUE(find_order(made.table, made.problem));
}

TEST(RowOrder, MeasuresTheErrorOnLaterRows) {
  const int64_t r = 200;
  const Tensor time = torch::linspace(-2, 2, r, kDoubles).unsqueeze(1);
  const OrderedTable made = ordered(time, wandering(r, 2), 3);
  LearnOptions options;
  options.training.method = "path";
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
