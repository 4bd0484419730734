// The closed-form forecast against simulated linear dynamics, brute-force search, and the training
// of a wide network.
#include <cdt/control/forecast.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/simulation.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/mlp.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/plants.h"
#include "support/tolerance.h"

namespace cdt {
namespace {

using control::ForecastOptions;
using dynamics::modal_problem;
using loss::LossPtr;
using torch::Tensor;

using test::kDouble;

/// A kernel over training and validation samples, and errors on both.
struct Setting {
  Tensor theta;  ///< [n, n]
  Tensor cross;  ///< [m, n]
  Tensor error;
  Tensor validation_error;
  dynamics::Modes spectrum;
};

Setting setting(int64_t n, int64_t m, int64_t features, uint64_t seed) {
  torch::manual_seed(seed);
  const Tensor J =
      torch::randn({n + m, features}, kDouble) * torch::logspace(0, -2, features, 10, kDouble);
  const Tensor all = J.mm(J.t());
  Setting s;
  s.theta = all.narrow(0, 0, n).narrow(1, 0, n).contiguous();
  s.cross = all.narrow(0, n, m).narrow(1, 0, n).contiguous();
  s.error = torch::randn({n}, kDouble);
  s.validation_error = torch::randn({m}, kDouble);
  s.spectrum = dynamics::decompose(s.theta, tol::rank_of_stored(n, torch::kFloat64));
  return s;
}

/// The two curves by running the linear dynamics step by step with dense matrices.
std::pair<std::vector<double>, std::vector<double>> simulate(const Setting& s, const Tensor& G,
                                                             double rate, double decay,
                                                             LossPtr loss,
                                                             const std::vector<int64_t>& steps) {
  const double factor = loss::gradient_factor(loss, s.error.size(0));
  Tensor e = s.error.clone(), v = s.validation_error.clone();
  std::vector<double> train, validation;
  int64_t k = 0;
  for (const int64_t stop : steps) {
    for (; k < stop; ++k) {
      const double now = rate / (1 + decay * static_cast<double>(k)) * factor;
      const Tensor steered = G.mv(e);
      v = v - now * s.cross.mv(steered);
      e = e - now * s.theta.mv(steered);
    }
    train.push_back(loss_value(loss, e));
    validation.push_back(loss_value(loss, v));
  }
  return {train, validation};
}

TEST(Forecast, EqualsSimulatedLinearDynamics) {
  // More validation samples than modes, fewer, and a kernel without full rank.
  for (const auto& [n, m, features] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{9, 30, 20}, {12, 4, 30}, {10, 6, 7}}) {
    const Setting s = setting(n, m, features, 3);
    const auto problem = modal_problem(s.spectrum, s.error, s.cross, s.validation_error);
    for (double decay : {0.0, 0.01}) {
      ForecastOptions options;
      const double limit = 1 / (loss::gradient_factor(loss::mse(), n) * s.spectrum.largest());
      options.learning_rates = {0.01 * limit, 0.9 * limit, 1.7 * limit, 40 * limit};
      options.weights = {0.01, 0.1, 5};
      options.steps = {1, 2, 3, 10, 57, 200};
      options.decay = decay;
      const auto found = control::forecast(problem, loss::mse(), options);
      ASSERT_EQ(found.candidates.size(), 4u + 12u);
      for (size_t i = 0; i < found.candidates.size(); ++i) {
        const auto& c = found.candidates[i];
        if (!c.controlled && c.learning_rate > 2 * limit) continue;  // overflows in both
        SCOPED_TRACE(testing::Message() << "n " << n << " decay " << decay << " candidate " << i);
        Tensor G = torch::eye(n, kDouble);
        if (c.controlled) {
          G = test::lqr_of(s.spectrum, loss::step_scale(c.learning_rate, loss::mse(), n), 1, c.p)
                  .matrix();
        }
        const auto [train, validation] =
            simulate(s, G, c.learning_rate, decay, loss::mse(), options.steps);
        const double start = loss_value(loss::mse(), s.error);
        const double validation_start = loss_value(loss::mse(), s.validation_error);
        for (size_t j = 0; j < options.steps.size(); ++j) {
          const auto row = static_cast<int64_t>(i), at = static_cast<int64_t>(j);
          EXPECT_NEAR(found.curves.train[row][at].item<double>(), train[j],
                      test::tol::kDynamics * start);
          EXPECT_NEAR(found.curves.validation[row][at].item<double>(), validation[j],
                      test::tol::kDynamics * (validation_start + validation[j]));
        }
      }
    }
  }
}

TEST(Forecast, FindsTheLowestValidationLoss) {
  const Setting s = setting(15, 12, 40, 5);
  const auto problem = modal_problem(s.spectrum, s.error, s.cross, s.validation_error);
  ForecastOptions options;
  options.steps = dynamics::log_spaced_steps(16, 300);
  const auto found = control::forecast(problem, loss::sse(), options);
  EXPECT_EQ(found.candidates.size(), 1000u);
  double best = INFINITY;
  for (int64_t i = 0; i < 1000; ++i) {
    for (int64_t j = 0; j < found.curves.validation.size(1); ++j) {
      best = std::min(best, found.curves.validation[i][j].item<double>());
    }
  }
  EXPECT_EQ(found.best.validation_loss, best);
  EXPECT_EQ(std::min(found.best_descent->validation_loss, found.best_controlled->validation_loss),
            best);
  EXPECT_EQ(found.best_descent->method(), "gd");
  EXPECT_EQ(found.best_controlled->method(), "cdt");
  // Where gradient descent diverges its loss is infinite, not undefined.
  const auto& fastest = found.candidates[39];
  EXPECT_FALSE(fastest.controlled);
  EXPECT_TRUE(std::isinf(found.curves.train[39][-1].item<double>()));
  EXPECT_TRUE(std::isinf(found.curves.validation[39][-1].item<double>()));
  EXPECT_TRUE(torch::isfinite(found.curves.validation.narrow(0, 40, 960)).all().item<bool>());
  // The paper: p matters far less than α.
  const auto matters = control::sensitivity(found);
  EXPECT_GT(matters.to_learning_rate, 0);
  EXPECT_LT(matters.to_weight, matters.to_learning_rate);
}

TEST(Forecast, StepsAreLogSpaced) {
  const auto steps = dynamics::log_spaced_steps(64, 1000);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 1000);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end(), std::less_equal<>()));
  EXPECT_EQ(steps.size(), 64u);
  EXPECT_NEAR(static_cast<double>(steps[62]) / 1000, std::pow(1000.0, -1.0 / 63), 1e-3);
  EXPECT_EQ(dynamics::log_spaced_steps(64, 5), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(dynamics::log_spaced_steps(5, 5), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_THROW(dynamics::log_spaced_steps(1, 10), InvalidArgument);
}

// A network of width 2048: its curves under gradient descent and under control, and their
// forecasts.
TEST(Forecast, PredictsTheTrainingOfAWideNetwork) {
  const int64_t n = 24, m = 10, count = 100;
  torch::manual_seed(2);
  const Tensor x = torch::randn({n + m, 5}, kDouble);
  const Tensor y = (x.select(1, 0) * 2).sin() + 0.3 * x.select(1, 1);
  const Tensor train_x = x.narrow(0, 0, n), validation_x = x.narrow(0, n, m);
  const Tensor train_y = y.narrow(0, 0, n), validation_y = y.narrow(0, n, m);
  nn::MlpOptions shape;
  shape.inputs = 5;
  shape.hidden = {2048};
  shape.activation = nn::Activation::kTanh;
  shape.parametrization = nn::Parametrization::kNtk;
  for (const bool controlled : {false, true}) {
    SCOPED_TRACE(controlled ? "cdt" : "gd");
    nn::Mlp net(shape, 3, torch::kFloat64);
    const auto kernel = kernel::empirical_ntk(net, train_x);
    const auto cross = kernel::empirical_ntk(net, validation_x, train_x);
    const auto spectrum =
        dynamics::decompose(kernel.theta, tol::rank_of_computed(n, torch::kFloat64));
    const Tensor e = kernel.outputs.reshape({-1}) - train_y;
    const auto problem =
        modal_problem(spectrum, e, cross.theta, cross.outputs.reshape({-1}) - validation_y);
    const double rate =
        0.3 / (loss::gradient_factor(loss::mse(), n) * spectrum.largest());  // small steps
    const auto controller = test::lqr_of(spectrum, loss::step_scale(rate, loss::mse(), n));
    ForecastOptions options;
    options.learning_rates = {rate};
    options.weights = {0.1};
    options.descent = !controlled;
    options.controlled = controlled;
    for (int64_t k = 1; k <= count; ++k) options.steps.push_back(k);
    const auto found = control::forecast(problem, loss::mse(), options);
    for (int64_t k = 0; k < count; ++k) {
      const Tensor outputs = net->forward(train_x).reshape({-1});
      const Tensor error = outputs.detach() - train_y;
      const Tensor seed =
          loss::gradient_factor(loss::mse(), n) * (controlled ? controller.steer(error) : error);
      const auto gradients = torch::autograd::grad({outputs}, net->parameters(), {seed});
      const torch::NoGradGuard no_grad;
      for (size_t i = 0; i < gradients.size(); ++i) net->parameters()[i].sub_(rate * gradients[i]);
      const double train = loss_value(loss::mse(), net->forward(train_x).reshape({-1}) - train_y);
      const double validation =
          loss_value(loss::mse(), net->forward(validation_x).reshape({-1}) - validation_y);
      EXPECT_NEAR(found.curves.train[0][k].item<double>() / train, 1, 0.05) << "step " << k;
      EXPECT_NEAR(found.curves.validation[0][k].item<double>() / validation, 1, 0.05)
          << "step " << k;
    }
  }
}

TEST(Forecast, RefusesBadInput) {
  const Setting s = setting(6, 3, 12, 1);
  const auto blind = modal_problem(s.spectrum, s.error);
  const auto problem = modal_problem(s.spectrum, s.error, s.cross, s.validation_error);
  EXPECT_THROW(control::forecast(blind, loss::mse()), InvalidArgument);
  EXPECT_NO_THROW(
      dynamics::predict_curves(blind, torch::full({2, 6}, 0.1, kDouble), {1, 5}, loss::mse()));
  ForecastOptions options;
  options.learning_rates = {0.1, -1};
  EXPECT_THROW(control::forecast(problem, loss::mse(), options), InvalidArgument);
  options = {};
  options.weights = {0};
  EXPECT_THROW(control::forecast(problem, loss::mse(), options), InvalidArgument);
  options = {};
  options.steps = {5, 5};
  EXPECT_THROW(control::forecast(problem, loss::mse(), options), InvalidArgument);
  options.steps = {0, 5};
  EXPECT_THROW(control::forecast(problem, loss::mse(), options), InvalidArgument);
  options = {};
  options.descent = options.controlled = false;
  EXPECT_THROW(control::forecast(problem, loss::mse(), options), InvalidArgument);
  options.descent = true;
  EXPECT_THROW(control::sensitivity(control::forecast(problem, loss::mse(), options)),
               InvalidArgument);
  EXPECT_THROW(modal_problem(s.spectrum, s.error.narrow(0, 0, 5)), InvalidArgument);
  EXPECT_THROW(modal_problem(s.spectrum, s.error, s.cross.t(), s.validation_error),
               InvalidArgument);
  EXPECT_THROW(modal_problem(s.spectrum, s.error, s.cross, s.validation_error * NAN),
               InvalidArgument);
  EXPECT_THROW(
      dynamics::predict_curves(problem, torch::full({2, 5}, 0.1, kDouble), {1}, loss::mse()),
      InvalidArgument);
  EXPECT_THROW(
      dynamics::predict_curves(problem, torch::full({2, 6}, -0.1, kDouble), {1}, loss::mse()),
      InvalidArgument);
}

}  // namespace
}  // namespace cdt
