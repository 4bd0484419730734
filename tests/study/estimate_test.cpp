// Standard errors of means of losses: what they cover, for skewed values and for few rows.
#include <ATen/CPUGeneratorImpl.h>
#include <cdt/study/estimate.h>
#include <gmock/gmock.h>

#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

const auto kWide = torch::kFloat64;

/// The share of tables whose RMS error ± 2 errors holds the true one; errors are σ-log-normal less
/// their mean, or normal for σ = 0.
double coverage(double sigma, int64_t rows, int64_t tables) {
  const auto generator = at::detail::createCPUGenerator(/*seed=*/7);
  const double s2 = sigma * sigma;
  const double truth = sigma > 0 ? std::sqrt((std::exp(s2) - 1) * std::exp(s2)) : 1;
  int64_t within = 0;
  for (int64_t k = 0; k < tables; ++k) {
    const Tensor z = torch::randn({rows}, generator, kWide);
    const Tensor errors = sigma > 0 ? (sigma * z).exp() - std::exp(s2 / 2) : z;
    const Estimate found = root_of(mean_of_losses(errors.square()));
    within += std::abs(found.value - truth) <= 2 * found.error;
  }
  return static_cast<double>(within) / static_cast<double>(tables);
}

TEST(Estimate, CoversUnderHeavyTails) {
  for (const int64_t rows : {100, 400}) {
    EXPECT_GE(coverage(0, rows, 400), 0.94) << rows;
    EXPECT_GE(coverage(0.5, rows, 400), 0.90) << rows;
    EXPECT_GE(coverage(1.0, rows, 400), 0.86) << rows;
    EXPECT_GE(coverage(1.5, rows, 400), 0.80) << rows;
  }
  EXPECT_GE(coverage(0, 30, 400), 0.94);
  EXPECT_GE(coverage(1.0, 30, 400), 0.78);
  for (const int64_t rows : {2, 3, 5, 10}) EXPECT_GE(coverage(0, rows, 400), 0.90) << rows;
}

// It must not say nothing either: of normal errors, some one and a half times the textbook's.
TEST(Estimate, IsNotWideWithoutNeed) {
  const auto generator = at::detail::createCPUGenerator(/*seed=*/8);
  for (const int64_t rows : {200, 1000}) {
    constexpr int kTables = 50;
    double sum = 0;
    for (int k = 0; k < kTables; ++k) {
      sum += root_of(mean_of_losses(torch::randn({rows}, generator, kWide).square())).error;
    }
    const double textbook = 1 / std::sqrt(2 * static_cast<double>(rows));
    EXPECT_GT(sum / kTables, textbook);
    EXPECT_LT(sum / kTables, 2 * textbook);
  }
}

TEST(Estimate, OfNoRowsAndOneIsNotKnown) {
  EXPECT_TRUE(std::isnan(mean_of_losses(torch::empty({0}, kWide)).value));
  const Estimate one = mean_of_losses(torch::ones({1}, kWide));
  EXPECT_EQ(one.value, 1);
  EXPECT_TRUE(std::isnan(one.error));
  // Two that happen to be equal know little.
  EXPECT_GT(mean_of_losses(torch::ones({2}, kWide), {}, 0.5).error, 1);
}

/// The exact chance of so many hits or fewer.
double binomial_up_to(int64_t hits, int64_t rows, double p) {
  double sum = 0;
  for (int64_t k = 0; k <= hits; ++k) {
    sum += std::exp(std::lgamma(rows + 1) - std::lgamma(k + 1) - std::lgamma(rows - k + 1) +
                    static_cast<double>(k) * std::log(p) +
                    static_cast<double>(rows - k) * std::log1p(-p));
  }
  return sum;
}

TEST(Estimate, OfAShareIsNeverCertain) {
  for (const int64_t rows : {1, 2, 10, 100, 10000}) {
    const Estimate none = share_of(0, rows), all = share_of(1, rows);
    EXPECT_EQ(none.value, 0);
    EXPECT_GT(none.error, 0);
    EXPECT_NEAR(none.error, all.error, 1e-12);
    // A share at the end of the interval gives no hit with a chance of some per cent.
    const double chance = std::pow(1 - 2 * none.error, rows);
    EXPECT_LT(chance, 0.35) << rows;
    EXPECT_GT(share_at_most(0, rows), 1 - std::pow(0.3, 1.0 / static_cast<double>(rows))) << rows;
  }
  for (const int64_t rows : {20, 50, 300}) {
    for (const double p : {0.02, 0.1, 0.4}) {  // how often two errors hold the truth, exactly
      double within = 0, before = 0;
      for (int64_t hits = 0; hits <= rows; ++hits) {
        const double up_to = binomial_up_to(hits, rows, p);
        const Estimate found =
            share_of(static_cast<double>(hits) / static_cast<double>(rows), rows);
        if (std::abs(found.value - p) <= 2 * found.error) within += up_to - before;
        before = up_to;
      }
      EXPECT_GE(within, 0.93) << rows << " rows, " << p;
    }
  }
}

TEST(Estimate, ComparesRowByRow) {
  const Tensor d = torch::tensor({1.0, 2.0, 3.0, 2.0}, kWide);
  EXPECT_NEAR(lead_of(d), 2 / std::sqrt(2.0 / 3 / 4), 1e-12);
  EXPECT_NEAR(lead_of(-d), -lead_of(d), 1e-12);
  EXPECT_EQ(lead_of(torch::zeros({3}, kWide)), 0);
  EXPECT_TRUE(std::isinf(lead_of(torch::ones({3}, kWide))));
  EXPECT_TRUE(std::isnan(lead_of(torch::ones({1}, kWide))));
  EXPECT_NEAR(errors_on_a_side(3), 4.30, 0.01);  // Student's table
  EXPECT_NEAR(errors_on_a_side(21), 2.09, 0.04);
}

TEST(Estimate, CountsTheRowsThatDecide) {
  EXPECT_EQ(rows_of_half(torch::tensor({1.0, 100.0, 1.0, 1.0}, kWide)), 1);
  EXPECT_EQ(rows_of_half(torch::ones({10}, kWide)), 5);
  EXPECT_EQ(rows_of_half(torch::zeros({10}, kWide)), 0);
}

TEST(Estimate, CopiesWeighAsOften) {
  EXPECT_EQ(effective_rows({}, 30), 30);
  EXPECT_EQ(effective_rows({0, 1, 2, 0, 1, 2}, 6), 3);
  // Ten rows fifteen times beside 180: (330)²/(10·225 + 180).
  std::vector<int64_t> different;
  for (int64_t i = 0; i < 330; ++i) different.push_back(i < 150 ? i / 15 : i);
  EXPECT_EQ(effective_rows(different, 330), 45);
}

}  // namespace
}  // namespace cdt::study
