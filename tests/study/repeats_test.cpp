// Rows that are equal in every feature are one row to every split, fold and standard error.
#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/predictor.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

namespace cdt::study {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using torch::Tensor;

/// `count` rows of noise, each so many times, one copy of all behind the other; targets differ.
data::Table repeated_noise(int64_t count, int64_t times, uint64_t seed = 1) {
  torch::manual_seed(seed);
  const Tensor x = torch::randn({count, 2}, torch::kFloat64);
  std::string text = "a,b,who,y\n";
  for (int64_t k = 0; k < times; ++k) {
    for (int64_t i = 0; i < count; ++i) {
      text += fmt::format("{},{},{},{}\n", x[i][0].item<double>(), x[i][1].item<double>(), i % 7,
                          torch::randn({1}).item<float>());
    }
  }
  return data::parse_csv(text, "noise.csv");
}

DataOptions of_noise(Goal goal) {
  DataOptions data;
  data.goal = goal;
  data.targets = {"y"};
  return data;
}

double off(double found, double wanted) { return std::abs(found - wanted) / std::abs(wanted); }

NetworkOptions small_layers() {
  NetworkOptions network;
  network.hidden = {4};
  return network;
}

TEST(Repeats, StayOnOneSide) {
  const data::Table table = repeated_noise(40, 3);
  for (const Goal goal : {Goal::kFit, Goal::kPredict}) {
    for (const bool grouped : {false, true}) {
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(testing::Message() << to_string(goal) << grouped << " seed " << seed);
        DataOptions data = of_noise(goal);
        data.test_fraction = 0.2;
        if (grouped) data.group = "who";
        const Problem problem = make_problem(table, data, small_layers(), seed, torch::kCPU);
        std::map<int64_t, int> side, side_of_group;
        int number = 0;
        size_t rows = 0;
        for (const auto* part :
             {&problem.split.train, &problem.split.validation, &problem.split.test}) {
          ++number;
          rows += part->size();
          EXPECT_FALSE(part->empty());
          for (const int64_t row : *part) {
            EXPECT_EQ(side.emplace(row % 40, number).first->second, number) << "row " << row;
            if (grouped) {
              EXPECT_EQ(side_of_group.emplace(row % 40 % 7, number).first->second, number);
            }
          }
        }
        EXPECT_EQ(rows, 120U);
        // Folds, too: equal rows have one number, and the groups that hold them are as large.
        const auto& split = problem.split;
        std::vector<int64_t> seen = split.train;
        seen.insert(seen.end(), split.validation.begin(), split.validation.end());
        ASSERT_EQ(problem.different.size(), seen.size());
        std::map<int64_t, int64_t> of, group;
        for (size_t i = 0; i < seen.size(); ++i) {
          EXPECT_EQ(of.emplace(problem.different[i], seen[i] % 40).first->second, seen[i] % 40);
          EXPECT_EQ(group.emplace(seen[i] % 40, problem.groups[i]).first->second,
                    problem.groups[i]);
        }
        EXPECT_THAT(problem.notes[grouped ? 1 : 0],
                    HasSubstr("80 of 120 rows repeat another in every feature: 40 different ones"));
      }
    }
  }
}

TEST(Repeats, WhatNamesOrWeighsRowsIsNoFeature) {
  // A running number would make all rows different, and so would weights.
  std::string text = "id,a,b,w,y\n";
  for (int i = 0; i < 90; ++i) {
    text += fmt::format("{},{},{},{},{}\n", i + 1, i % 30, (i * 7) % 30, 1 + i % 4, i % 11);
  }
  const data::Table table = data::parse_csv(text, "t.csv");
  DataOptions data = of_noise(Goal::kPredict);
  data.sample_weights = "w";
  const Problem problem = make_problem(table, data, small_layers(), 1, torch::kCPU);
  EXPECT_EQ(problem.different.size(), 90U);
  data.keep = {"id"};
  EXPECT_TRUE(make_problem(table, data, small_layers(), 1, torch::kCPU).different.empty());
  data.keep.clear();
  data.equal_rows_together = false;
  EXPECT_TRUE(make_problem(table, data, small_layers(), 1, torch::kCPU).different.empty());
}

/// Rows of noise, three times each, in a mixed order; each has a number of its own.
data::Table numbered_noise(const char* numbers, bool own_targets, int64_t levels, uint64_t seed) {
  torch::manual_seed(seed);
  const Tensor x = levels > 0 ? torch::randint(levels, {60, 2}, torch::kFloat64)
                              : torch::randn({60, 2}, torch::kFloat64);
  const Tensor y = torch::randn({180}, torch::kFloat64);
  const Tensor order = torch::randperm(180), name = torch::randperm(180);
  std::string text = fmt::format("a,b,{},y\n", numbers);
  for (int64_t i = 0; i < 180; ++i) {
    const auto row = order[i].item<int64_t>();
    text += fmt::format("{},{},{},{}\n", x[row % 60][0].item<double>(),
                        x[row % 60][1].item<double>(), 1000 + 7 * name[i].item<int64_t>(),
                        y[own_targets ? row : row % 60].item<double>());
  }
  return data::parse_csv(text, "numbered.csv");
}

TEST(Repeats, ThatANumberForEachRowHides) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const bool own_targets : {false, true}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << (own_targets ? ", own targets" : ""));
      const Problem problem =
          make_problem(numbered_noise("order", own_targets, 0, seed), of_noise(Goal::kPredict),
                       small_layers(), 1, torch::kCPU);
      EXPECT_THAT(problem.notes, Contains(HasSubstr("120 of 180 rows repeat another in every "
                                                    "feature but order (a number for each row): "
                                                    "60 different ones")));
    }
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", few levels");
    // Nine different rows: chance makes them equal.
    const Problem few = make_problem(numbered_noise("order", true, 3, seed),
                                     of_noise(Goal::kPredict), small_layers(), 1, torch::kCPU);
    EXPECT_THAT(few.notes, Each(Not(HasSubstr("repeat"))));
    const Problem same = make_problem(numbered_noise("order", false, 20, seed),
                                      of_noise(Goal::kPredict), small_layers(), 1, torch::kCPU);
    EXPECT_THAT(same.notes, Contains(HasSubstr("every feature and target but order")));
  }
}

TEST(Repeats, ThatOtherColumnsHide) {
  // A join brings a column to each copy, whatever it holds; noise disturbs another.
  for (const char* joined : {"visit", "noise", "both"}) {
    torch::manual_seed(3);
    const Tensor x = torch::randn({40, 3}, torch::kFloat64);
    std::string text = "a,b,c,d,y\n";
    for (int i = 0; i < 120; ++i) {
      const int64_t row = (i * 7) % 40;
      const bool noisy = std::string(joined) != "visit";
      const bool visits = std::string(joined) != "noise";
      text += fmt::format("{},{},{},{},{}\n", x[row][0].item<double>(), x[row][1].item<double>(),
                          row % 5 + (noisy ? torch::rand({1}).item<double>() : 0.0),
                          visits ? i / 40 : 1, x[row][2].item<double>());
    }
    const Problem problem = make_problem(data::parse_csv(text, "t.csv"), of_noise(Goal::kPredict),
                                         small_layers(), 1, torch::kCPU);
    ASSERT_EQ(problem.different.size(), 120U) << joined;
    EXPECT_EQ(std::set<int64_t>(problem.different.begin(), problem.different.end()).size(), 40U);
    const std::string other = std::string(joined) == "visit" ? "d" : "c";
    EXPECT_THAT(problem.notes, Contains(HasSubstr("80 of 120 rows repeat another in every feature "
                                                  "and target but " +
                                                  other)));
  }
  // Targets that are ratings are equal without being copies.
  torch::manual_seed(4);
  std::string text = "a,b,y\n";
  for (int i = 0; i < 120; ++i) {
    text += fmt::format("{},{},{}\n", torch::randn({1}).item<double>(), i % 3, i % 5);
  }
  EXPECT_TRUE(make_problem(data::parse_csv(text, "t.csv"), of_noise(Goal::kPredict), small_layers(),
                           1, torch::kCPU)
                  .different.empty());
}

TEST(Repeats, InTimeGoWithTheLatest) {
  std::string text = "t,a,y\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("{},{},{}\n", i + 1, i < 48 ? i : i - 10, i % 7);
  DataOptions data = of_noise(Goal::kPredict);
  data.time = "t";
  const Problem problem =
      make_problem(data::parse_csv(text, "t.csv"), data, small_layers(), 1, torch::kCPU);
  const std::set<int64_t> train(problem.split.train.begin(), problem.split.train.end());
  for (int64_t row = 0; row < 60; ++row) {
    // The last twelve, 38 to 47 being as late as 48 to 57, which they equal.
    EXPECT_EQ(train.contains(row), row < 43 || (row >= 48 && row < 53)) << row;
  }
}

TEST(Repeats, ChangeNothingWhereThereAreNone) {
  const data::Table table = repeated_noise(50, 1);
  for (const Goal goal : {Goal::kFit, Goal::kPredict}) {
    DataOptions data = of_noise(goal);
    const Problem problem = make_problem(table, data, small_layers(), 3, torch::kCPU);
    data.equal_rows_together = false;
    const Problem apart = make_problem(table, data, small_layers(), 3, torch::kCPU);
    EXPECT_EQ(problem.split.train, apart.split.train);
    EXPECT_EQ(problem.split.validation, apart.split.validation);
    EXPECT_EQ(problem.notes, apart.notes);
    EXPECT_TRUE(problem.groups.empty());
    EXPECT_TRUE(problem.different.empty());
  }
}

TEST(Repeats, PicturesToo) {
  const data::Table some = generated_pictures(12, 1, 8);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 36; ++i) rows.push_back(i % 12);
  const data::Table table = select_rows(some, rows);
  DataOptions data;
  NetworkOptions network;
  network.choose("cnn");
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Problem problem = make_problem(table, data, network, seed, torch::kCPU);
    std::set<int64_t> train;
    for (const int64_t row : problem.split.train) train.insert(row % 12);
    for (const int64_t row : problem.split.validation) EXPECT_FALSE(train.contains(row % 12));
    EXPECT_THAT(problem.notes[0], HasSubstr("24 of 36 pictures repeat another in every pixel"));
  }
}

TEST(Repeats, TooFewDifferentRowsAreRefused) {
  const data::Table table = repeated_noise(2, 30);
  DataOptions data = of_noise(Goal::kPredict);
  data.test_fraction = 0.3;
  EXPECT_THAT(
      [&] { make_problem(table, data, small_layers(), 1, torch::kCPU); },
      testing::ThrowsMessage<InvalidArgument>(HasSubstr("expected rows of 3 different contents")));
}

/// Copies say nothing new: values, standard errors and the linear model are those of the rows once.
TEST(Repeats, CountOnceInStandardErrors) {
  torch::manual_seed(3);
  const auto kWide = torch::kFloat64;
  const Tensor x = torch::randn({30, 4}, kWide), y = torch::randn({30, 1}, kWide);
  const Tensor guess = y + 0.3 * torch::randn({30, 1}, kWide);
  data::Preprocess numbers;
  numbers.targets.emplace_back().name = "y";
  std::vector<int64_t> different;
  for (int64_t i = 0; i < 90; ++i) different.push_back(i % 30);
  const auto thrice = [](const Tensor& t) { return t.repeat({3, 1}); };
  const Expectation once = expect(numbers, guess, y, x)[0];
  const Expectation many = expect(numbers, thrice(guess), thrice(y), thrice(x), different)[0];
  EXPECT_LE(off(many.rmse.value, once.rmse.value), 1e-12);
  EXPECT_LE(off(many.rmse.error, once.rmse.error), 1e-12);
  EXPECT_LE(off(many.linear_rmse, once.linear_rmse), 1e-9);
  EXPECT_EQ(many.rows, 90);
  EXPECT_EQ(many.different, 30);
  const Expectation copies = expect(numbers, thrice(guess), thrice(y), thrice(x))[0];
  EXPECT_LT(copies.rmse.error, 0.7 * once.rmse.error);
  EXPECT_LT(copies.linear_rmse, once.linear_rmse);

  // The linear model against one that is fitted without the rows, at each ridge.
  const Tensor labels = thrice(y) + 0.5 * torch::randn({90, 1}, kWide);
  const double found = linear_error(thrice(x), labels.squeeze(1), different);
  const Tensor X = thrice(x);
  const Tensor mean = X.mean(0);
  const double largest = torch::linalg_eigvalsh((X - mean).t().mm(X - mean)).max().item<double>();
  double least = std::numeric_limits<double>::infinity();
  for (double share = 1e-6; share < 20; share *= 3) {
    double sum = 0;
    for (int64_t i = 0; i < 30; ++i) {
      std::vector<int64_t> rest;
      for (int64_t row = 0; row < 90; ++row) {
        if (row % 30 != i) rest.push_back(row);
      }
      // The intercept is not held back: its column has no ridge. Features are centred over all.
      const Tensor of = torch::tensor(rest);
      const Tensor A = torch::cat({(X - mean).index_select(0, of), torch::ones({87, 1}, kWide)}, 1);
      Tensor ridge = share * largest * torch::eye(5, kWide);
      ridge[4][4] = 0;
      const Tensor w =
          torch::linalg_solve(A.t().mm(A) + ridge, A.t().mm(labels.index_select(0, of)), true);
      const Tensor own = torch::cat({(x - mean)[i], torch::ones({1}, kWide)});
      for (int64_t row = i; row < 90; row += 30) {
        sum += (labels[row] - own.dot(w.squeeze(1))).square().item<double>();
      }
    }
    least = std::min(least, std::sqrt(sum / 90));
  }
  EXPECT_LE(off(found, least), 1e-9);
}

TEST(Repeats, CountOnceInIntervals) {
  torch::manual_seed(4);
  const Tensor residuals = torch::rand({20, 2}, torch::kFloat64);
  std::vector<int64_t> different;
  for (int64_t i = 0; i < 60; ++i) different.push_back(i % 20);
  EXPECT_TRUE(torch::equal(sorted_by_row(residuals.repeat({3, 1}), different),
                           std::get<0>(residuals.sort(0))));
  // Two rows, one of them three times: each of the thirds weighs a third.
  const Tensor few = torch::tensor({{1.0}, {2.0}, {3.0}, {4.0}}, torch::kFloat64);
  EXPECT_TRUE(torch::equal(sorted_by_row(few, {0, 1, 0, 0}),
                           torch::tensor({{2.0}, {4.0}}, torch::kFloat64)));
}

}  // namespace
}  // namespace cdt::study
