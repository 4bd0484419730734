// Reachability against the PBH test itself, label sequences against least squares, duplicates
// against planted ones.
#include <cdt/analysis/reachability.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/simulation.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/mlp.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/modes.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using analysis::Conflict;
using test::relative_error;
using testing::ElementsAre;
using torch::Tensor;

using test::kDouble;
using test::spectrum_of;

/// min over eigenvalues z of A of the rank of [zI − A, B], by singular values: the paper's test,
/// literally.
int64_t pbh_rank(const Tensor& A, const Tensor& B) {
  const int64_t n = A.size(0);
  int64_t lowest = n;
  const Tensor eigenvalues = torch::linalg_eigvalsh(A);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor pencil = torch::cat({eigenvalues[i] * torch::eye(n, kDouble) - A, B}, 1);
    const Tensor singular = torch::linalg_svdvals(pencil);
    lowest = std::min(lowest, (singular > 1e-10 * singular.max()).sum().item<int64_t>());
  }
  return lowest;
}

TEST(Reachability, IsThePbhTest) {
  for (int64_t rank : {3, 6, 8}) {
    for (uint64_t seed : {1, 2}) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << " seed " << seed);
      const Tensor theta = test::random_kernel(8, rank, 2.0, seed);
      const auto reachability = analysis::assess_reachability(spectrum_of(theta));
      const Tensor S = 0.3 * theta;
      EXPECT_EQ(reachability.rank.value, rank);
      EXPECT_EQ(reachability.reachable, pbh_rank(torch::eye(8, kDouble) - S, S) == 8);
      EXPECT_EQ(reachability.reachable, rank == 8);
    }
  }
  EXPECT_NEAR(analysis::assess_reachability(spectrum_of(test::kernel_with({0.5, 1, 2}, 1))).margin,
              0.25, 1e-12);
}

TEST(Stabilizability, IsAboutTheErrorOnNullDirections) {
  const Tensor theta = test::random_kernel(6, 4, 1.0, 3);
  const auto spectrum = spectrum_of(theta);
  const Tensor reachable = theta.mv(torch::randn({6}, kDouble));
  EXPECT_TRUE(analysis::assess_stabilizability(spectrum, reachable).stabilizable);
  const Tensor stuck = reachable + 0.25 * spectrum.null_vectors().select(1, 1);
  const auto verdict = analysis::assess_stabilizability(spectrum, stuck);
  EXPECT_FALSE(verdict.stabilizable);
  EXPECT_NEAR(verdict.stuck_error, 0.25, 1e-10);
  // What training leaves: simulate to the end.
  const auto run = dynamics::simulate(theta, stuck, 5000);
  EXPECT_NEAR(run.errors[5000].norm().item<double>(), verdict.stuck_error, 1e-6);
  EXPECT_TRUE(analysis::assess_stabilizability(spectrum, torch::zeros({6}, kDouble)).stabilizable);
  EXPECT_THROW(analysis::assess_stabilizability(spectrum, torch::ones({5}, kDouble)),
               InvalidArgument);
  EXPECT_THROW(analysis::assess_stabilizability(spectrum, stuck * NAN), InvalidArgument);
}

/// A real network on data with planted duplicates, as a user would have it.
struct Planted {
  Tensor theta;
  Tensor labels;
};

Planted planted(int64_t outputs, torch::ScalarType dtype) {
  torch::manual_seed(4);
  nn::MlpOptions options;
  options.inputs = 5;
  options.hidden = {40, 40};
  options.outputs = outputs;
  nn::Mlp net(options, 7, dtype);
  Tensor x = torch::randn({20, 5}, kDouble).to(dtype);
  Tensor y = torch::randn({20, outputs}, kDouble);
  x[9].copy_(x[3]);  // equal labels
  y[9].copy_(y[3]);
  x[15].copy_(x[3]);
  y[15].copy_(y[3]);
  x[18].copy_(x[6]);  // conflicting labels
  y[18].copy_(y[6]);
  y[18][outputs - 1] += 0.75;
  return {kernel::empirical_ntk(net, x).theta, y.reshape({-1})};
}

TEST(Conflicts, DuplicatesAreFoundAndNamed) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    for (int64_t outputs : {1, 3}) {
      SCOPED_TRACE(testing::Message() << outputs << " outputs, " << dtype);
      const auto [theta, labels] = planted(outputs, dtype);
      const auto spectrum = dynamics::decompose(theta, tol::rank_of_computed(theta.size(0), dtype));
      EXPECT_EQ(spectrum.nullity(), 3 * outputs);
      const auto conflicts = analysis::trace_unreachable(theta, spectrum, outputs, labels);
      ASSERT_EQ(conflicts.size(), 2u);
      EXPECT_THAT(conflicts[0].rows, ElementsAre(3, 9, 15));
      EXPECT_EQ(conflicts[0].kind, Conflict::Kind::kDuplicateEqual);
      EXPECT_EQ(conflicts[0].label_gap, 0);
      EXPECT_THAT(conflicts[1].rows, ElementsAre(6, 18));
      EXPECT_EQ(conflicts[1].kind, Conflict::Kind::kDuplicateConflict);
      EXPECT_NEAR(conflicts[1].label_gap, 0.75, 1e-6);
      const auto unlabelled = analysis::trace_unreachable(theta, spectrum, outputs, std::nullopt);
      ASSERT_EQ(unlabelled.size(), 2u);
      EXPECT_EQ(unlabelled[0].kind, Conflict::Kind::kDuplicate);
    }
  }
}

TEST(Conflicts, DependentSamplesThatAreNoDuplicates) {
  torch::manual_seed(5);
  // A linear model with 3 parameters on 6 samples, two of them twins.
  Tensor J = torch::randn({6, 3}, kDouble);
  J[5].copy_(J[0]);
  J[4].copy_(torch::tensor({0.0, 0.0, 3.0}, kDouble));
  const Tensor theta = J.mm(J.t());
  const auto conflicts =
      analysis::trace_unreachable(theta, spectrum_of(theta), 1, torch::ones({6}, kDouble));
  ASSERT_EQ(conflicts.size(), 2u);
  EXPECT_THAT(conflicts[0].rows, ElementsAre(0, 5));
  EXPECT_EQ(conflicts[1].kind, Conflict::Kind::kDependent);
  EXPECT_GE(conflicts[1].rows.size(), 3u);
  // Apart from each other: twins 0 and 1, then three samples of two parameters, then one alone.
  Tensor apart = torch::zeros({6, 4}, kDouble);
  apart.narrow(0, 0, 2).select(1, 0).fill_(1);
  apart.narrow(0, 2, 3).narrow(1, 1, 2).copy_(torch::randn({3, 2}, kDouble));
  apart[5][3] = 1;
  const Tensor blocks = apart.mm(apart.t());
  Tensor labels = torch::ones({6}, kDouble);
  labels[0] = 1 + 1e-12;  // no conflict
  const auto found = analysis::trace_unreachable(blocks, spectrum_of(blocks), 1, labels);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, Conflict::Kind::kDuplicateEqual);
  EXPECT_THAT(found[1].rows, ElementsAre(2, 3, 4));
  EXPECT_TRUE(analysis::trace_unreachable(test::random_kernel(4, 9, 1.0, 1),
                                          spectrum_of(test::random_kernel(4, 9, 1.0, 1)), 2,
                                          std::nullopt)
                  .empty());
  EXPECT_THROW(analysis::trace_unreachable(theta, spectrum_of(theta), 4, std::nullopt),
               InvalidArgument);
  EXPECT_THROW(analysis::trace_unreachable(theta, spectrum_of(theta), 1, torch::ones({5}, kDouble)),
               InvalidArgument);
}

TEST(Conflicts, CloseIsNotTheSame) {
  // Two pairs of twins that almost agree: two groups.
  const Tensor J = torch::tensor({{1.0, 0.0}, {1.0, 0.003}, {1.0, 0.0}, {1.0, 0.003}}, kDouble);
  const Tensor pairs = J.mm(J.t());
  auto conflicts = analysis::trace_unreachable(pairs, spectrum_of(pairs), 1, std::nullopt);
  ASSERT_EQ(conflicts.size(), 2u);
  EXPECT_THAT(conflicts[0].rows, ElementsAre(0, 2));
  EXPECT_THAT(conflicts[1].rows, ElementsAre(1, 3));
  // Two samples hardly above the cut, whose difference lies below it, are no twins for that.
  Tensor small = torch::eye(4, kDouble);
  small.narrow(0, 0, 2).narrow(1, 0, 2).copy_(1e-6 *
                                              torch::tensor({{1.5, 0.8}, {0.8, 1.5}}, kDouble));
  const auto spectrum = dynamics::decompose(small, 1e-6);
  ASSERT_EQ(spectrum.nullity(), 1);
  conflicts = analysis::trace_unreachable(small, spectrum, 1, std::nullopt);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].kind, Conflict::Kind::kDependent);
}

TEST(Conflicts, FrozenSamplesAreNotCalledDuplicates) {
  const Tensor theta = torch::diag(torch::tensor({0.0, 0.0, 1e-18, 1.0, 1.0, 1.0}, kDouble));
  const Tensor labels = torch::arange(6, kDouble);
  const auto conflicts = analysis::trace_unreachable(theta, spectrum_of(theta), 1, labels);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].kind, Conflict::Kind::kFrozen);
  EXPECT_THAT(conflicts[0].rows, ElementsAre(0, 1, 2));
  EXPECT_EQ(to_string(conflicts[0].kind), "frozen");
}

TEST(Conflicts, DependenceSpreadOverManySamplesNamesThemAll) {
  const int64_t n = 200;
  const Tensor theta = torch::eye(n, kDouble) - torch::full({n, n}, 1.0 / n, kDouble);
  const auto conflicts = analysis::trace_unreachable(theta, spectrum_of(theta), 1, std::nullopt);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].kind, Conflict::Kind::kDependent);
  EXPECT_EQ(conflicts[0].rows.size(), 200u);
}

TEST(InputCondition, FindsParallelAndLongInputs) {
  torch::manual_seed(6);
  Tensor x = torch::randn({30, 4}, kDouble);
  x = 0.9 * x / x.norm(2, {1}, true);
  auto condition = analysis::assess_inputs(x);
  EXPECT_TRUE(condition.holds);
  EXPECT_NEAR(condition.largest_norm, 0.9, 1e-12);
  // The pair with the largest |cos|, by a plain loop.
  double largest = 0;
  for (int64_t i = 0; i < 30; ++i) {
    for (int64_t j = i + 1; j < 30; ++j) {
      largest = std::max(largest, std::abs(torch::dot(x[i], x[j]).item<double>()) / 0.81);
    }
  }
  EXPECT_NEAR(condition.largest_cosine, largest, 1e-12);
  x[20] = -0.5 * x[11];
  condition = analysis::assess_inputs(x);
  EXPECT_FALSE(condition.holds);
  EXPECT_EQ(condition.first_row, 11);
  EXPECT_EQ(condition.second_row, 20);
  x[20] = torch::randn({4}, kDouble) * 5;
  condition = analysis::assess_inputs(x.to(torch::kFloat32).view({30, 2, 2}));
  EXPECT_FALSE(condition.holds);
  EXPECT_EQ(condition.largest_row, 20);
  EXPECT_TRUE(analysis::assess_inputs(x.narrow(0, 0, 1)).holds);
  EXPECT_FALSE(analysis::assess_inputs(torch::zeros({1, 3})).holds);
  EXPECT_THROW(analysis::assess_inputs(torch::empty({0, 3})), InvalidArgument);
  EXPECT_THROW(analysis::assess_inputs(x * NAN), InvalidArgument);
  // On the unit sphere up to rounding, and close to each other, but not parallel.
  const Tensor directions = torch::randn({50, 7});
  const Tensor sphere = directions / directions.norm(2, {1}, true);
  EXPECT_TRUE(analysis::assess_inputs(sphere).holds);
  EXPECT_FALSE(analysis::assess_inputs(1.00001 * sphere).holds);
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    SCOPED_TRACE(dtype);
    const Tensor close = torch::tensor({{0.5, 0.0}, {0.5, 0.0005}}, dtype);
    EXPECT_TRUE(analysis::assess_inputs(close).holds);
    const Tensor third = torch::tensor({{0.3, 0.6, 0.1}}, dtype);
    EXPECT_FALSE(analysis::assess_inputs(torch::cat({third, third / 3})).holds);
  }
  // More rows than one block of the search.
  Tensor many = torch::randn({2500, 3}, kDouble);
  for (const int64_t row : {100, 1500}) {
    many[2400] = 2 * many[row];
    condition = analysis::assess_inputs(many);
    EXPECT_EQ(condition.first_row, row);
    EXPECT_EQ(condition.second_row, 2400);
  }
}

TEST(LabelSequence, IsTheSmallestThatArrives) {
  for (int64_t steps : {1, 2, 5}) {
    for (double scale : {0.1, 0.9, 3.0}) {
      SCOPED_TRACE(testing::Message() << steps << " steps, scale " << scale);
      const int64_t n = 5;
      const Tensor theta = test::random_kernel(n, 12, 1.0, 7);
      const Tensor S = scale * theta;
      const Tensor e = torch::randn({n}, kDouble);
      const auto sequence = analysis::reach_labels(spectrum_of(theta), scale, e, steps);
      const auto run = dynamics::simulate_augments(S, e, sequence.augments);
      EXPECT_LE(run.errors[steps].norm().item<double>(), 1e-9 * sequence.size);
      // The minimum-norm solution of [A^(f−1)S … S] u = −Aᶠe by pseudo-inverse.
      const Tensor A = torch::eye(n, kDouble) - S;
      std::vector<Tensor> blocks;
      for (int64_t j = 0; j < steps; ++j)
        blocks.push_back(torch::matrix_power(A, steps - 1 - j).mm(S));
      const Tensor u =
          torch::linalg_pinv(torch::cat(blocks, 1)).mv(-torch::matrix_power(A, steps).mv(e));
      EXPECT_LE(relative_error(sequence.augments.reshape({-1}), u), 1e-7);
      EXPECT_NEAR(sequence.size / u.norm().item<double>(), 1, 1e-7);
    }
  }
}

TEST(LabelSequence, HandlesLongHorizonsAndNullDirections) {
  const Tensor theta = test::random_kernel(6, 4, 1.0, 8);
  const auto spectrum = spectrum_of(theta);
  const Tensor e = theta.mv(torch::randn({6}, kDouble)) + spectrum.null_vectors().select(1, 0);
  for (double scale : {0.5, 50.0}) {  // 50: modes that grow 49-fold a step, 400 steps
    const auto sequence = analysis::reach_labels(spectrum, scale, e, 400);
    EXPECT_NEAR(sequence.unreachable_error, 1, 1e-9);
    // Mode by mode the least energy is (aᶠe)²/(s² Σa^(2m)): e²(a² − 1)/(s²(1 − a^(−2f))), in either
    // direction without overflow.
    const Tensor s = spectrum.reachable_values() * scale;
    const Tensor squared = (1 - s).square();
    const Tensor modal = spectrum.reachable_vectors().t().mv(e);
    const Tensor growing = (squared - 1) / (1 - squared.pow(-400));
    const Tensor shrinking = squared.pow(400) * (1 - squared) / (1 - squared.pow(400));
    const Tensor energy = (modal / s).square() * torch::where(squared > 1, growing, shrinking);
    const double expected = energy.sum().sqrt().item<double>();
    EXPECT_NEAR(sequence.size / expected, 1, 1e-9);
  }
  EXPECT_THROW(analysis::reach_labels(spectrum, 0.5, e, 1000000), InvalidArgument);
  EXPECT_THROW(analysis::reach_labels(spectrum, 0.5, e * NAN, 3), InvalidArgument);
  EXPECT_THROW(analysis::reach_labels(spectrum, 0.5, e.to(torch::kFloat32), 3), InvalidArgument);
  EXPECT_THROW(analysis::reach_labels(spectrum, 0.5, e, 0), InvalidArgument);
  EXPECT_THROW(analysis::reach_labels(spectrum, 0.0, e, 3), InvalidArgument);
}

}  // namespace
}  // namespace cdt
