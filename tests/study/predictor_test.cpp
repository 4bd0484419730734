// What held-out rows say of new ones: expected errors, factors, temperatures, intervals.
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/mlp.h>
#include <cdt/study/predictor.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"

namespace cdt::study {
namespace {

using test::relative_error;
using torch::Tensor;

const auto kFloat = torch::kFloat64;

nn::Network linear_network(int64_t inputs, int64_t outputs) {
  nn::MlpOptions options;
  options.inputs = inputs;
  options.outputs = outputs;
  return nn::Mlp(options, 1, kFloat);
}

Tensor with_ones(const Tensor& x) {
  return torch::cat({x, torch::ones({x.size(0), 1}, kFloat)}, 1);
}

/// A preprocessing of one target with this scale.
data::Preprocess one_target(double offset, double scale, bool log) {
  data::Preprocess preprocess;
  data::TargetColumn target;
  target.name = "y";
  target.scale = {offset, scale};
  target.log = log;
  preprocess.targets.push_back(target);
  return preprocess;
}

TEST(Intervals, VarianceOfALinearModelIsBayes) {
  torch::manual_seed(1);
  for (const int64_t rows : {6, 40}) {
    for (const int64_t outputs : {1, 2}) {
      const Tensor x = torch::randn({rows, 3}, kFloat), fresh = 3 * torch::randn({300, 3}, kFloat);
      for (const double tau : {0.1, 10.0}) {
        const Tensor v = relative_variance(linear_network(3, outputs), x, tau, fresh);
        const Tensor X = with_ones(x), F = with_ones(fresh);
        const Tensor inverse = torch::linalg_inv(X.t().mm(X) + tau * torch::eye(4, kFloat));
        const Tensor wanted = 1 + (F.mm(inverse) * F).sum(1);
        for (int64_t t = 0; t < outputs; ++t) {
          EXPECT_LE(relative_error(v.select(1, t), wanted), 1e-9) << rows << " rows, tau " << tau;
        }
      }
    }
  }
  EXPECT_THROW(relative_variance(linear_network(3, 1), torch::ones({2, 3}, kFloat), 0,
                                 torch::ones({2, 3}, kFloat)),
               InvalidArgument);
}

/// A path that ends at no decay at all, as on labels that the model has exactly.
TEST(Intervals, DecaysBelowRoundingAreRounding) {
  torch::manual_seed(3);
  nn::NetworkOptions layers;
  layers.hidden = {30};
  layers.activation = nn::Activation::kTanh;
  layers.input_shape = {2};
  for (const torch::ScalarType dtype : {torch::kFloat32, kFloat}) {
    const nn::Network net = nn::make_network(layers, 1, dtype);
    const Tensor x = torch::randn({300, 2}, dtype), fresh = 2 * torch::randn({40, 2}, dtype);
    std::vector<int64_t> different(300);
    for (size_t i = 0; i < 300; ++i) different[i] = static_cast<int64_t>(i);
    const Tensor theta = kernel::empirical_ntk(kernel::Model(net.ptr()), x).theta;
    const double rounding = 300 * 0x1p-52 * theta.abs().sum(1).max().item<double>();
    for (const double tau : {1e-22, 1e-300}) {
      const Tensor v = relative_variance(net, x, tau, fresh);
      EXPECT_TRUE(torch::isfinite(v).all().item<bool>()) << tau;
      EXPECT_LE(relative_error(v, relative_variance(net, x, rounding * (1 + 1e-9), fresh)), 1e-6);
      const Tensor own = left_out_variance(net, x, tau, different);
      EXPECT_TRUE(torch::isfinite(own).all().item<bool>()) << tau;
    }
    // What is no rounding stays: a larger decay is another variance.
    const Tensor v = relative_variance(net, x, 1e4 * rounding, fresh);
    EXPECT_GE(relative_error(v, relative_variance(net, x, 1e-22, fresh)), 0.1);
  }
}

/// Where what decides is not there, targets are as they were in training, whatever is predicted.
TEST(Intervals, OfUnfamiliarRowsHoldTheTargets) {
  torch::manual_seed(8);
  for (const bool log : {false, true}) {
    Intervals intervals;
    intervals.residuals = std::get<0>((0.01 * torch::randn({99, 1}, kFloat)).abs().sort(0));
    intervals.targets = std::get<0>(torch::randn({99, 1}, kFloat).sort(0));
    Predictor predictor(linear_network(2, 1));
    const data::Preprocess preprocess = one_target(3, 2, log);
    const Tensor x = torch::randn({4000, 2}, kFloat);
    std::vector<bool> unfamiliar(4000);
    for (size_t i = 0; i < 2000; ++i) unfamiliar[i] = true;
    Tensor truth = torch::randn({4000}, kFloat) * 2 + 3;
    if (log) truth = truth.exp();
    const Bounds plain = bounds_of(intervals, predictor, preprocess, x, 0.9);
    const Bounds wide = bounds_of(intervals, predictor, preprocess, x, 0.9, unfamiliar);
    const Tensor held =
        (wide.low.squeeze(1) <= truth).logical_and(truth <= wide.high.squeeze(1)).to(kFloat);
    EXPECT_GT(held.narrow(0, 0, 2000).mean().item<double>(), 0.86);
    EXPECT_TRUE(torch::equal(wide.low.narrow(0, 2000, 2000), plain.low.narrow(0, 2000, 2000)));
    EXPECT_TRUE((wide.low <= plain.low).all().item<bool>());
    EXPECT_TRUE((wide.high >= plain.high).all().item<bool>());
    // The 5th and the 95th of 99, counted by hand.
    const auto unit = [&](int64_t rank) {
      const double value = 3 + 2 * intervals.targets[rank - 1].item<double>();
      return log ? std::exp(value) : value;
    };
    EXPECT_NEAR(wide.low.min().item<double>(), std::min(unit(5), plain.low.min().item<double>()),
                1e-9 * std::abs(unit(5)));
    EXPECT_NEAR(wide.high[7].item<double>(), std::max(unit(95), plain.high[7].item<double>()),
                1e-9 * std::abs(unit(95)));
    // So few rows that nobody can say: everything.
    intervals.targets = intervals.targets.narrow(0, 0, 10);
    EXPECT_TRUE(std::isinf(
        bounds_of(intervals, predictor, preprocess, x, 0.9, unfamiliar).high[0].item<double>()));
    // Of files of before there is the range that predictions are held to.
    intervals.targets = Tensor();
    predictor.targets = {{-2, 2, 1}};
    const Bounds range = bounds_of(intervals, predictor, preprocess, x, 0.9, unfamiliar);
    EXPECT_LE(range.low[0].item<double>(), log ? std::exp(-1.0) : -1.0);
    EXPECT_GE(range.high[0].item<double>(), log ? std::exp(7.0) : 7.0);
  }
}

/// Gaussian noise, the true prior: nine rows of ten lie within, whatever their distance.
TEST(Intervals, CoverNewRowsOfALinearModel) {
  torch::manual_seed(2);
  const int64_t rows = 30, held = 400, fresh = 4000;
  const double tau = 4, sigma = 0.5;
  const Tensor x = torch::randn({rows, 3}, kFloat);
  // θ ~ N(0, σ²/τ): many worlds, each with its own training rows' noise, stand for many tables.
  const Tensor X = with_ones(x);
  const Tensor gain = torch::linalg_solve(X.t().mm(X) + tau * torch::eye(4, kFloat), X.t(), true);
  const auto residuals_and_v = [&](int64_t count) {
    const Tensor new_x = 2 * torch::randn({count, 3}, kFloat);
    const Tensor worlds = sigma / std::sqrt(tau) * torch::randn({4, count}, kFloat);
    const Tensor labels = X.mm(worlds) + sigma * torch::randn({rows, count}, kFloat);
    const Tensor truth =
        (with_ones(new_x) * worlds.t()).sum(1) + sigma * torch::randn({count}, kFloat);
    const Tensor guess = (with_ones(new_x) * gain.mm(labels).t()).sum(1);
    return std::pair((guess - truth).abs(), new_x);
  };
  const nn::Network net = linear_network(3, 1);
  const auto [first, x_held] = residuals_and_v(held);
  const Tensor v_held = relative_variance(net, x, tau, x_held).squeeze(1);
  const Tensor sorted = std::get<0>((first / v_held.sqrt()).sort());
  // In units of σ√v they are standard normal: the 0.9 quantile is 1.645.
  EXPECT_NEAR(half_width(sorted, 0.9) / sigma, 1.645, 0.2);
  const auto [second, x_new] = residuals_and_v(fresh);
  const Tensor v = relative_variance(net, x, tau, x_new).squeeze(1);
  const Tensor within = second.le(half_width(sorted, 0.9) * v.sqrt());
  EXPECT_NEAR(within.to(kFloat).mean().item<double>(), 0.9, 0.04);
  // Near and far rows alike, which one width for all would not do.
  const Tensor far = v.gt(v.median());
  for (const Tensor& part : {far, far.logical_not()}) {
    EXPECT_NEAR(within.masked_select(part).to(kFloat).mean().item<double>(), 0.9, 0.05);
  }
}

TEST(Intervals, HalfWidthsAreRanks) {
  const Tensor residuals = torch::arange(1, 10, kFloat);  // nine of them
  EXPECT_EQ(half_width(residuals, 0.9), 9);
  EXPECT_EQ(half_width(residuals, 0.5), 5);
  EXPECT_EQ(half_width(residuals, 0.01), 1);
  EXPECT_TRUE(std::isinf(half_width(residuals, 0.95)));  // nine rows do not know
  for (const double share : {0.0, 1.0, -1.0, double{NAN}}) {
    EXPECT_THROW(half_width(residuals, share), InvalidArgument);
  }
}

TEST(Intervals, AreInUnitsOfTheFile) {
  nn::Network net = linear_network(1, 1);
  {
    const torch::NoGradGuard no_graph;
    for (const Tensor& p : net->parameters()) p.zero_();
  }
  Intervals intervals;
  intervals.residuals = torch::tensor({{0.5}, {1.0}, {2.0}}, kFloat);
  const Tensor x = torch::zeros({2, 1}, kFloat);
  const Bounds plain = bounds_of(intervals, net, one_target(10, 3, false), x, 0.5);
  EXPECT_NEAR(plain.low[0][0].item<double>(), 10 - 3, 1e-12);
  EXPECT_NEAR(plain.high[1][0].item<double>(), 10 + 3, 1e-12);
  Predictor predictor(net);
  predictor.targets = {{-0.1, 0.1, 1.5}};  // bounds of predictions are not those of rows
  const Bounds logs = bounds_of(intervals, predictor, one_target(2, 1, true), x, 0.5);
  EXPECT_NEAR(logs.low[0][0].item<double>(), 1.5 * std::exp(2 - 1), 1e-12);
  EXPECT_NEAR(logs.high[0][0].item<double>(), 1.5 * std::exp(2 + 1), 1e-12);
}

TEST(Predictor, AveragesItsMembersAndHoldsThemWithinBounds) {
  Predictor predictor;
  for (const double value : {1.0, 2.0, 6.0}) {
    nn::Network net = linear_network(1, 1);
    const torch::NoGradGuard no_graph;
    for (const Tensor& p : net->parameters()) p.fill_(value);
    predictor.members.push_back(net);
  }
  const data::Preprocess preprocess = one_target(100, 10, false);
  const data::TensorSamples samples(torch::tensor({{0.0}, {1.0}, {5.0}}, kFloat));
  const auto values = [&] { return predict_targets(predictor, preprocess, samples, "t"); };
  const Tensor wanted = 100 + 10 * torch::tensor({{3.0}, {6.0}, {18.0}}, kFloat);
  EXPECT_LE(relative_error(values(), wanted), 1e-12);
  predictor.targets = {{4, 7, 2}};
  const Tensor bounded = 2 * (100 + 10 * torch::tensor({{4.0}, {6.0}, {7.0}}, kFloat));
  EXPECT_LE(relative_error(values(), bounded), 1e-12);
}

TEST(Predictor, LearnsTheFactorOfLogarithms) {
  torch::manual_seed(4);
  Problem problem;
  problem.preprocess = one_target(1, 0.5, /*log=*/true);
  problem.data.x = torch::zeros({5000, 1}, kFloat);
  // log y = 1 + 0.5 z; the best guess of z is 0, but the mean of y is exp(1 + 0.125).
  problem.data.y = torch::randn({5000, 1}, kFloat);
  Learned learned;
  learned.networks = {linear_network(1, 1)};
  learned.held_out = torch::zeros({5000, 1}, kFloat);
  const Predictor predictor = calibrate(problem, learned);
  ASSERT_EQ(predictor.targets.size(), 1U);
  EXPECT_NEAR(predictor.targets[0].factor, std::exp(0.125), 0.02);
  EXPECT_EQ(predictor.targets[0].low, problem.data.y.min().item<double>());
  EXPECT_EQ(predictor.targets[0].high, problem.data.y.max().item<double>());
}

TEST(Predictor, FindsTheTemperatureOfClasses) {
  torch::manual_seed(5);
  const Tensor logits = torch::randn({4000, 3}, kFloat);
  const Tensor drawn = torch::softmax(logits, 1).multinomial(1).squeeze(1);
  Problem problem;
  data::TargetColumn target;
  target.name = "k";
  target.classes = {"a", "b", "c"};
  problem.preprocess.targets.push_back(target);
  problem.data.x = torch::zeros({4000, 1}, kFloat);
  problem.data.y = torch::one_hot(drawn, 3).to(kFloat);
  Learned learned;
  learned.held_out = 3 * logits;  // too sure of itself
  EXPECT_NEAR(calibrate(problem, learned).temperature, 3, 0.2);

  // Ten rows that are all right do not make the next one certain.
  problem.data.x = problem.data.x.narrow(0, 0, 10);
  learned.held_out = torch::randn({10, 3}, kFloat);
  problem.data.y = torch::one_hot(learned.held_out.argmax(1), 3).to(kFloat);
  const double few = calibrate(problem, learned).temperature;
  EXPECT_LT(few, 1);
  EXPECT_GT(few, 0.6);
}

TEST(Predictor, LinearErrorLeavesEachRowOut) {
  torch::manual_seed(6);
  for (const int64_t features : {3, 30}) {
    const Tensor x = torch::randn({20, features}, kFloat);
    const Tensor y = x.select(1, 0) + 0.3 * torch::randn({20}, kFloat);
    double best = INFINITY;
    const Tensor centred = x - x.mean(0, true);
    const double largest = torch::linalg_eigvalsh(centred.t().mm(centred)).max().item<double>();
    for (double share = 1e-6; share < 20; share *= 3) {
      double square = 0;
      for (int64_t i = 0; i < 20; ++i) {
        // The whole table's centre is the model's: the mean alone is refitted with the row's
        // weight.
        Tensor rows = torch::ones({20}, torch::kBool);
        rows[i] = false;
        const Tensor kept = rows.nonzero().squeeze(1);
        const Tensor X = with_ones(centred).index_select(0, kept);
        Tensor penalty = share * largest * torch::eye(features + 1, kFloat);
        penalty[features][features] = 0;
        const Tensor theta =
            torch::linalg_solve(X.t().mm(X) + penalty, X.t().mv(y.index_select(0, kept)), true);
        const double gap = (with_ones(centred)[i].dot(theta) - y[i]).item<double>();
        square += gap * gap;
      }
      best = std::min(best, std::sqrt(square / 20));
    }
    EXPECT_NEAR(linear_error(x, y), best, 1e-6 * best) << features << " features";
  }
}

// In blocks, against all rows at once.
TEST(Predictor, LinearErrorOfManyRowsGoesThroughAllOfThem) {
  torch::manual_seed(7);
  constexpr int64_t kRows = 40000;
  const Tensor x = torch::randn({kRows, 3}, kFloat);
  const Tensor y = x.select(1, 0) + 0.3 * torch::randn({kRows}, kFloat);
  // The least regularized of those tried is least squares with a bias, in closed form: e/(1 − h).
  const Tensor X = with_ones(x);
  const Tensor inverse = torch::linalg_inv(X.t().mm(X));
  const Tensor e = y - X.mv(inverse.mv(X.t().mv(y)));
  const Tensor h = (X.mm(inverse) * X).sum(1);
  const double expected = (e / (1 - h)).square().mean().sqrt().item<double>();
  EXPECT_NEAR(linear_error(x, y), expected, 1e-8 * expected);
}

TEST(Predictor, ExpectsTheErrorOfHeldOutRows) {
  const Tensor wanted = torch::tensor({{1.0}, {2.0}, {3.0}, {4.0}}, kFloat);
  const Tensor predicted = wanted + torch::tensor({{1.0}, {-1.0}, {1.0}, {-3.0}}, kFloat);
  const auto found =
      expect(one_target(0, 1, false), predicted, wanted, torch::zeros({4, 1}, kFloat));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].rmse.value, std::sqrt(3), 1e-12);
  // Of four rows, one of which makes most of it, next to nothing is known.
  EXPECT_GT(found[0].rmse.error, 1);
  EXPECT_NEAR(found[0].r2, 1 - 3 / 1.25, 1e-12);
  EXPECT_NEAR(found[0].mean_rmse, std::sqrt(1.25), 1e-12);
  EXPECT_THAT(to_text(found[0]), testing::HasSubstr("1.732 ± "));
  EXPECT_EQ(found[0].decisive, 1);
  EXPECT_THAT(to_text(found[0]), testing::HasSubstr("1 of 4 rows makes half"));
}

// What is better by R² is not called no better, nor what is worse better.
TEST(Predictor, JudgesAsTheNumbersDo) {
  torch::manual_seed(8);
  for (const int64_t rows : {6, 12, 200}) {
    for (const double noise : {0.1, 0.6, 1.0, 2.0}) {
      const Tensor y = torch::randn({rows, 1}, kFloat);
      const Tensor guess = y + noise * torch::randn({rows, 1}, kFloat);
      const auto found =
          expect(one_target(0, 1, false), guess, y, torch::randn({rows, 1}, kFloat))[0];
      const std::string verdict = verdict_of(found);
      SCOPED_TRACE(testing::Message() << rows << " rows, noise " << noise << ": " << verdict);
      const bool no_better = verdict.find("No better than the mean") != std::string::npos;
      if (found.r2 <= 0) {
        EXPECT_TRUE(no_better);
      }
      if (no_better) {
        EXPECT_LE(found.r2, 0.04);  // an error within two per cent
      }
      if (rows == 200 && noise < 0.7) {
        EXPECT_EQ(verdict, "");
      }
      EXPECT_EQ(what_limits(found, 0.01).empty(), !(found.simple_lead > errors_on_a_side(rows)));
    }
  }
  // Few rows: R² 0.6 may be chance, and that is said, not that it is no better.
  Expectation few;
  few.rows = 8;
  few.rmse = {2, 3};
  few.mean_rmse = 3.2;
  few.r2 = 0.619;
  few.simple_lead = 1.2;
  EXPECT_THAT(verdict_of(few), testing::HasSubstr("8 rows are too few to be certain"));
  few.simple_lead = 5;
  EXPECT_EQ(verdict_of(few), "");
  few.linear_rmse = 0.1;
  few.linear_lead = -6;
  EXPECT_THAT(verdict_of(few), testing::HasSubstr("linear model may do as well"));
}

TEST(Predictor, NeverPromisesThatNothingGoesWrong) {
  const Tensor y = torch::tensor({{1.0}, {4.0}}, kFloat);
  const auto exact = expect(one_target(0, 1, false), y, y, torch::zeros({2, 1}, kFloat))[0];
  EXPECT_EQ(exact.rmse.value, 0);
  EXPECT_GT(exact.rmse.error, 0.5);
  data::Preprocess preprocess;
  data::TargetColumn target;
  target.name = "k";
  target.classes = {"a", "b"};
  preprocess.targets.push_back(target);
  const Tensor labels = torch::eye(2, kFloat);
  const auto right = expect(preprocess, labels, labels, torch::zeros({2, 1}, kFloat))[0];
  EXPECT_EQ(right.wrong.value, 0);
  EXPECT_GT(right.wrong.error, 0.2);
  EXPECT_THAT(to_text(right), testing::HasSubstr("None of 2 rows was wrong, so up to 67 %"));
  EXPECT_GT(right.log_loss.error, 1);
}

TEST(Predictor, ComparesWithModelsThatKnowNoMoreThanItDoes) {
  // Targets move on; held-out rows are the latest.
  const Tensor y = torch::tensor({{10.0}, {11.0}, {12.0}, {13.0}}, kFloat);
  const Tensor x = torch::zeros({4, 1}, kFloat);
  HeldOutBaselines known;
  known.mean = torch::full({4, 1}, 2.0, kFloat);
  known.line = y + 3;
  const Expectation e = expect(one_target(0, 1, false), y + 2, y, x, {}, known)[0];
  EXPECT_NEAR(e.linear_rmse, 3, 1e-9);
  EXPECT_NEAR(e.mean_rmse, std::sqrt((64 + 81 + 100 + 121) / 4.0), 1e-9);
  EXPECT_GT(e.simple_lead, 2);
  // None was off: by as much as targets of all rows differ.
  known.targets = torch::tensor({{0.0}, {50.0}}, kFloat);
  const Tensor same = torch::ones({4, 1}, kFloat);
  EXPECT_GT(expect(one_target(0, 1, false), same, same, x, {}, known)[0].rmse.error, 5);
}

TEST(Predictor, OneRowSaysNothingOfItsError) {
  const Tensor y = torch::ones({1, 1}, kFloat);
  const Expectation e = expect(one_target(0, 1, false), y + 1, y, torch::zeros({1, 1}, kFloat))[0];
  EXPECT_THAT(to_text(e), testing::HasSubstr("expected RMS error on new rows 1 ± unknown"));
  EXPECT_THAT(to_text(e), testing::Not(testing::HasSubstr("half of the squared error")));
}

TEST(Predictor, WhatLimitsIsNotSaidAgainstTheNumbers) {
  Expectation e;
  e.rows = 6;
  e.rmse = {0.03, 0.05};
  e.mean_rmse = 1;
  e.simple_lead = 10;
  EXPECT_EQ(what_limits(e, 1.05), "");
  EXPECT_THAT(what_limits(e, 0.029), testing::HasSubstr("noise"));
  EXPECT_THAT(what_limits(e, 0.003), testing::HasSubstr("More rows like these would help"));
}

TEST(Predictor, WarnsOfFewRowsAndOfALimit) {
  Problem problem;
  problem.data.x = torch::zeros({20, 1}, kFloat);
  problem.data.y = torch::zeros({20, 1}, kFloat);
  LearnOptions options;
  options.training.method = "path";
  options.training.steps = 7;
  Learned learned;
  learned.picked = {{nn::Activation::kRelu, 5, 0.1}};
  EXPECT_THAT(cautions(problem, options, learned),
              testing::ElementsAre(testing::HasSubstr("20 rows are few")));
  problem.data.x = torch::zeros({100, 1}, kFloat);
  EXPECT_THAT(cautions(problem, options, learned), testing::IsEmpty());
  learned.picked.push_back({nn::Activation::kTanh, 7, 0.1});
  EXPECT_THAT(cautions(problem, options, learned),
              testing::ElementsAre(testing::HasSubstr("limit of 7 points")));
}

TEST(Predictor, SaysWhatLimitsIt) {
  Expectation e;
  e.rmse = {2.0, 0.1};
  e.mean_rmse = 5;
  EXPECT_THAT(what_limits(e, 0.5), testing::HasSubstr("More rows like these would help"));
  EXPECT_THAT(what_limits(e, 1.9), testing::HasSubstr("noise"));
  e.mean_rmse = 2.1;  // within two standard errors
  EXPECT_EQ(what_limits(e, 0.5), "");
}

}  // namespace
}  // namespace cdt::study
