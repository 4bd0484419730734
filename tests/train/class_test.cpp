// Training of classes under the cross entropy, and of numbers under the absolute error.
#include <cdt/control/plant.h>
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using loss::LossPtr;
using test::class_data;
using test::relative_error;
using test::small_network;
using torch::Tensor;

using test::kDouble;

TrainOptions class_options(Method method, int64_t steps) {
  TrainOptions options;
  options.method = method;
  options.loss = loss::cross_entropy();
  options.steps = steps;
  return options;
}

/// (1/r)Σ KL((1 − ε)y + ε/C ‖ softmax(z)), as PyTorch has it.
double smoothed_excess(const Tensor& logits, const Tensor& y, double smoothing) {
  const Tensor targets = (1 - smoothing) * y + smoothing / static_cast<double>(y.size(1));
  const Tensor log_p = torch::log_softmax(logits.to(torch::kFloat64), 1);
  return torch::kl_div(log_p, targets, at::Reduction::Sum).item<double>() /
         static_cast<double>(y.size(0));
}

double true_loss(const Tensor& logits, const Tensor& y) {
  return torch::cross_entropy_loss(logits.to(torch::kFloat64), y).item<double>();
}

TEST(Classes, GuardedNeverRaisesTheSmoothedLossWhateverTheRate) {
  for (const double rate : {0.0, 0.05, 1.0, 100.0, 1e5}) {  // 0: its own
    for (const uint64_t seed : {1, 2}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << ", seed " << seed);
      const TrainData data = class_data(24, 3, seed, torch::kFloat32);
      nn::Mlp net = small_network(4, 3, seed, torch::kFloat32);
      TrainOptions options = class_options("guarded", 60);
      if (rate > 0) options.learning_rate = rate;
      std::vector<double> watched{smoothed_excess(net->forward(data.x).detach(), data.y, 0.1)};
      TrainHooks hooks;
      hooks.on_step = [&](const StepRecord&) {
        const torch::NoGradGuard no_graph;
        watched.push_back(smoothed_excess(net->forward(data.x), data.y, 0.1));
      };
      const auto result = Trainer(net, data, options).run(hooks);
      for (size_t k = 1; k < watched.size(); ++k) {
        ASSERT_LE(watched[k], watched[k - 1] * (1 + 1e-9)) << "step " << k;
      }
      if (rate == 0 || rate >= 100) {
        EXPECT_LT(watched.back(), 1e-4) << result.in_words();
        // The true loss is that of the smoothed labels at their equilibrium, −log(1 − ε + ε/C).
        EXPECT_NEAR(result.train_loss, -std::log(0.9 + 0.1 / 3), 0.02);
      }
      EXPECT_NEAR(result.train_loss, true_loss(net->forward(data.x).detach(), data.y), 1e-6);
    }
  }
}

TEST(Classes, ControlLearnsAtARateThatRuinsPlainDescent) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const TrainData data = class_data(20, 3, seed);
    const auto wide = [&] { return small_network(4, 3, seed, torch::kFloat64, 400); };
    nn::Mlp probe = wide();
    const auto kernel = kernel::empirical_ntk(probe, data.x);
    const double rate =
        60 * control::Plant::of(kernel, loss::cross_entropy(), 1, data.y).unit_rate();
    std::map<std::string, std::vector<double>> losses;
    for (const Method method : {"gd", "cdt", "guarded"}) {
      nn::Mlp net = wide();
      TrainOptions options = class_options(method, 40);
      options.learning_rate = rate;
      for (const StepRecord& row : Trainer(net, data, options).run().history) {
        losses[method.name()].push_back(row.train_loss);
      }
    }
    const double start = losses["gd"].front();
    EXPECT_GT(*std::max_element(losses["gd"].begin(), losses["gd"].end()), 3 * start);
    EXPECT_LT(losses["cdt"].back(), 0.3 * start);
    EXPECT_LT(losses["guarded"].back(), 0.2 * start);
  }
}

/// The minimum of the smoothed loss of logits xW over W [f, C], by Newton's method, float64.
Tensor newton_logits(const Tensor& x, const Tensor& y, double smoothing) {
  const int64_t r = x.size(0), f = x.size(1), C = y.size(1);
  const Tensor targets = (1 - smoothing) * y + smoothing / static_cast<double>(C);
  Tensor w = torch::zeros({f * C}, kDouble);
  for (int k = 0; k < 60; ++k) {
    const Tensor p = torch::softmax(x.mm(w.view({f, C})), 1);
    const Tensor g = x.t().mm(p - targets).reshape({-1}) / static_cast<double>(r);
    Tensor H = 1e-12 * torch::eye(f * C, kDouble);  // common shifts of logits change nothing
    for (int64_t i = 0; i < r; ++i) {
      const Tensor block = torch::diag(p[i]) - torch::outer(p[i], p[i]);
      H += torch::kron(torch::outer(x[i], x[i]), block) / static_cast<double>(r);
    }
    w = w - torch::linalg_solve(H, g);
  }
  return x.mm(w.view({f, C}));
}

TEST(Classes, LogisticRegressionEndsWhereNewtonDoes) {
  // Fewer features than samples: no weights fit the labels, so the best is not the equilibrium that
  // the controller steers to. At the end nothing within reach is left to gain.
  for (const uint64_t seed : {1, 2, 3}) {
    for (const int64_t C : {2, 3}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " classes " << C);
      torch::manual_seed(seed);
      TrainData data;
      data.x = torch::randn({40, 5}, kDouble);
      const Tensor noisy = data.x.narrow(1, 0, C) + 0.7 * torch::randn({40, C}, kDouble);
      data.y = torch::one_hot(noisy.argmax(1), C).to(torch::kFloat64);
      Tensor w = torch::zeros({5, C}, kDouble).requires_grad_(true);
      const auto result = Trainer(kernel::Model([&](const Tensor& x) { return x.mm(w); }, {w}),
                                  data, class_options("guarded", 300))
                              .run();
      const Tensor best = newton_logits(data.x, data.y, 0.1);
      const double lowest = smoothed_excess(best, data.y, 0.1);
      EXPECT_GT(lowest, 0.05);
      EXPECT_NEAR(smoothed_excess(data.x.mm(w.detach()), data.y, 0.1), lowest, 1e-8 * lowest);
      EXPECT_EQ(result.outcome, Outcome::kFloor) << result.in_words();
      EXPECT_LT(result.steps, 200);
    }
  }
}

/// The minimum of that loss plus ½d‖W‖², likewise: W [f, C].
Tensor newton_weights(const Tensor& x, const Tensor& y, double smoothing, double decay) {
  const int64_t r = x.size(0), f = x.size(1), C = y.size(1);
  const Tensor targets = (1 - smoothing) * y + smoothing / static_cast<double>(C);
  Tensor w = torch::zeros({f * C}, kDouble);
  for (int k = 0; k < 60; ++k) {
    const Tensor p = torch::softmax(x.mm(w.view({f, C})), 1);
    const Tensor g = x.t().mm(p - targets).reshape({-1}) / static_cast<double>(r) + decay * w;
    Tensor H = decay * torch::eye(f * C, kDouble);
    for (int64_t i = 0; i < r; ++i) {
      const Tensor block = torch::diag(p[i]) - torch::outer(p[i], p[i]);
      H += torch::kron(torch::outer(x[i], x[i]), block) / static_cast<double>(r);
    }
    w = w - torch::linalg_solve(H, g);
  }
  return w.view({f, C});
}

TEST(Classes, WithWeightDecayLogisticRegressionEndsWhereNewtonDoes) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const int64_t features : {5, 60}) {  // fewer than samples, and more
      for (const double decay : {1e-3, 1e-1}) {
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << " features " << features << " decay " << decay);
        torch::manual_seed(seed);
        TrainData data;
        data.x = torch::randn({40, features}, kDouble);
        const Tensor noisy = data.x.narrow(1, 0, 3) + 0.7 * torch::randn({40, 3}, kDouble);
        data.y = torch::one_hot(noisy.argmax(1), 3).to(torch::kFloat64);
        Tensor w = torch::randn({features, 3}, kDouble).requires_grad_(true);
        TrainOptions options = class_options("guarded", 500);
        options.weight_decay = decay;
        const auto result =
            Trainer(kernel::Model([&](const Tensor& x) { return x.mm(w); }, {w}), data, options)
                .run();
        const Tensor best = newton_weights(data.x, data.y, 0.1, decay);
        EXPECT_LE(relative_error(w, best), 1e-4) << result.in_words();
        EXPECT_EQ(result.outcome, Outcome::kFloor) << result.in_words();
      }
    }
  }
}

TEST(Classes, WithWeightDecayLowersTheWholeObjective) {
  const TrainData data = class_data(20, 3, 10);
  std::vector<double> objectives;
  for (const int64_t steps : {0, 1, 2, 4, 8, 16}) {
    nn::Mlp net = small_network(4, 3, 4);
    TrainOptions options = class_options("guarded", steps);
    options.weight_decay = 1e-3;
    Trainer(net, data, options).run();
    double square = 0;
    for (const Tensor& parameter : net->parameters())
      square += parameter.square().sum().item<double>();
    objectives.push_back(smoothed_excess(net->forward(data.x).detach(), data.y, 0.1) +
                         0.5e-3 * square);
  }
  for (size_t k = 1; k < objectives.size(); ++k) EXPECT_LE(objectives[k], objectives[k - 1]);
  EXPECT_LT(objectives.back(), 0.7 * objectives.front());
}

TEST(Classes, RecoverFromABlowUp) {
  // Logits that overflow after a long step: infinite losses are rejected like any other.
  TrainData data = class_data(12, 3, 5);
  data.x_val = data.y_val = Tensor();
  Tensor w = torch::zeros({4, 3}, kDouble).requires_grad_(true);
  TrainOptions options = class_options("guarded", 100);
  options.learning_rate = 1e6;
  const auto result =
      Trainer(kernel::Model([&](const Tensor& x) { return torch::sinh(40 * x.mm(w)); }, {w}), data,
              options)
          .run();
  EXPECT_GT(result.rejected, 0);
  EXPECT_LT(result.train_loss, 0.7 * result.history.front().train_loss);
}

TEST(Classes, PlainMethodsAreLibTorchsCrossEntropy) {
  for (const double smoothing : {0.0, 0.2}) {
    for (const Method method : {"gd", "adam"}) {
      SCOPED_TRACE(to_string(method));
      const TrainData data = class_data(12, 3, 4);
      nn::Mlp ours = small_network(4, 3, 5);
      nn::Mlp plain = small_network(4, 3, 5);
      TrainOptions options = class_options(method, 15);
      options.learning_rate = 0.02;
      options.smoothing = smoothing;
      const auto result = Trainer(ours, data, options).run();
      std::unique_ptr<torch::optim::Optimizer> optimizer;
      if (method == "adam") {
        optimizer = std::make_unique<torch::optim::Adam>(plain->parameters(), 0.02);
      } else {
        optimizer = std::make_unique<torch::optim::SGD>(plain->parameters(), 0.02);
      }
      for (int k = 0; k < 15; ++k) {
        optimizer->zero_grad();
        torch::cross_entropy_loss(plain->forward(data.x), data.y, {}, at::Reduction::Mean, -100,
                                  smoothing)
            .backward();
        optimizer->step();
      }
      for (size_t i = 0; i < ours->parameters().size(); ++i) {
        EXPECT_LE(relative_error(ours->parameters()[i], plain->parameters()[i]), 1e-10);
      }
      EXPECT_NEAR(result.train_loss, true_loss(plain->forward(data.x), data.y), 1e-12);
      EXPECT_NEAR(result.val_loss, true_loss(plain->forward(data.x_val), data.y_val), 1e-12);
    }
  }
  nn::Mlp net = small_network(4, 3, 5);
  EXPECT_LT(Trainer(net, class_data(12, 3, 4), class_options("lbfgs", 10)).run().train_loss, 1e-3);
}

TEST(Classes, GradientDescentFindsARateThatIsStableInEveryState) {
  const TrainData data = class_data(15, 3, 6);
  nn::Mlp net = small_network(4, 3, 7);
  const double largest =
      torch::linalg_eigvalsh(kernel::empirical_ntk(net, data.x).theta).max().item<double>();
  const auto result = Trainer(net, data, class_options("gd", 200)).run();
  EXPECT_NEAR(result.learning_rate, 0.5 * 2 * 15 / largest, 1e-9 * result.learning_rate);
  for (size_t k = 1; k < result.history.size(); ++k) {
    ASSERT_LT(result.history[k].train_loss, result.history[k - 1].train_loss);
  }
}

TEST(Classes, BatchesHaveTheirOwnControllers) {
  const TrainData data = class_data(20, 3, 8);
  TrainOptions options = class_options("guarded", 60);
  options.batch = 6;
  nn::Mlp net = small_network(4, 3, 3);
  const auto result = Trainer(net, data, options).run();
  EXPECT_GE(result.linearizations, 4);
  EXPECT_LT(result.train_loss, 0.5 * result.history.front().train_loss);
}

TEST(Classes, DuplicatesThatContradictEachOtherLearnTheirFrequencies) {
  TrainData data = class_data(12, 2, 9);
  for (const int64_t i : {5, 9}) data.x[i] = data.x[2];
  data.y[2] = data.y[5] = torch::tensor({1.0, 0.0}, kDouble);
  data.y[9] = torch::tensor({0.0, 1.0}, kDouble);
  nn::Mlp net = small_network(4, 2, 2);
  const auto result = Trainer(net, data, class_options("guarded", 400)).run();
  const Tensor p = torch::softmax(net->forward(data.x[2].unsqueeze(0)), 1);
  EXPECT_NEAR(p[0][0].item<double>(), 0.9 * 2 / 3 + 0.05, 1e-4);
  EXPECT_EQ(result.outcome, Outcome::kFloor) << result.in_words();
}

TEST(Classes, StopsAtANetworkThatCannotMove) {
  Tensor w = torch::zeros({4, 3}, kDouble).requires_grad_(true);
  const auto result = Trainer(kernel::Model([&](const Tensor& x) { return x.mm(w * 0) + 1; }, {w}),
                              class_data(6, 3, 9), class_options("guarded", 10))
                          .run();
  EXPECT_EQ(result.outcome, Outcome::kFloor);
  EXPECT_EQ(result.steps, 0);
}

TEST(Classes, RefusesLabelsThatAreNone) {
  const auto refused = [](auto change, Method method = "guarded") -> std::string {
    TrainData data = class_data(8, 3, 1);
    change(data);
    nn::Mlp net = small_network(4, data.y.size(1), 1);
    try {
      Trainer(net, data, class_options(method, 1)).run();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "was not refused";
  };
  using testing::HasSubstr;
  EXPECT_EQ(refused([](auto&) {}), "was not refused");
  EXPECT_THAT(refused([](auto& d) { d.y = d.y * 2; }), HasSubstr("sum to 1"));
  EXPECT_THAT(refused([](auto& d) { d.y_val = 1.5 * d.y_val - 0.5 / 3; }, "gd"),
              HasSubstr("validation labels"));
  EXPECT_THAT(refused([](auto& d) {
                d.y = torch::ones({8, 1}, kDouble);
                d.x_val = d.y_val = Tensor();
              }),
              HasSubstr("two classes or more"));
}

TEST(Classes, WeightsCountUnderControl) {
  for (const Method method : {"cdt", "guarded"}) {
    const auto loss_of_first = [&](bool weighted) {
      TrainData data = class_data(24, 3, 2);
      if (weighted) {
        data.sample_weights = torch::ones({24}, kDouble);
        data.sample_weights.narrow(0, 0, 4).fill_(10);
      }
      nn::Mlp net = small_network(4, 3, 1);
      TrainOptions options = class_options(method, 10);
      options.learning_rate = 0.02;
      const auto result = Trainer(net, data, options).run();
      EXPECT_LT(result.objective, result.history.front().objective);
      const torch::NoGradGuard no_graph;
      return loss::assess(*loss::cross_entropy(0.1), net->forward(data.x.narrow(0, 0, 4)),
                          data.y.narrow(0, 0, 4))
          .loss;
    };
    EXPECT_LT(loss_of_first(true), 0.9 * loss_of_first(false)) << to_string(method);
  }
}

TEST(AbsoluteError, TrainsWithoutControlAsLibTorchDoes) {
  const TrainData data = test::smooth_data(10, 2, 5);
  nn::Mlp ours = small_network(4, 2, 7);
  nn::Mlp plain = small_network(4, 2, 7);
  TrainOptions options;
  options.method = "gd";
  options.loss = loss::mae();
  options.learning_rate = 0.05;
  options.steps = 12;
  const auto result = Trainer(ours, data, options).run();
  torch::optim::SGD sgd(plain->parameters(), 0.05);
  for (int k = 0; k < 12; ++k) {
    sgd.zero_grad();
    torch::l1_loss(plain->forward(data.x), data.y).backward();
    sgd.step();
  }
  for (size_t i = 0; i < ours->parameters().size(); ++i) {
    EXPECT_LE(relative_error(ours->parameters()[i], plain->parameters()[i]), 1e-12);
  }
  EXPECT_NEAR(result.train_loss, torch::l1_loss(plain->forward(data.x), data.y).item<double>(),
              1e-12);
}

}  // namespace
}  // namespace cdt::train
