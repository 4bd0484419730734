#include <cdt/analysis/parts/leave_one_out.h>
#include <cdt/core/error.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/modes.h"

namespace cdt::analysis {
namespace {

using torch::Tensor;

TEST(LeaveOneOut, EqualsTheProblemsWithoutEachRow) {
  torch::manual_seed(3);
  const int64_t n = 14;
  const Tensor jacobian = torch::randn({n, 9}, torch::kFloat64);
  const Tensor theta = jacobian.mm(jacobian.t());
  const Tensor outputs = torch::randn({n}, torch::kFloat64);
  const Tensor labels =
      jacobian.mv(torch::randn({9}, torch::kFloat64)) + torch::randn({n}, torch::kFloat64);
  const LeaveOneOut found = leave_one_out(test::spectrum_of(theta), labels, outputs);
  ASSERT_GT(found.decay, 0);
  double error = 0, mean = 0;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<int64_t> others;
    for (int64_t j = 0; j < n; ++j) {
      if (j != i) others.push_back(j);
    }
    const Tensor rest = torch::tensor(others);
    const Tensor small = theta.index_select(0, rest).index_select(1, rest) +
                         found.decay * torch::eye(n - 1, torch::kFloat64);
    const Tensor gap = (labels - outputs).index_select(0, rest);
    const Tensor weights = torch::linalg_solve(small, gap);
    const double predicted =
        (outputs[i] + theta[i].index_select(0, rest).dot(weights)).item<double>();
    error += std::pow(predicted - labels[i].item<double>(), 2) / n;
    mean +=
        std::pow(labels.index_select(0, rest).mean().item<double>() - labels[i].item<double>(), 2) /
        n;
  }
  // τ is no less than 10⁻⁶ of the mean eigenvalue: solutions keep nine digits.
  EXPECT_NEAR(found.error, error, 1e-8 * error);
  EXPECT_NEAR(found.mean, mean, 1e-12 * mean);
  const Tensor hat =
      torch::linalg_solve(theta + found.decay * torch::eye(n, torch::kFloat64), theta);
  EXPECT_NEAR(found.freedom, hat.trace().item<double>(), 1e-8);
  const Tensor left = (labels - outputs) - hat.t().mv(labels - outputs);
  EXPECT_NEAR(found.fitted, left.square().mean().item<double>(), 1e-8 * found.fitted);
}

TEST(LeaveOneOut, NoiseIsNoBetterThanItsMeanAndALineIsFound) {
  torch::manual_seed(5);
  const int64_t n = 200;
  const Tensor x = torch::randn({n, 3}, torch::kFloat64);
  const Tensor theta = x.mm(x.t()) + 1;
  const auto modes = dynamics::decompose(theta, 1e-12);
  const Tensor zero = torch::zeros({n}, torch::kFloat64);
  EXPECT_LT(leave_one_out(modes, torch::randn({n}, torch::kFloat64), zero).r2(), 0.05);
  EXPECT_GT(leave_one_out(modes, x.select(1, 0) + 1, zero).r2(), 0.999);
}

TEST(LeaveOneOut, KnowsOutputsThatHaveLearnedTheLabels) {
  torch::manual_seed(6);
  const int64_t n = 60;
  const Tensor x = torch::randn({n, 3}, torch::kFloat64);
  const auto modes = dynamics::decompose(x.mm(x.t()) + 1, 1e-12);
  const Tensor labels = torch::randn({n}, torch::kFloat64);
  const LeaveOneOut fresh = leave_one_out(modes, labels, torch::randn({n}, torch::kFloat64));
  EXPECT_LT(fresh.outputs_r2(), 0);
  const Tensor near = labels + 0.1 * torch::randn({n}, torch::kFloat64);
  const LeaveOneOut learned = leave_one_out(modes, labels, near);
  EXPECT_GT(learned.outputs_r2(), 0.9);
  EXPECT_GT(learned.r2(), 0.9) << "noise is not predictable: too good";
  EXPECT_NEAR(learned.outputs, (labels - near).square().mean().item<double>(), 1e-15);
}

TEST(LeaveOneOut, OfAKernelThatIsZeroIsTheErrorItself) {
  const Tensor labels = torch::tensor({1.0, 2.0}, torch::kFloat64);
  const auto modes = dynamics::decompose(torch::zeros({2, 2}, torch::kFloat64), 0);
  EXPECT_DOUBLE_EQ(leave_one_out(modes, labels, torch::zeros({2}, torch::kFloat64)).error, 2.5);
  const auto one = dynamics::decompose(torch::ones({1, 1}, torch::kFloat64), 0);
  EXPECT_THROW(leave_one_out(one, labels.narrow(0, 0, 1), labels.narrow(0, 0, 1)), InvalidArgument);
}

}  // namespace
}  // namespace cdt::analysis
