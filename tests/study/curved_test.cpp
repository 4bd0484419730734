// The pre-flight of losses that are neither quadratic nor of classes, against the loop matrix from
// rows of the Jacobian and finite differences of the loss; and a loss of a user's own, from its
// pre-flight to its predictions.
#include <cdt/control/riccati.h>
#include <cdt/core/error.h>
#include <cdt/study/examine.h>
#include <cdt/study/predictor.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::study {
namespace {

using test::relative_error;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

using test::kDouble;

/// log cosh e, by its values alone.
class LogCosh : public loss::Loss {
 public:
  std::string name() const override { return "log-cosh"; }
  loss::Traits traits() const override { return {.curvature_bound = 1}; }
  double scale(int64_t samples, int64_t outputs) const override {
    return 1 / static_cast<double>(samples * outputs);
  }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets).cosh().log().sum(1);
  }
};

/// Squares whose two outputs belong together.
class Coupled : public LogCosh {
 public:
  std::string name() const override { return "coupled"; }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    const Tensor e = outputs - targets;
    return (e.square().sum(1) + e.select(1, 0) * e.select(1, 1)) / 4;
  }
};

struct CurvedCase {
  nn::Mlp net{nullptr};
  train::TrainData data = test::smooth_data(9, 2, 5);

  CurvedCase(const loss::Loss& loss, std::vector<int64_t> hidden) {
    nn::MlpOptions shape;
    shape.inputs = 4;
    shape.outputs = 2;
    shape.hidden = std::move(hidden);
    shape.activation = nn::Activation::kTanh;
    net = nn::Mlp(shape, 3, torch::kFloat64);
    data.x_val = data.y_val = Tensor();
    if (loss.traits().least_target == 0) data.y = torch::poisson((1 + 2 * data.y).exp());
  }
  /// [n, P], by one backward pass an output.
  Tensor jacobian() const {
    auto net_ = net;
    const Tensor outputs = net_->forward(data.x).reshape({-1});
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < outputs.numel(); ++i) {
      std::vector<Tensor> parts;
      for (const Tensor& g : torch::autograd::grad({outputs[i]}, net_->parameters(), {},
                                                   /*retain_graph=*/true)) {
        parts.push_back(g.reshape({-1}));
      }
      rows.push_back(torch::cat(parts));
    }
    return torch::stack(rows);
  }
  Tensor outputs() const {
    auto net_ = net;
    return net_->forward(data.x).detach();
  }
};

/// ∂²L/∂ŷ² [n, n] by central differences of the gradient.
Tensor hessian_by_differences(const loss::Loss& loss, const Tensor& outputs,
                              const Tensor& targets) {
  constexpr double h = 1e-5;
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < outputs.numel(); ++j) {
    const auto slope = [&](double way) {
      Tensor at = outputs.clone();
      at.view({-1})[j] += way;
      return loss.gradient(at, targets).reshape({-1});
    };
    columns.push_back((slope(h) - slope(-h)) / (2 * h));
  }
  return torch::stack(columns, 1);
}

Tensor sorted_eigenvalues(const Tensor& matrix) {
  return std::get<0>(torch::real(torch::linalg_eigvals(matrix)).sort());
}

std::vector<loss::LossPtr> curved_losses() {
  return {loss::huber(0.2), loss::quantile(0.9), loss::poisson(), std::make_shared<LogCosh>(),
          std::make_shared<Coupled>()};
}

TEST(Curved, ThePreflightIsOfTheLoopAtTheOutputs) {
  for (const loss::LossPtr& loss : curved_losses()) {
    SCOPED_TRACE(loss->name());
    const CurvedCase c(*loss, {16, 16});
    const Tensor J = c.jacobian(), H = hessian_by_differences(*loss, c.outputs(), c.data.y);
    const Tensor loop = J.mm(J.t()).mm(H);  // e⁺ = (I − αΘH)e
    const Tensor lambda = sorted_eigenvalues(loop);
    const double largest = lambda[-1].item<double>();

    AnalysisOptions options;
    options.loss = loss;
    options.learning_rate = 0.7 / largest;
    const analysis::Preflight found = analyze(kernel::Model(c.net), c.data, options);
    const dynamics::Modes& modes = found.plant->modes();
    const double factor = loss->scale(9, 2);
    EXPECT_LE((modes.values * factor - lambda).abs().max().item<double>(), 1e-6 * largest);
    EXPECT_NEAR(found.rates.stable.value * largest, 2, 1e-5);
    EXPECT_NEAR(found.rates.monotone.value * largest, 1, 1e-5);
    EXPECT_NEAR(found.stability.margin.value, 2 / 0.7, 1e-5);
    EXPECT_TRUE(found.stability.stable);
    EXPECT_NEAR(*found.state.loss, loss->graph(c.outputs(), c.data.y).item<double>(), 1e-12);
    // Beyond δ there is no curvature.
    const Tensor flat = H.abs().sum(1).view({9, 2}).sum(1) < 1e-9;
    EXPECT_EQ(found.curvature->flat, flat.sum().item<int64_t>());
    EXPECT_EQ(found.curvature->flat > 0, loss->name().starts_with("huber"));
    if (std::isfinite(loss->traits().curvature_bound)) {
      EXPECT_LE(found.rates.everywhere, found.rates.stable.value * (1 + 1e-9));
    } else {
      EXPECT_EQ(found.rates.everywhere, 0);
    }
    // The paper's controller in x = H^½(ŷ − ŷ_e), by the Riccati equation.
    const Tensor M = modes.vectors.mm(torch::diag(modes.values)).mm(modes.vectors.t());
    if (found.reachability.reachable) {
      const Tensor I = torch::eye(18, kDouble), S = found.learning_rate * factor * (M + M.t()) / 2;
      const auto oracle = control::solve_riccati(I - S, S, options.q * I, options.p * I);
      EXPECT_NEAR(found.controller.radius.value, oracle.closed_loop_radius, 1e-6);
    }
    // Twice the largest rate is not stable.
    options.learning_rate = 4 / largest;
    const analysis::Preflight beyond = analyze(kernel::Model(c.net), c.data, options);
    EXPECT_FALSE(beyond.stability.stable);
    EXPECT_THAT(to_text(beyond), testing::AllOf(HasSubstr("stay below"),
                                                testing::Not(HasSubstr("Nothing stands in"))));
    EXPECT_NEAR(beyond.stability.kappa.value, 3, 1e-4);
    const auto json = nlohmann::json::parse(to_json(found));
    EXPECT_EQ(json["loss"], loss->name());
    EXPECT_EQ(json["flat"], found.curvature->flat);
    EXPECT_THAT(to_text(found), HasSubstr("loss " + loss->name()));
    options.forecast = true;
    EXPECT_THAT([&] { analyze(kernel::Model(c.net), c.data, options); },
                ThrowsMessage<InvalidArgument>(HasSubstr("has no closed form")));
  }
}

// The step that is taken solves squares that touch the loss: their loop is what is promised.
TEST(Curved, ThePromiseIsOfTheStepThatIsTaken) {
  for (const loss::LossPtr& loss : curved_losses()) {
    SCOPED_TRACE(loss->name());
    const CurvedCase c(*loss, {});  // linear: no step is taken back
    train::TrainOptions training;
    training.loss = loss;
    const Tensor J = c.jacobian();
    const Tensor root = loss->residuals(c.outputs(), c.data.y, {}).S;
    const Tensor omega = root.matmul(root.transpose(1, 2));
    std::vector<Tensor> blocks;
    for (int64_t i = 0; i < 9; ++i) blocks.push_back(omega[i]);
    const Tensor lambda = sorted_eigenvalues(J.mm(J.t()).mm(torch::block_diag(blocks)));
    train::Trainer trainer(kernel::Model(c.net), c.data, training);
    analysis::Preflight found = analyze(kernel::Model(c.net), c.data, analysis_of(training));
    promise(found, trainer, training);
    const control::Certificate& acts = found.controller;
    ASSERT_TRUE(found.acts);
    const double mu = 1 / (acts.rate * loss->scale(9, 2) * acts.gain);
    constexpr int64_t kRank = 10;  // weights and biases
    EXPECT_NEAR(found.controller.radius.upper, mu / (lambda[18 - kRank].item<double>() + mu), 1e-9);
    const train::StepResult done = trainer.step();
    ASSERT_FALSE(done.outcome);
    ASSERT_EQ(done.record.rejected, 0);
    EXPECT_EQ(trainer.controller().digest, acts.digest);
  }
}

TEST(Curved, ALossOfOnesOwnLearnsToPredict) {
  torch::manual_seed(1);
  Problem problem;
  problem.data = test::smooth_data(80, 1, 2);
  problem.model = nn::Network(test::small_network(4, 1, 3, torch::kFloat64, 12).ptr());
  data::TargetColumn target;
  target.name = "y";
  problem.preprocess.targets = {target};
  LearnOptions options;
  options.training.method = "path";
  options.training.loss = std::make_shared<LogCosh>();
  options.training.steps = 10;
  options.network.hidden = {12};
  options.network.dtype = torch::kFloat64;
  options.members = 2;
  const Learned learned = Learner(problem, options).run();
  EXPECT_EQ(learned.loss->name(), "log-cosh");
  const Predictor predictor = calibrate(problem, learned);
  const auto expected = expect(problem, learned, predictor);
  EXPECT_LT(expected.at(0).rmse.value, 0.75 * expected.at(0).mean_rmse);
  // Stopped and resumed.
  Learner first(problem, options);
  LearnHooks hooks;
  int asked = 0;
  hooks.stop_requested = [&] { return ++asked > 4; };
  SafeTensors saved;
  hooks.checkpoint = [&](const SafeTensors& content) { saved = content; };
  first.run(hooks);
  Learner second(problem, options);
  second.restore(saved);
  EXPECT_TRUE(
      torch::equal(torch::nan_to_num(second.run().held_out),  // of rows that no walk held out
                   torch::nan_to_num(learned.held_out)));
}

}  // namespace
}  // namespace cdt::study
