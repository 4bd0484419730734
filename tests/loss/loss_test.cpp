// Every loss of the table against finite differences and LibTorch's own, its Gauss-Newton form
// against what that promises, and a loss of a user's own, trained, guarded and resumed.
#include <cdt/core/error.h>
#include <cdt/loss/loss.h>
#include <cdt/train/trainer.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include "support/compare.h"
#include "support/tolerance.h"
#include "train/problem.h"

namespace cdt::loss {
namespace {

using test::kDouble;
using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

constexpr int64_t kSamples = 6;
constexpr int64_t kOutputs = 3;

std::vector<LossPtr> all_losses() {
  std::vector<LossPtr> all;
  for (const Entry& entry : losses()) all.push_back(entry.make(""));
  all.push_back(huber(0.3));
  all.push_back(quantile(0.9));
  all.push_back(cross_entropy(0.2));
  return all;
}

struct Point {
  Tensor outputs;
  Tensor targets;
};

Point point(const LossPtr& loss, uint64_t seed) {
  torch::manual_seed(seed);
  const Tensor z = torch::randn({kSamples, kOutputs}, kDouble);
  const Tensor y = torch::randn({kSamples, kOutputs}, kDouble);
  if (loss->traits().least_target == 0) return {z, (1.5 * y).exp().floor()};
  const bool positive = !loss->traits().trainable;
  if (!loss->classes() && !positive) return {z, y};
  return {positive ? torch::softmax(z, 1) : z, torch::softmax(y, 1)};
}

double value(const LossPtr& loss, const Tensor& outputs, const Tensor& targets) {
  return loss->graph(outputs, targets).item<double>();
}

TEST(Losses, GradientsAreThoseOfFiniteDifferences) {
  for (const LossPtr& loss : all_losses()) {
    for (const uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(loss->name());
      const auto [outputs, targets] = point(loss, seed);
      const Tensor along = torch::randn_like(outputs);
      constexpr double h = 1e-6;
      const double slope =
          (value(loss, outputs + h * along, targets) - value(loss, outputs - h * along, targets)) /
          (2 * h);
      EXPECT_NEAR((loss->gradient(outputs, targets) * along).sum().item<double>(), slope, 1e-6);
      // c Σ ℓ is the whole, and no ℓ lies below the least.
      const Tensor each = loss->values(outputs, targets);
      EXPECT_NEAR(each.sum().item<double>() * loss->scale(kSamples, kOutputs),
                  value(loss, outputs, targets), 1e-12);
      if (!loss->traits().trainable) continue;
      EXPECT_TRUE((each >= loss->least(targets) - 1e-12).all().item<bool>());
    }
  }
}

TEST(Losses, AssessmentsAreSumsOverWeightedSamples) {
  for (const LossPtr& loss : all_losses()) {
    if (!loss->traits().trainable || !loss->traits().has_curvature()) continue;
    SCOPED_TRACE(loss->name());
    const auto [outputs, targets] = point(loss, 4);
    const Tensor w = torch::linspace(0.5, 2, kSamples, kDouble);
    const Tensor each = loss->values(outputs, targets), low = loss->least(targets);
    const double c = loss->scale(kSamples, kOutputs);
    const Assessment found = assess(*loss, outputs, targets, w.repeat_interleave(kOutputs));
    const double squares = 2 * (w * (each - low)).sum().item<double>();
    EXPECT_NEAR(found.squares, squares, 1e-12 * (1 + squares));
    EXPECT_NEAR(found.objective, c * (w * each).sum().item<double>(), 1e-12);
    if (loss->traits().smoothing > 0) continue;  // what is told is of labels as they were given
    EXPECT_NEAR(found.loss, value(loss, outputs, targets), 1e-12);
  }
}

// S e is the slope; ½‖Sᵀd + e‖² − ½‖e‖² is the curve to second order, or lies above it everywhere.
TEST(Losses, ResidualsAreAModelOfTheLoss) {
  for (const LossPtr& loss : all_losses()) {
    if (!loss->traits().trainable || !loss->traits().has_curvature()) continue;
    for (const bool weighted : {false, true}) {
      SCOPED_TRACE(loss->name() + (weighted ? ", weighted" : ""));
      const auto [outputs, targets] = point(loss, 5);
      const Tensor w = weighted
                           ? torch::linspace(0.5, 2, kSamples, kDouble).repeat_interleave(kOutputs)
                           : torch::ones({kSamples * kOutputs}, kDouble);
      const double c = loss->scale(kSamples, kOutputs);
      const Residuals found = loss->residuals(outputs, targets, weighted ? w : Tensor());
      const Tensor slope = (loss->gradient(outputs, targets) / c).reshape({-1}) * w;
      EXPECT_LE(relative_error(found.to_outputs(found.e), slope), 1e-12);
      EXPECT_EQ(found.S.size(2), loss->residual_shape(kOutputs).per_sample);
      EXPECT_EQ(found.D.defined(), loss->residual_shape(kOutputs).one_for_all);
      const bool exact = loss->quadratic() || loss->classes();
      if (exact) {
        const Tensor blocks = found.S.matmul(found.S.transpose(1, 2));
        EXPECT_LE(
            relative_error(blocks, loss->hessian(outputs, targets) / c *
                                       w.view({kSamples, kOutputs}).narrow(1, 0, 1).unsqueeze(2)),
            1e-12);
        continue;
      }
      if (!std::isfinite(loss->traits().curvature_bound)) continue;
      for (const double size : {1e-3, 0.1, 1.0, 10.0}) {
        const Tensor d = size * torch::randn_like(outputs);
        const Tensor moved = found.to_residuals(d.reshape({-1})) + found.e;
        const double model = (moved.square().sum() - found.e.square().sum()).item<double>() / 2;
        const double rise = (assess(*loss, outputs + d, targets, w).squares -
                             assess(*loss, outputs, targets, w).squares) /
                            2;
        EXPECT_LE(rise, model + 1e-12) << size;
      }
    }
  }
}

TEST(Losses, CurvatureStaysBelowItsBound) {
  for (const LossPtr& loss : all_losses()) {
    const double bound = loss->traits().curvature_bound;
    if (!std::isfinite(bound) || bound == 0) continue;
    for (const uint64_t seed : {1, 2, 3, 4}) {
      const auto [outputs, targets] = point(loss, seed);
      // The sharpest place of a pinball is its kink.
      for (const Tensor& at : {outputs, targets + 1e-4 * outputs}) {
        const Tensor blocks = loss->hessian(at, targets) / loss->scale(kSamples, kOutputs);
        const double largest = torch::linalg_eigvalsh(blocks).max().item<double>();
        EXPECT_LE(largest, bound * (1 + 1e-12)) << loss->name();
      }
    }
  }
}

TEST(Losses, HuberIsLibTorchs) {
  const auto [outputs, targets] = point(mse(), 6);
  for (const double delta : {0.3, 1.0, 5.0}) {
    const auto options = torch::nn::functional::HuberLossFuncOptions().delta(delta);
    EXPECT_NEAR(value(huber(delta), outputs, targets),
                torch::nn::functional::huber_loss(outputs, targets, options).item<double>(), 1e-14);
  }
  // Within δ it is half of the mean of squares.
  EXPECT_NEAR(value(huber(1e3), outputs, targets), value(half_mse(), outputs, targets), 1e-14);
}

TEST(Losses, QuantilesAreWhereSoManyTargetsLieBelow) {
  torch::manual_seed(7);
  const Tensor y = torch::randn({4001, 1}, kDouble);
  for (const double q : {0.1, 0.5, 0.9}) {
    // The constant that errs least, by bisection of the slope.
    double low = -5, high = 5;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      const Tensor at = torch::full_like(y, middle);
      (quantile(q)->gradient(at, y).sum().item<double>() > 0 ? high : low) = middle;
    }
    const double below = (y < low).to(torch::kFloat64).mean().item<double>();
    EXPECT_NEAR(below, q, 0.005) << q;
  }
}

/// In long double, from the definition of the deviance.
double half_deviance(double output, double target) {
  const long double z = output, y = target;
  const long double low = target > 0 ? y - y * std::log(y) : 0;
  return static_cast<double>(std::exp(z) - y * z - low);
}

TEST(Losses, PoissonIsHalfTheDeviance) {
  for (const double y : {0.0, 1.0, 2.5, 40.0, 1e6}) {
    for (const double z : {-50.0, -2.0, 0.0, 0.7, 3.0, 14.0}) {
      SCOPED_TRACE(testing::Message() << "y " << y << ", ŷ " << z);
      const Tensor outputs = torch::full({1, 1}, z, kDouble),
                   targets = torch::full({1, 1}, y, kDouble);
      const double wanted = half_deviance(z, y);
      const double terms = std::exp(z) + std::abs(y * z) + 20 * y;  // that cancel
      EXPECT_NEAR(poisson()->values(outputs, targets).item<double>(), wanted, 1e-15 * terms);
      EXPECT_GE(wanted, -1e-15 * terms);
      EXPECT_DOUBLE_EQ(poisson()->gradient(outputs, targets).item<double>(), std::exp(z) - y);
      EXPECT_DOUBLE_EQ(poisson()->hessian(outputs, targets).item<double>(), std::exp(z));
      EXPECT_DOUBLE_EQ(poisson()->mean(outputs).item<double>(), std::exp(z));
    }
  }
  const auto [outputs, targets] = point(poisson(), 6);
  const auto options =
      torch::nn::functional::PoissonNLLLossFuncOptions().log_input(true).full(false);
  const Tensor low = targets - torch::xlogy(targets, targets);
  EXPECT_NEAR(value(poisson(), outputs, targets),
              torch::nn::functional::poisson_nll_loss(outputs, targets, options).item<double>() -
                  low.mean().item<double>(),
              1e-13);
  // No bound of the third derivative is exceeded on the way.
  const double bound = poisson()->third_derivative_bound(outputs, outputs + 1, targets);
  EXPECT_GE(bound * (1 + 1e-12), (outputs + 1).exp().max().item<double>() / outputs.numel());
}

// The squares that a step is solved for lie above the loss as far as this falls, from anywhere; and
// their least is no farther than log y.
TEST(Losses, PoissonStepsKeepWhatTheyPromise) {
  for (const double y : {0.0, 1.0, 30.0, 1e5}) {
    for (const double z : {-800.0, -30.0, -1.0, 0.0, 3.4, 3.402, 8.0, 20.0}) {
      SCOPED_TRACE(testing::Message() << "y " << y << ", ŷ " << z);
      const Tensor outputs = torch::full({1, 1}, z, kDouble),
                   targets = torch::full({1, 1}, y, kDouble);
      const Residuals found = poisson()->residuals(outputs, targets, {});
      const double s = found.S.item<double>(), e = found.e.item<double>();
      ASSERT_TRUE(std::isfinite(s) && std::isfinite(e) && s > 0);
      const double step = -e / s, way = y > 0 ? std::log(y) - z : -INFINITY;
      EXPECT_LE(std::abs(step), std::abs(way) * (1 + 1e-9) + 1e-9);
      for (const double share : {0.01, 0.3, 1.0}) {
        const double d = share * step;
        const double model = s * e * d + s * s * d * d / 2;
        const double rise = half_deviance(z + d, y) - half_deviance(z, y);
        EXPECT_LE(rise, model + 1e-12 * (std::exp(z) + y * (1 + std::abs(z)))) << share;
      }
    }
  }
}

/// Counts whose mean is e to a smooth function, from 0 to some hundred.
train::TrainData counts(int64_t samples, int64_t outputs, uint64_t seed) {
  train::TrainData data = test::smooth_data(samples, outputs, seed);
  for (Tensor* y : {&data.y, &data.y_val}) *y = torch::poisson((3 + 8 * *y).exp());
  return data;
}

/// The Poisson loss by its values alone: solved steps are Newton's, which go as far as y/μ.
class NewtonPoisson : public Loss {
 public:
  std::string name() const override { return "newton-poisson"; }
  Traits traits() const override { return {}; }
  double scale(int64_t samples, int64_t outputs) const override {
    return 1 / static_cast<double>(samples * outputs);
  }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    return poisson()->values(outputs, targets);
  }
};

// From e⁰ = 1 a Newton step asks for outputs of several hundred, of which e is infinite.
TEST(Losses, TheGuardTakesBackStepsBeyondTheRangeOfE) {
  train::TrainData data = counts(30, 1, 2);
  data.y += 1500;
  data.x_val = data.y_val = Tensor();
  for (const LossPtr& loss : {LossPtr(std::make_shared<NewtonPoisson>()), poisson()}) {
    SCOPED_TRACE(loss->name());
    nn::Mlp net = test::small_network(4, 1, 1);
    train::TrainOptions options;
    options.loss = loss;
    options.steps = 60;
    const auto result = train::Trainer(net, data, options).run();
    EXPECT_EQ(result.rejected > 0, loss->name() == "newton-poisson");
    for (size_t k = 0; k < result.history.size(); ++k) {
      ASSERT_TRUE(std::isfinite(result.history[k].objective)) << k;
      if (k == 0) continue;
      EXPECT_LE(result.history[k].objective, result.history[k - 1].objective);
    }
    EXPECT_TRUE(torch::isfinite(net->forward(data.x)).all().item<bool>());
    EXPECT_LT(result.train_loss, 1.0);
  }
}

TEST(Losses, AreFoundByName) {
  for (const LossPtr& loss : all_losses()) EXPECT_EQ(parse(loss->name())->name(), loss->name());
  EXPECT_EQ(parse("huber")->name(), "huber:1");
  EXPECT_EQ(parse("quantile:0.9")->name(), "quantile:0.9");
  const auto message = [](const char* name) {
    return ThrowsMessage<InvalidArgument>(HasSubstr(name));
  };
  EXPECT_THAT([] { parse("hinge"); }, message("huber, quantile"));
  EXPECT_THAT([] { parse("mse:2"); }, message("takes no number"));
  EXPECT_THAT([] { parse("huber:wide"); }, message("'wide'"));
  EXPECT_THAT([] { parse("huber:-1"); }, message("δ"));
  EXPECT_THAT([] { parse("quantile:1"); }, message("between 0 and 1"));
}

/// log cosh e, by its values alone.
class LogCosh : public Loss {
 public:
  std::string name() const override { return "log-cosh"; }
  Traits traits() const override { return {.curvature_bound = 1}; }
  double scale(int64_t samples, int64_t outputs) const override {
    return 1 / static_cast<double>(samples * outputs);
  }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    const Tensor e = (outputs - targets).abs();
    return (e + torch::log1p(torch::exp(-2 * e)) - std::log(2.0)).sum(1);
  }
};

/// By every method without a gain: lowered, measured rightly, and resumed to the same bits. Guarded
/// steps lower it to this share, and never raise it.
void expect_descent(const LossPtr& loss, const train::TrainData& data, double share) {
  using test::small_network;
  using train::Method;
  for (const Method method : {"guarded", "path", "gd", "momentum", "lbfgs", "adam"}) {
    SCOPED_TRACE(loss->name() + " by " + train::to_string(method));
    train::TrainOptions options;
    options.method = method;
    options.loss = loss;
    options.steps = 8;
    if (method == "adam") options.learning_rate = 0.01;
    const bool steep = !std::isfinite(loss->traits().curvature_bound);
    if (steep && (method == "gd" || method == "momentum")) {
      EXPECT_THAT([&] { train::Trainer(small_network(4, 2, 1), data, options); },
                  ThrowsMessage<InvalidArgument>(HasSubstr("no bound on its curvature")));
      options.learning_rate = 1e-4;
    }
    nn::Mlp net = small_network(4, 2, 1);
    const double before = value(options.loss, net->forward(data.x), data.y);
    const train::TrainResult whole = train::Trainer(net, data, options).run();
    EXPECT_NEAR(whole.train_loss, value(options.loss, net->forward(data.x), data.y),
                1e-12 * (1 + whole.train_loss));
    EXPECT_LT(whole.train_loss, before);
    if (method == "guarded") {
      for (size_t k = 1; k < whole.history.size(); ++k) {
        EXPECT_LE(whole.history[k].objective, whole.history[k - 1].objective);
      }
      EXPECT_LT(whole.train_loss, share * before);
    }
    // In two parts, to the same bits.
    nn::Mlp parts = small_network(4, 2, 1);
    options.steps = 4;
    train::Trainer first(parts, data, options);
    first.run();
    const SafeTensors saved = first.checkpoint();
    options.steps = 8;
    nn::Mlp other = small_network(4, 2, 2);
    train::Trainer second(other, data, options);
    second.restore(saved);
    EXPECT_EQ(second.run().train_loss, whole.train_loss);
    // Of another loss a checkpoint is not taken.
    options.loss = mse();
    train::Trainer wrong(small_network(4, 2, 3), data, options);
    EXPECT_THROW(wrong.restore(saved), InvalidArgument);
  }
}

TEST(Losses, OfUsersDescendUnderTheGuardAndResume) {
  expect_descent(std::make_shared<LogCosh>(), test::smooth_data(24, 2, 1), 1e-3);
}

TEST(Losses, PoissonDescendsUnderTheGuardAndResumes) {
  const train::TrainData data = counts(24, 2, 1);
  expect_descent(poisson(), data, 0.1);
  for (const bool training : {true, false}) {
    train::TrainData wrong = data;
    Tensor& y = training ? wrong.y : wrong.y_val;
    y = y.clone();
    y[7][1] = -2;
    train::TrainOptions options;
    options.loss = poisson();
    EXPECT_THAT([&] { train::Trainer(test::small_network(4, 2, 1), wrong, options); },
                ThrowsMessage<InvalidArgument>(
                    HasSubstr(std::string(training ? "training" : "validation") +
                              " labels must be 0 or more for the loss poisson, not -2 in row 7")));
  }
}

// Outliers: the least of the Huber loss lies near the truth, that of the squares does not.
TEST(Losses, HuberLeavesOutliersAlone) {
  using test::small_network;
  const train::TrainData clean = test::smooth_data(60, 1, 3);
  train::TrainData dirty = clean;
  dirty.y = clean.y.clone();
  dirty.y.slice(0, 0, 60, 10) += 5;
  const auto off = [&](const LossPtr& loss) {
    nn::Mlp net = small_network(4, 1, 1, torch::kFloat64, 6);
    train::TrainOptions options;
    options.loss = loss;
    options.steps = 60;
    train::Trainer(net, dirty, options).run();
    return (net->forward(clean.x_val) - clean.y_val).square().mean().sqrt().item<double>();
  };
  EXPECT_LT(off(huber(0.05)), 0.5 * off(mse()));
}

}  // namespace
}  // namespace cdt::loss
