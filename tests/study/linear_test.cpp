// A line beside the networks: what it is, when held-out rows give it a say, and that it is kept.
#include <cdt/nn/mlp.h>
#include <cdt/study/linear.h>
#include <cdt/study/predictor.h>
#include <cdt/study/trained_model.h>
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"

namespace cdt::study {
namespace {

using test::relative_error;
using torch::Tensor;

const auto kWideType = torch::kFloat64;

/// Rows of two features with these targets, a quarter of them to validate.
Problem table_of(const Tensor& x, const Tensor& y) {
  Problem problem;
  for (int64_t t = 0; t < y.size(1); ++t) {
    data::TargetColumn target;
    target.name = std::string(1, static_cast<char>('y' + t));
    target.scale = {0, 1};
    problem.preprocess.targets.push_back(target);
  }
  for (int64_t f = 0; f < x.size(1); ++f) {
    data::FeatureColumn feature;
    feature.name = std::string(1, static_cast<char>('a' + f));
    feature.scales.resize(1);
    problem.preprocess.features.push_back(feature);
  }
  const int64_t train = x.size(0) * 4 / 5;
  problem.data.x = x.narrow(0, 0, train).to(torch::kFloat32);
  problem.data.y = y.narrow(0, 0, train);
  problem.data.x_val = x.narrow(0, train, x.size(0) - train).to(torch::kFloat32);
  problem.data.y_val = y.narrow(0, train, x.size(0) - train);
  nn::NetworkOptions layers;
  layers.hidden = {20, 20};
  layers.input_shape = {x.size(1)};
  layers.outputs = y.size(1);
  problem.model = nn::make_network(layers, 1, torch::kFloat32);
  return problem;
}

LearnOptions quick(int64_t members) {
  LearnOptions options;
  options.training.method = "path";
  options.training.steps = 15;
  options.training.patience = kPathPatience;
  options.network.hidden = {20, 20};
  options.network.sigma_w = 0.5;
  options.members = members;
  options.intervals = true;
  return options;
}

double off_by(const Predictor& predictor, const data::Preprocess& preprocess, const Tensor& x,
              const Tensor& y, int64_t target) {
  const Tensor guess = predict_targets(predictor, preprocess, data::TensorSamples(x), "t");
  return (guess - y).select(1, target).square().mean().sqrt().item<double>();
}

TEST(Line, IsRidgeRegression) {
  torch::manual_seed(3);
  for (const int64_t features : {4, 40}) {  // fewer than rows, and more
    const Tensor x = torch::randn({25, features}, kWideType) + 1;
    const Tensor y = torch::stack(
        {x.select(1, 0) + 0.2 * torch::randn({25}, kWideType), torch::randn({25}, kWideType)}, 1);
    const LinearFit fit = fit_linear(x, y);
    const Tensor X = x - x.mean(0), e = y - y.mean(0);
    const double largest = torch::linalg_eigvalsh(X.t().mm(X)).max().item<double>();
    for (int64_t t = 0; t < 2; ++t) {
      // The normal equations at one of the ridges of the grid.
      double nearest = INFINITY;
      for (double share = 1e-6; share < 20; share *= 3) {
        const Tensor A = X.t().mm(X) + share * largest * torch::eye(features, kWideType);
        const Tensor w = torch::linalg_solve(A, X.t().mv(e.select(1, t)), true);
        nearest = std::min(nearest, relative_error(fit.weights.select(1, t), w));
      }
      EXPECT_LE(nearest, 1e-6) << features << " features, target " << t;
    }
    const Tensor centre = x.mean(0, true).mm(fit.weights) + fit.bias;
    EXPECT_LE(relative_error(centre, y.mean(0, true)), 1e-9);
    EXPECT_NEAR(linear_error(x, y.select(1, 0)),
                fit.left_out.select(1, 0).square().mean().sqrt().item<double>(), 1e-12);
  }
}

TEST(Line, PredictsALinearFunctionAsALineDoes) {
  for (const int64_t members : {1, 4}) {
    for (const int seed : {1, 2}) {
      torch::manual_seed(seed);
      const Tensor x = torch::randn({100, 2}, kWideType);
      const auto linear = [](const Tensor& of) {
        return (2 * of.select(1, 0) - 3 * of.select(1, 1)).unsqueeze(1);
      };
      const Problem problem = table_of(x, linear(x));
      Learned learned = Learner(problem, quick(members)).run();
      EXPECT_NE(add_line(problem, loss::mse(), learned), "");
      const Predictor predictor = calibrate(problem, learned);
      EXPECT_EQ(predictor.targets[0].line, 1) << members << " members, seed " << seed;
      const Tensor fresh = torch::randn({500, 2}, kWideType);
      EXPECT_LE(off_by(predictor, problem.preprocess, fresh, linear(fresh), 0), 0.01);
      const auto expected = expect(problem, learned, predictor);
      EXPECT_LE(expected[0].rmse.value, 1.5 * expected[0].linear_rmse + 1e-6);
      EXPECT_LE(learned.result.train_loss, 1e-4);
    }
  }
}

TEST(Line, HasItsSayByTarget) {
  torch::manual_seed(4);
  const Tensor x = 2 * torch::randn({160, 2}, kWideType);
  const auto both = [](const Tensor& of) {
    return torch::stack(
        {2 * of.select(1, 0) - of.select(1, 1), (of.select(1, 0)).cos() * (of.select(1, 1)).cos()},
        1);
  };
  const Problem problem = table_of(x, both(x));
  Learned learned = Learner(problem, quick(4)).run();
  const Tensor before = learned.held_out.clone();
  EXPECT_NE(add_line(problem, loss::mse(), learned), "");
  EXPECT_GE(learned.line_shares[0], 0.75);
  EXPECT_LE(learned.line_shares[1], 0.25);
  // Rows held out are predicted by lines that have not seen them, so they err no less than those
  // that have.
  const Tensor y = all_rows(problem).y;
  const Tensor now = (learned.held_out - y).square().mean(0);
  EXPECT_LT(now[0].item<double>(), (before - y).square().mean(0)[0].item<double>());

  // One file keeps it.
  TrainedModel model;
  model.preprocess = problem.preprocess;
  model.predictor = calibrate(problem, learned);
  ASSERT_EQ(model.predictor.members.size(), learned.networks.size() + 1);
  const Tensor fresh = torch::randn({50, 2}, torch::kFloat32);
  const TrainedModel read = parse_trained_model(to_safetensors(model), "t");
  EXPECT_TRUE(
      torch::equal(mean_outputs(read.predictor, fresh), mean_outputs(model.predictor, fresh)));
  EXPECT_EQ(read.predictor.targets[0].line, model.predictor.targets[0].line);
}

TEST(Line, IsLeftOutWhereNetworksErrLess) {
  torch::manual_seed(5);
  const Tensor x = 2 * torch::randn({200, 2}, kWideType);
  const Tensor y = (x.select(1, 0).abs() * x.select(1, 1).cos()).unsqueeze(1);
  const Problem problem = table_of(x, y);
  Learned learned = Learner(problem, quick(4)).run();
  const Tensor before = learned.held_out.clone();
  if (add_line(problem, loss::mse(), learned).empty()) {
    EXPECT_TRUE(torch::equal(learned.held_out, before));
    EXPECT_FALSE(learned.line);
  } else {
    EXPECT_LE(learned.line_shares[0], 0.5);
  }
  Problem weighted = problem;
  weighted.data.sample_weights = torch::ones({160}, kWideType);
  weighted.data.val_weights = torch::ones({40}, kWideType);
  EXPECT_EQ(add_line(weighted, loss::mse(), learned), "");
}

}  // namespace
}  // namespace cdt::study
