// The loop against re-implementations, the local model, and LibTorch's own optimizers.
#include <ATen/Context.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/simulation.h>
#include <cdt/kernel/ntk.h>
#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "support/compare.h"
#include "support/plants.h"
#include "support/tolerance.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::relative_error;
using test::small_network;
using test::smooth_data;
using torch::Tensor;

using test::kDouble;

TrainOptions options_for(Method method, double rate, int64_t steps) {
  TrainOptions options;
  options.method = method;
  options.learning_rate = rate;
  options.steps = steps;
  return options;
}

Tensor error_of(nn::Mlp& net, const TrainData& data) {
  const torch::NoGradGuard no_graph;
  return (net->forward(data.x).to(torch::kFloat64) - data.y).reshape({-1});
}

/// Θ from rows of the Jacobian, one backward pass each.
Tensor brute_force_kernel(nn::Mlp& net, const Tensor& x) {
  const auto parameters = net->parameters();
  const Tensor outputs = net->forward(x).reshape({-1});
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < outputs.size(0); ++i) {
    std::vector<Tensor> parts;
    for (const Tensor& part : torch::autograd::grad({outputs[i]}, parameters, {}, true)) {
      parts.push_back(part.reshape({-1}));
    }
    rows.push_back(torch::cat(parts));
  }
  const Tensor J = torch::stack(rows);
  return J.mm(J.t());
}

/// The stationary gain by iterating the Riccati difference equation of A = I − S, B = S.
Tensor iterated_gain(const Tensor& S, double q, double p) {
  const int64_t n = S.size(0);
  const Tensor I = torch::eye(n, kDouble);
  const Tensor A = I - S;
  Tensor P = q * I;
  Tensor K;
  for (int k = 0; k < 20000; ++k) {
    K = torch::linalg_solve(p * I + S.mm(P).mm(S), S.mm(P).mm(A));
    const Tensor next = q * I + A.mm(P).mm(A - S.mm(K));
    const bool done = relative_error(next, P) < 1e-14;
    P = next;
    if (done) break;
  }
  return K;
}

TEST(Training, GradientDescentAndCdtFollowTheLocalModelForTinySteps) {
  for (const Method method : {"gd", "cdt"}) {
    const TrainData data = smooth_data(12, 2, 1);
    nn::Mlp net = small_network(4, 2, 3);
    const Tensor theta = kernel::empirical_ntk(net, data.x).theta;
    const double rate = 1e-3 * dynamics::unit_rate(dynamics::decompose(theta, 1e-12),
                                                   2.0 / static_cast<double>(theta.size(0)));
    const double scale = loss::step_scale(rate, loss::mse(), theta.size(0));
    const Tensor S = dynamics::step_matrix(theta, scale);
    std::optional<Tensor> K;
    if (method == "cdt") {
      K = test::lqr_of(theta, scale).gain_matrix();
    }
    const Tensor start = error_of(net, data);
    const auto local = dynamics::simulate(S, start, 20, K);
    Trainer(net, data, options_for(method, rate, 20)).run();
    const Tensor moved = error_of(net, data) - start;
    const Tensor promised = local.errors[20] - start;
    EXPECT_LE(relative_error(moved, promised), 0.01) << to_string(method);
    EXPECT_GT(promised.norm().item<double>(), 1e-4);
  }
}

TEST(Training, CdtIsThePapersAlgorithmStepByStep) {
  const TrainData data = smooth_data(6, 1, 2);
  const double rate = 2;
  const double q = 1.5;
  const double p = 0.2;
  nn::Mlp plain = small_network(4, 1, 5);
  // Algorithm 1, as one would write it down.
  const Tensor theta = brute_force_kernel(plain, data.x);
  const Tensor K = iterated_gain(rate * 2 / 6.0 * theta, q, p);
  for (int64_t steps = 1; steps <= 6; ++steps) {
    const double decayed = rate / (1 + 0.01 * static_cast<double>(steps - 1));
    const Tensor y_hat = plain->forward(data.x);
    const Tensor e = (y_hat - data.y).detach();
    const Tensor label = data.y - K.mm(e);
    plain->zero_grad();
    torch::mse_loss(y_hat, label).backward();
    {
      const torch::NoGradGuard no_graph;
      for (Tensor& parameter : plain->parameters()) parameter.sub_(parameter.grad() * decayed);
    }
    nn::Mlp fresh = small_network(4, 1, 5);
    TrainOptions options = options_for("cdt", rate, steps);
    options.schedule = {Schedule::Kind::kInverse, 0.01};
    options.q = q;
    options.p = p;
    const auto result = Trainer(fresh, data, options).run();
    for (size_t i = 0; i < fresh->parameters().size(); ++i) {
      EXPECT_LE(relative_error(fresh->parameters()[i], plain->parameters()[i]), 1e-9)
          << "step " << steps;
    }
    const StepRecord& last = result.history[static_cast<size_t>(steps - 1)];
    EXPECT_NEAR(last.augment_norm, K.mm(e).norm().item<double>(), 1e-9);
    EXPECT_NEAR(last.train_loss, torch::mse_loss(y_hat, data.y).item<double>(), 1e-12);
    EXPECT_DOUBLE_EQ(last.learning_rate, decayed);
  }
}

TEST(Training, AugmentedLabelsTendToTheTrueOnes) {
  const TrainData data = smooth_data(12, 1, 3);
  nn::Mlp net = small_network(4, 1, 1);
  TrainOptions options = options_for("cdt", 1, 3000);
  options.learning_rate.reset();
  const auto result = Trainer(net, data, options).run();
  const double first = result.history.front().augment_norm;
  const double last = result.history[result.history.size() - 2].augment_norm;
  EXPECT_GT(first, 0.1);
  EXPECT_LT(last, 0.1 * first);
}

TEST(Training, TheMatchedBaselineIsGradientDescentAtAHigherRate) {
  const TrainData data = smooth_data(12, 1, 4);
  nn::Mlp a = small_network(4, 1, 2);
  nn::Mlp b = small_network(4, 1, 2);
  Trainer(a, data, options_for("gd-matched", 0.1, 15)).run();
  Trainer(b, data, options_for("gd", 0.1 * std::sqrt(11.0), 15)).run();
  EXPECT_TRUE(test::same_bits(test::parameters_of(a), test::parameters_of(b)));
}

TEST(Training, GradientDescentWithWeightDecayAgainstAPlainLoop) {
  const TrainData data = smooth_data(10, 2, 5);
  nn::Mlp ours = small_network(4, 2, 7);
  nn::Mlp plain = small_network(4, 2, 7);
  TrainOptions options = options_for("gd", 0.05, 12);
  options.weight_decay = 0.3;
  Trainer(ours, data, options).run();
  torch::optim::SGD sgd(plain->parameters(), torch::optim::SGDOptions(0.05).weight_decay(0.3));
  for (int k = 0; k < 12; ++k) {
    sgd.zero_grad();
    torch::mse_loss(plain->forward(data.x), data.y).backward();
    sgd.step();
  }
  for (size_t i = 0; i < ours->parameters().size(); ++i) {
    EXPECT_LE(relative_error(ours->parameters()[i], plain->parameters()[i]), 1e-12);
  }
}

TEST(Training, BaselinesAreLibTorchsOwn) {
  for (const Method method : {"adam", "momentum"}) {
    const TrainData data = smooth_data(10, 1, 6);
    nn::Mlp ours = small_network(4, 1, 8);
    nn::Mlp plain = small_network(4, 1, 8);
    Trainer(ours, data, options_for(method, 0.01, 25)).run();
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    if (method == "adam") {
      optimizer = std::make_unique<torch::optim::Adam>(plain->parameters(), 0.01);
    } else {
      optimizer = std::make_unique<torch::optim::SGD>(
          plain->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(true));
    }
    for (int k = 0; k < 25; ++k) {
      optimizer->zero_grad();
      torch::mse_loss(plain->forward(data.x), data.y).backward();
      optimizer->step();
    }
    for (size_t i = 0; i < ours->parameters().size(); ++i) {
      EXPECT_LE(relative_error(ours->parameters()[i], plain->parameters()[i]), 1e-10)
          << to_string(method);
    }
  }
  const TrainData data = smooth_data(10, 1, 6);
  nn::Mlp net = small_network(4, 1, 8);
  EXPECT_LT(Trainer(net, data, options_for("lbfgs", 1, 20)).run().train_loss, 1e-8);
}

TEST(Training, ABatchOfEverythingIsTheFullBatch) {
  for (const Method method : {"gd", "cdt", "guarded"}) {
    const TrainData data = smooth_data(12, 1, 7);
    std::vector<std::vector<Tensor>> ends;
    for (const int64_t batch : {0, 12, 50}) {
      nn::Mlp net = small_network(4, 1, 9);
      TrainOptions options = options_for(method, 0.2, 8);
      options.batch = batch;
      Trainer(net, data, options).run();
      ends.push_back(test::parameters_of(net));
    }
    EXPECT_TRUE(test::same_bits(ends[0], ends[1])) << to_string(method);
    EXPECT_TRUE(test::same_bits(ends[0], ends[2])) << to_string(method);
  }
}

TEST(Training, BatchesHaveTheirOwnControllersAndKeepThem) {
  const TrainData data = smooth_data(20, 1, 8);
  TrainOptions options = options_for("cdt", 0.2, 30);
  options.batch = 6;  // 4 batches, the last of 2 samples
  nn::Mlp net = small_network(4, 1, 3);
  const auto kept = Trainer(net, data, options).run();
  EXPECT_EQ(kept.linearizations, 4);
  EXPECT_LT(kept.train_loss, 0.2 * kept.history.front().train_loss);
  // Losses of all samples once an epoch, and at the end.
  EXPECT_FALSE(std::isnan(kept.history[4].train_loss));
  EXPECT_TRUE(std::isnan(kept.history[5].train_loss));
  EXPECT_FALSE(std::isnan(kept.history[30].train_loss));
  options.reshuffle = true;
  nn::Mlp other = small_network(4, 1, 3);
  EXPECT_EQ(Trainer(other, data, options).run().linearizations, 30);
  options.reshuffle = false;
  options.batch = 50;
  options.steps = 8;
  options.memory_bytes = 100'000;  // room for two controllers of 50 samples, not for four
  nn::Mlp third = small_network(4, 1, 3);
  EXPECT_EQ(Trainer(third, smooth_data(200, 1, 8), options).run().linearizations, 8);
}

TEST(Training, EarlyStoppingReturnsTheBestWeights) {
  // Labels are noise: the validation loss turns up soon.
  TrainData data = smooth_data(20, 1, 9);
  torch::manual_seed(1);
  data.y = torch::randn({20, 1}, kDouble);
  data.y_val = torch::randn({10, 1}, kDouble);
  nn::Mlp net = small_network(4, 1, 4);
  TrainOptions options = options_for("gd", 0.3, 5000);
  options.patience = 20;
  const auto result = Trainer(net, data, options).run();
  EXPECT_EQ(result.outcome, Outcome::kEarlyStopping);
  EXPECT_EQ(result.steps, result.best_step + 20);
  double lowest = 1e9;
  for (const StepRecord& row : result.history) lowest = std::min(lowest, row.val_loss);
  EXPECT_EQ(result.best_val_loss, lowest);
  EXPECT_DOUBLE_EQ(result.val_loss, lowest);
  const torch::NoGradGuard no_graph;
  EXPECT_DOUBLE_EQ(torch::mse_loss(net->forward(data.x_val), data.y_val).item<double>(), lowest);
}

TEST(Training, StopsWhereItWasTold) {
  const TrainData data = smooth_data(12, 1, 10);
  const auto outcome = [&](auto change) {
    nn::Mlp net = small_network(4, 1, 2);
    TrainOptions options = options_for("gd", 0.2, 400);
    change(options);
    return Trainer(net, data, options).run();
  };
  const auto limit = outcome([](auto&) {});
  EXPECT_EQ(limit.outcome, Outcome::kSteps);
  EXPECT_EQ(limit.history.size(), 401U);
  const double middle = limit.history[100].train_loss;
  const auto target = outcome([&](auto& o) { o.stop_loss = middle; });
  EXPECT_EQ(target.outcome, Outcome::kTarget);
  EXPECT_LE(target.steps, 100);
  EXPECT_LE(target.train_loss, middle);
  EXPECT_EQ(outcome([](auto& o) { o.max_seconds = 1e-9; }).outcome, Outcome::kTime);
  const auto plateau = outcome([](auto& o) {
    o.learning_rate = 1e-9;
    o.plateau = 5;
  });
  EXPECT_EQ(plateau.outcome, Outcome::kPlateau);
  EXPECT_EQ(plateau.steps, 5);
  const auto diverged = outcome([](auto& o) { o.learning_rate = 1e6; });
  EXPECT_TRUE(diverged.diverged());
  EXPECT_THAT(diverged.in_words(), testing::HasSubstr("DIVERGED"));
  EXPECT_EQ(outcome([](auto& o) { o.steps = 0; }).history.size(), 1U);
}

TEST(Training, TheSameSeedGivesTheSameBits) {
  for (const Method method : {"guarded", "cdt", "adam"}) {
    std::vector<std::vector<Tensor>> ends;
    for (int run = 0; run < 2; ++run) {
      nn::Mlp net = small_network(4, 1, 5, torch::kFloat32);
      TrainOptions options;
      options.method = method;
      options.steps = 12;
      options.batch = 9;
      Trainer(net, smooth_data(30, 1, 11, torch::kFloat32), options).run();
      ends.push_back(test::parameters_of(net));
    }
    EXPECT_TRUE(test::same_bits(ends[0], ends[1])) << to_string(method);
  }
}

TEST(Training, StepsHaveThePrecisionThatTheUserSet) {
  auto& context = at::globalContext();
  context.setAllowTF32CuDNN(true);
  context.setFloat32MatmulPrecision("high");
  const TrainData data = smooth_data(12, 1, 1);
  for (const Method method : {"gd", "cdt", "guarded"}) {
    nn::Mlp net = small_network(4, 1, 3);
    int64_t steps = 0;
    TrainHooks hooks;
    hooks.on_step = [&](const StepRecord&) {
      ++steps;
      EXPECT_TRUE(context.allowTF32CuDNN());
      EXPECT_TRUE(context.allowTF32CuBLAS());
    };
    Trainer(net, data, options_for(method, 0.01, 3)).run(hooks);
    EXPECT_GT(steps, 0);
  }
  context.setFloat32MatmulPrecision("highest");
}

TEST(Training, RefusesDataThatDoNotFit) {
  const auto refused = [](auto change, TrainOptions options = {}) -> std::string {
    TrainData data = smooth_data(8, 1, 1);
    change(data);
    nn::Mlp net = small_network(4, 1, 1);
    try {
      Trainer(net, data, options).run();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "was not refused";
  };
  using testing::HasSubstr;
  EXPECT_THAT(refused([](auto& d) { d.x[2][1] = NAN; }), HasSubstr("training inputs"));
  EXPECT_THAT(refused([](auto& d) { d.y[2][0] = INFINITY; }), HasSubstr("training labels"));
  EXPECT_THAT(refused([](auto& d) { d.y = d.y.narrow(0, 0, 7); }), HasSubstr("[8, outputs]"));
  EXPECT_THAT(refused([](auto& d) { d.y = torch::zeros({8, 3}, kDouble); }), HasSubstr("outputs"));
  EXPECT_THAT(refused([](auto& d) { d.y_val = Tensor(); }), HasSubstr("validation"));
  EXPECT_THAT(refused([](auto& d) { d.sample_weights = torch::zeros({8}, kDouble); }),
              HasSubstr("sample weights must be positive"));
  EXPECT_THAT(refused([](auto& d) { d.output_weights = torch::ones({2}, kDouble); }),
              HasSubstr("output weights"));
  EXPECT_THAT(refused([](auto& d) { d.x = d.x.narrow(0, 0, 0); }), HasSubstr("samples"));
  TrainOptions patient;
  patient.patience = 3;
  EXPECT_THAT(refused([](auto& d) { d.x_val = d.y_val = Tensor(); }, patient),
              testing::StartsWith("patience needs"));
  TrainOptions plain;
  plain.method = "gd";
  EXPECT_THAT(refused([](auto& d) { d.sample_weights = torch::ones({8}, kDouble); }, plain),
              HasSubstr("no controller"));
}

}  // namespace
}  // namespace cdt::train
