// What a default run will take, counted: no step where ten per cent more rows come, and a budget.
#include <cdt/study/parts/plan.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

namespace cdt::study {
namespace {

struct Table {
  int64_t features = 94;
  int64_t outputs = 1;
  std::vector<int64_t> hidden{256, 256};
  bool classes = false;

  std::string text() const {
    return fmt::format("{} features, {} outputs, {} layers of {}{}", features, outputs,
                       hidden.size(), hidden.front(), classes ? ", classes" : "");
  }
};

train::TrainOptions options_for(const Table& table) {
  train::TrainOptions training;
  training.method = "path";
  if (table.classes) training.loss = loss::cross_entropy();
  return training;
}

PlanSizes sizes_of(const Table& table, int64_t rows) {
  PlanSizes sizes;
  sizes.may_batch = true;
  sizes.form.samples = rows;
  sizes.form.outputs = table.outputs;
  sizes.form.per_sample = table.classes && table.outputs == 2 ? 1 : table.outputs;
  sizes.form.one_row_kernel = !table.classes || sizes.form.per_sample == 1;
  int64_t in = table.features;
  std::vector<int64_t> layers = table.hidden;
  layers.push_back(table.outputs);
  for (const int64_t out : layers) {
    sizes.form.parameters += (in + 1) * out;
    sizes.form.width += in + out;
    in = out;
  }
  sizes.step_operations = 6 * static_cast<double>(sizes.form.parameters);
  return sizes;
}

Plan plan_for(const Table& table, int64_t rows, std::optional<int64_t> members = {}) {
  return usual_plan(sizes_of(table, rows), options_for(table), members);
}

std::vector<Table> tables() {
  return {{},
          {.features = 8},
          {.features = 700},
          {.features = 300, .hidden = {64}},
          {.features = 94, .hidden = {512, 512}},
          {.features = 94, .hidden = {128, 128, 128}},
          {.features = 94, .hidden = {16}},
          {.features = 2000},
          {.features = 3000, .hidden = {256}},
          {.features = 20, .outputs = 3, .classes = true},
          {.features = 900, .outputs = 10, .classes = true},
          {.features = 94, .outputs = 2},
          {.features = 94, .outputs = 5},
          {.features = 94, .outputs = 2, .classes = true},
          {.features = 504, .outputs = 3, .classes = true},
          {.features = 504, .outputs = 6, .classes = true},
          {.features = 200, .outputs = 20, .classes = true}};
}

// Whether members are chosen or told.
TEST(Plan, GoesOnWithoutAStep) {
  for (const Table& table : tables()) {
    for (const std::optional<int64_t> members : {std::optional<int64_t>(), {1}, {4}}) {
      std::vector<double> costs;
      for (int64_t rows = 500; rows <= 22000; rows += 20) {
        costs.push_back(plan_for(table, rows, members).operations + kPlanOverhead);
      }
      for (size_t i = 0; 500 + 20 * i <= 20000; ++i) {
        const size_t more = i + (500 + 20 * i) / 200;  // ten per cent
        const double ratio = costs.at(more) / costs.at(i);
        ASSERT_GT(ratio, 0.5) << 500 + 20 * i << " rows, " << table.text();
        ASSERT_LT(ratio, 1.5) << 500 + 20 * i << " rows, " << table.text();
      }
    }
  }
}

// Also between any two numbers of rows that lie closer, where a threshold is.
TEST(Plan, HasNoStepAtItsThresholds) {
  for (const Table& table : tables()) {
    Plan last = plan_for(table, 500);
    for (int64_t rows = 501; rows < 20000; rows += 7) {
      const Plan plan = plan_for(table, rows);
      if (plan.form != last.form || plan.members != last.members) {
        const double ratio = (plan.operations + kPlanOverhead) / (last.operations + kPlanOverhead);
        EXPECT_GT(ratio, 0.45) << rows << " rows, " << table.text();
        EXPECT_LT(ratio, 1.5) << rows << " rows, " << table.text();
      }
      last = plan;
    }
  }
}

// On two cores. One member by batches trains on one of them, after two networks have chosen its
// point.
double seconds_of(const Plan& plan) {
  const double cores = plan.members > 1 || plan.form != "batch" ? 2 : 1.4;
  return (plan.operations + kPlanOverhead) / (cores * kPlanRate);
}

TEST(Plan, StaysWithinItsTime) {
  // 50 columns of numbers are 700 features: each has 13 pieces beside it.
  for (int64_t rows = 500; rows <= 10000; rows += 250) {
    EXPECT_LE(seconds_of(plan_for({.features = 700}, rows)), 30) << rows << " rows";
  }
  EXPECT_LE(seconds_of(plan_for({.features = 504, .outputs = 6, .classes = true}, 2000)), 20);
}

TEST(Plan, TakesTheExactFormOfFewRows) {
  for (const int64_t rows : {20, 100, 500, 800}) {
    EXPECT_EQ(plan_for({}, rows).form, "dual") << rows << " rows";
    EXPECT_EQ(plan_for({}, rows).members, 4) << rows << " rows";
  }
  EXPECT_EQ(plan_for({}, 4000).form, "batch");
  PlanSizes alone = sizes_of({}, 4000);
  alone.may_batch = false;  // a GPU, several ranks, pictures
  EXPECT_EQ(usual_plan(alone, options_for({})).form, "dual");
  train::TrainOptions wanted = options_for({});
  wanted.form = "dual";  // the user's choice stands
  EXPECT_EQ(usual_plan(sizes_of({}, 4000), wanted).form, "dual");
}

}  // namespace
}  // namespace cdt::study
