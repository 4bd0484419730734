// The decay path: ridge regression in closed form, stationary points, monotone objectives, weights,
// checkpoints.
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/loop/residuals.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::class_data;
using test::kDouble;
using test::parameters_of;
using test::relative_error;
using test::small_network;
using test::smooth_data;
using torch::Tensor;

TrainOptions path_options(int64_t points) {
  TrainOptions options;
  options.method = "path";
  options.steps = points;
  return options;
}

nn::Mlp linear_network(int64_t inputs, int64_t outputs, uint64_t seed) {
  nn::MlpOptions options;
  options.inputs = inputs;
  options.outputs = outputs;
  return nn::Mlp(options, seed, torch::kFloat64);
}

/// Of a linear model on x, with a bias: the parameters' displacement from the start, as the
/// closed form of ridge regression has it, in outputs on `at`.
Tensor ridge_moves(const TrainData& data, const Tensor& error, double tau, const Tensor& at) {
  const auto with_ones = [](const Tensor& x) {
    return torch::cat({x, torch::ones({x.size(0), 1}, kDouble)}, 1);
  };
  const Tensor X = with_ones(data.x);
  const Tensor normal = X.t().mm(X) + tau * torch::eye(X.size(1), kDouble);
  return with_ones(at).mm(-torch::linalg_solve(normal, X.t().mm(error), /*left=*/true));
}

TEST(Path, OfALinearModelIsRidgeRegression) {
  for (const int64_t outputs : {1, 2}) {
    const TrainData data = smooth_data(30, outputs, 1);
    nn::Mlp net = linear_network(4, outputs, 3);
    const Tensor start = net->forward(data.x).detach();
    const Tensor start_val = net->forward(data.x_val).detach();
    Trainer trainer(net, data, path_options(25));
    for (int k = 0; k < 25; ++k) {
      const StepRecord row = trainer.step().record;
      const Tensor wanted = start_val + ridge_moves(data, start - data.y, row.decay, data.x_val);
      // The condition of the normal equations, below 1e5 here, times rounding.
      EXPECT_LE(relative_error(net->forward(data.x_val), wanted), 1e-9)
          << "point " << k << ", decay " << row.decay;
      EXPECT_EQ(row.rejected, 0);
    }
  }
}

TEST(Path, StartsAtFiftyMeanEigenvaluesAndFallsByAFactor) {
  const TrainData data = smooth_data(20, 2, 1);
  nn::Mlp net = small_network(4, 2, 1);
  const Tensor theta = kernel::empirical_ntk(net, data.x).theta;
  TrainOptions options = path_options(3);
  options.path.factor = 0.5;
  Trainer trainer(net, data, options);
  const double mean = theta.diagonal().mean().item<double>();
  for (const double share : {50.0, 25.0, 12.5}) {
    EXPECT_NEAR(trainer.step().record.decay, share * mean, 1e-12 * mean);
  }
}

TEST(Path, CountsEffectiveParameters) {
  const TrainData data = smooth_data(20, 1, 1);
  nn::Mlp net = small_network(4, 1, 1);
  const Tensor eigenvalues = torch::linalg_eigvalsh(kernel::empirical_ntk(net, data.x).theta);
  const StepRecord row = Trainer(net, data, path_options(1)).step().record;
  const double wanted = (eigenvalues / (eigenvalues + row.decay)).sum().item<double>();
  EXPECT_NEAR(row.freedom, wanted, 1e-9);
}

/// With a constant decay the steps converge to where the gradient of the whole objective vanishes.
TEST(Path, RestsWhereTheGradientOfTheObjectiveVanishes) {
  for (const int64_t outputs : {1, 2}) {
    for (const bool weighted : {false, true}) {
      TrainData data = smooth_data(16, outputs, 2);
      if (weighted) data.sample_weights = torch::linspace(0.1, 3, 16, kDouble);
      nn::Mlp net = small_network(4, outputs, 5, torch::kFloat64, 12);
      const auto start = parameters_of(net);
      TrainOptions options = path_options(120);
      options.path = {.start = 1, .factor = 1};
      const TrainResult result = Trainer(net, data, options).run();
      const double tau = result.history.front().decay;
      const Tensor w = weighted ? data.sample_weights.unsqueeze(1) : torch::ones({16, 1}, kDouble);
      Tensor objective = (w * (net->forward(data.x) - data.y).square()).sum();
      const double misfit = objective.item<double>();
      const auto parameters = net->parameters();
      for (size_t i = 0; i < start.size(); ++i) {
        objective = objective + tau * (parameters[i] - start[i]).square().sum();
      }
      objective.backward();
      double square = 0;
      for (const Tensor& parameter : parameters) {
        square += parameter.grad().square().sum().item<double>();
      }
      EXPECT_LT(std::sqrt(square), 1e-6 * misfit) << outputs << " outputs, weighted " << weighted;
      EXPECT_GT(misfit, 1e-4);  // and it is no interpolation
    }
  }
}

TEST(Path, OfClassesRestsWhereTheGradientVanishes) {
  for (const int64_t classes : {2, 3}) {
    TrainData data = class_data(24, classes, 3);
    data.sample_weights = torch::linspace(0.5, 2, 24, kDouble);
    nn::Mlp net = small_network(4, classes, 5, torch::kFloat64, 12);
    const auto start = parameters_of(net);
    TrainOptions options = path_options(120);
    options.loss = loss::cross_entropy();
    options.path = {.start = 0.5, .factor = 1};
    const TrainResult result = Trainer(net, data, options).run();
    const double tau = result.history.front().decay;
    Tensor objective =
        -(data.sample_weights.unsqueeze(1) * data.y * torch::log_softmax(net->forward(data.x), 1))
             .sum();
    const double loss = objective.item<double>();
    const auto parameters = net->parameters();
    for (size_t i = 0; i < start.size(); ++i) {
      objective = objective + tau / 2 * (parameters[i] - start[i]).square().sum();
    }
    EXPECT_NEAR(result.objective, objective.item<double>() / 24, 1e-12);
    objective.backward();
    double square = 0;
    for (const Tensor& parameter : parameters) {
      square += parameter.grad().square().sum().item<double>();
    }
    // Conjugate gradients end at 1e-4 of their right side, the matrix at rounding.
    const double tolerance = classes == 2 ? 1e-6 : 3e-4;
    EXPECT_LT(std::sqrt(square), tolerance * loss) << classes << " classes";
  }
}

TEST(Path, ModelsOfClassesHaveTheirGradientAndHessian) {
  for (const int64_t classes : {2, 4}) {
    const TrainData data = class_data(6, classes, 4);
    nn::Mlp net = small_network(4, classes, 5);
    const Tensor outputs = net->forward(data.x).detach();
    const Residuals ridge = loss::cross_entropy()->residuals(outputs, data.y, {});
    const Tensor p = torch::softmax(outputs, 1);
    EXPECT_LE(relative_error(ridge.to_outputs(ridge.e).view({6, classes}), p - data.y), 1e-12);
    const Tensor v = torch::randn({6 * classes}, kDouble);
    const Tensor wanted = p * v.view({6, classes}) - p * (p * v.view({6, classes})).sum(1, true);
    EXPECT_LE(relative_error(ridge.to_outputs(ridge.to_residuals(v)).view({6, classes}), wanted),
              1e-12);
  }
}

TEST(Path, NeverRaisesItsObjective) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    for (const auto& loss : {loss::mse(), loss::cross_entropy()}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << to_string(loss));
      const bool classes = loss->classes();
      const TrainData data = classes ? class_data(40, 3, seed, torch::kFloat32)
                                     : smooth_data(40, 2, seed, torch::kFloat32);
      nn::Mlp net = small_network(4, classes ? 3 : 2, seed, torch::kFloat32);
      TrainOptions options = path_options(30);
      options.loss = loss;
      const TrainResult result = Trainer(net, data, options).run();
      ASSERT_GE(result.history.size(), 20U);
      for (size_t k = 1; k < result.history.size(); ++k) {
        EXPECT_LE(result.history[k].objective, result.history[k - 1].objective) << "point " << k;
      }
      EXPECT_LT(result.train_loss, 0.1 * result.history.front().train_loss);
    }
  }
}

TEST(Path, ARowOfWeightTwoIsTheRowTwice) {
  for (const auto& loss : {loss::mse(), loss::cross_entropy()}) {
    TrainData data = class_data(15, 2, 7);
    TrainData repeated = data;
    repeated.x = torch::cat({data.x, data.x.narrow(0, 0, 5)});
    repeated.y = torch::cat({data.y, data.y.narrow(0, 0, 5)});
    data.sample_weights = torch::ones({15}, kDouble);
    data.sample_weights.narrow(0, 0, 5).fill_(2);
    nn::Mlp with = small_network(4, 2, 5), without = small_network(4, 2, 5);
    TrainOptions options = path_options(8);
    options.loss = loss;
    Trainer(without, repeated, options).run();
    options.path.start *= 15.0 / 20;  // of a mean over fewer residuals
    Trainer(with, data, options).run();
    EXPECT_LE(relative_error(with->forward(data.x), without->forward(data.x)), 1e-8);
  }
}

TEST(Path, TakesTheBestPointWithPatience) {
  nn::Mlp net = small_network(4, 1, 1);
  TrainData data = smooth_data(30, 1, 1);
  data.y = data.y + 0.3 * torch::randn_like(data.y);
  TrainOptions options = path_options(60);
  options.patience = 4;
  const TrainResult result = Trainer(net, data, options).run();
  EXPECT_EQ(result.outcome, Outcome::kEarlyStopping);
  EXPECT_EQ(result.steps, result.best_step + 4);
  EXPECT_EQ(result.val_loss, result.best_val_loss);
}

TEST(Path, ResumesToTheSameBits) {
  const TrainData data = smooth_data(30, 1, 1, torch::kFloat32);
  nn::Mlp whole = small_network(4, 1, 2, torch::kFloat32);
  Trainer(whole, data, path_options(15)).run();
  for (const int64_t cut : {0, 1, 7}) {
    nn::Mlp net = small_network(4, 1, 2, torch::kFloat32);
    Trainer first(net, data, path_options(15));
    for (int64_t k = 0; k < cut; ++k) first.step();
    const SafeTensors saved = first.checkpoint();
    nn::Mlp other = small_network(4, 1, 9, torch::kFloat32);
    if (cut == 0) other = small_network(4, 1, 2, torch::kFloat32);
    Trainer second(other, data, path_options(15));
    second.restore(saved);
    second.run();
    EXPECT_TRUE(torch::equal(other->forward(data.x), whole->forward(data.x))) << "cut at " << cut;
  }
}

TEST(Path, RefusesWhatItCannotDo) {
  const TrainData data = smooth_data(20, 1, 1);
  for (const PathOptions path : {PathOptions{.start = 0}, PathOptions{.factor = 0},
                                 PathOptions{.factor = 1.5}, PathOptions{.start = NAN}}) {
    TrainOptions options = path_options(3);
    options.path = path;
    EXPECT_THROW(Trainer(small_network(4, 1, 1), data, options), InvalidArgument);
  }
  TrainOptions options = path_options(3);
  options.batch = 5;
  EXPECT_THROW(Trainer(small_network(4, 1, 1), data, options), InvalidArgument);
  options.batch = 0;
  options.weight_decay = 0.1;
  EXPECT_THROW(Trainer(small_network(4, 1, 1), data, options), InvalidArgument);
}

}  // namespace
}  // namespace cdt::train
