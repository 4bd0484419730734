// Guarded CDT: monotone, restored bit by bit, floors, blow-ups, weights, decay; and its policies.
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/products.h>
#include <cdt/train/loop/feedback_source.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/plants.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::relative_error;
using test::small_network;
using test::smooth_data;
using torch::Tensor;

using test::kDouble;

void expect_monotone(const TrainResult& result) {
  for (size_t k = 1; k < result.history.size(); ++k) {
    ASSERT_LE(result.history[k].train_loss, result.history[k - 1].train_loss) << "step " << k;
  }
}

TEST(Guarded, NeverRaisesTheErrorWhateverTheRate) {
  for (const double rate : {1e-2, 1.0, 10.0, 1e3, 1e6}) {
    for (const uint64_t seed : {1, 2}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << ", seed " << seed);
      nn::Mlp net = small_network(4, 1, seed, torch::kFloat32);
      TrainOptions options;
      options.learning_rate = rate;
      options.steps = 60;
      const auto result = Trainer(net, smooth_data(24, 1, seed, torch::kFloat32), options).run();
      expect_monotone(result);
      EXPECT_TRUE(std::isfinite(result.train_loss));
      if (rate >= 1e3) {
        EXPECT_LT(result.train_loss, 1e-6);
      }
    }
  }
}

TEST(Guarded, FindsItsOwnRate) {
  nn::Mlp net = small_network(4, 2, 3, torch::kFloat32);
  const TrainData data = smooth_data(30, 2, 4, torch::kFloat32);
  const double largest =
      torch::linalg_eigvalsh(kernel::empirical_ntk(net, data.x).theta).max().item<double>();
  TrainOptions options;
  options.stop_loss = 1e-7;
  const auto result = Trainer(net, data, options).run();
  EXPECT_EQ(result.outcome, Outcome::kTarget);
  EXPECT_LT(result.steps, 80);
  EXPECT_NEAR(result.learning_rate, 1e4 * 60 / 2 / largest, 1e-6 * result.learning_rate);
  expect_monotone(result);
}

TEST(Guarded, TrainsOnEveryDevice) {
  for (const torch::Device device : test::devices()) {
    for (const Method method : {"guarded", "cdt", "adam"}) {
      SCOPED_TRACE(testing::Message() << device << " " << to_string(method));
      nn::Mlp net = small_network(4, 1, 3, torch::kFloat32);
      net->to(device);
      TrainData data = smooth_data(24, 1, 3, torch::kFloat32);
      for (Tensor* tensor : {&data.x, &data.y, &data.x_val, &data.y_val})
        *tensor = tensor->to(device);
      if (method == "cdt") data.sample_weights = torch::linspace(1, 2, 24, kDouble);
      TrainOptions options;
      options.method = method;
      options.steps = 30;
      TrainHooks hooks;
      SafeTensors last;
      hooks.checkpoint = [&](const SafeTensors& content) { last = content; };
      const auto result = Trainer(net, data, options).run(hooks);
      EXPECT_LT(result.train_loss, 0.9 * result.history.front().train_loss);
      Trainer(net, data, options).restore(last);
    }
  }
}

TEST(Guarded, RestoresParametersBitByBit) {
  // A network whose outputs explode when a parameter leaves its neighbourhood, so that first steps
  // are rejected; every pass notes the parameters it saw.
  nn::Mlp net = small_network(4, 1, 6);
  const auto start = test::parameters_of(net);
  const TrainData data = smooth_data(10, 1, 6);
  int at_start = 0;
  const auto forward = [&](const Tensor& x) {
    if (test::same_bits(test::parameters_of(net), start)) ++at_start;
    const double distance = (net->bias(0).detach() - start.back()).norm().item<double>();
    return net->forward(x) * std::exp(30 * distance);
  };
  TrainOptions options;
  options.steps = 1;
  options.learning_rate = 1e4;
  Trainer trainer(kernel::Model(forward, net->parameters()), data, options);
  const auto result = trainer.run();
  ASSERT_GT(result.rejected, 2);
  EXPECT_EQ(result.history[0].rejected, result.rejected);
  // The first pass, the kernel's own passes, and one after each rejected step.
  EXPECT_GE(at_start, 1 + result.rejected);
  EXPECT_LT(result.train_loss, result.history[0].train_loss);
  EXPECT_LT(result.history[0].learning_rate, 1e4);
}

TEST(Guarded, RecoversFromABlowUp) {
  // ŷ = exp(x·w) overflows after a long step: infinite losses are rejected like any other.
  const TrainData source = smooth_data(6, 1, 7);
  Tensor w = torch::zeros({4, 1}, kDouble).requires_grad_(true);
  TrainData data;
  data.x = source.x * 4;
  data.y = torch::exp(data.x.mm(torch::tensor({{1.0}, {-1.0}, {0.5}, {2.0}}, kDouble)));
  TrainOptions options;
  options.learning_rate = 1e5;
  options.stop_loss = 1e-12;
  options.steps = 200;
  const auto result =
      Trainer(kernel::Model([&](const Tensor& x) { return torch::exp(x.mm(w)); }, {w}), data,
              options)
          .run();
  expect_monotone(result);
  EXPECT_EQ(result.outcome, Outcome::kTarget) << result.in_words();
}

TEST(Guarded, TakesAnIrreducibleErrorForConvergence) {
  TrainData data = smooth_data(12, 1, 8, torch::kFloat32);
  data.x[11] = data.x[3];  // one input, labels 0.5 apart: at best their mean is learned
  data.y[11] = data.y[3] + 0.5;
  nn::Mlp net = small_network(4, 1, 2, torch::kFloat32);
  TrainOptions options;
  options.steps = 500;
  options.stop_loss = 1e-9;
  const auto result = Trainer(net, data, options).run();
  EXPECT_EQ(result.outcome, Outcome::kFloor);
  EXPECT_NEAR(result.train_loss, 2 * 0.25 * 0.25 / 12, 1e-7);
  EXPECT_LT(result.steps, 100);
  expect_monotone(result);
}

TEST(Guarded, StopsAtANetworkThatCannotMove) {
  Tensor w = torch::zeros({4, 1}, kDouble).requires_grad_(true);
  TrainData data = smooth_data(6, 1, 9);
  const auto result =
      Trainer(kernel::Model([&](const Tensor& x) { return x.mm(w * 0) + 1; }, {w}), data, {}).run();
  EXPECT_EQ(result.outcome, Outcome::kFloor);
  EXPECT_EQ(result.steps, 0);
}

TEST(Guarded, WithWeightDecayReachesTheRidgeSolution) {
  // A linear model with more features than samples: minimise ‖Xw − y‖²/n + ½d‖w‖² in closed form.
  torch::manual_seed(3);
  const int64_t n = 15;
  const double d = 0.02;
  TrainData data;
  data.x = torch::randn({n, 25}, kDouble);
  data.y = torch::randn({n, 1}, kDouble);
  const Tensor hessian = 2.0 / n * data.x.t().mm(data.x) + d * torch::eye(25, kDouble);
  const Tensor best = torch::linalg_solve(hessian, 2.0 / n * data.x.t().mm(data.y));
  Tensor w = torch::randn({25, 1}, kDouble).requires_grad_(true);
  TrainOptions options;
  options.weight_decay = d;
  options.steps = 300;
  const auto result =
      Trainer(kernel::Model([&](const Tensor& x) { return x.mm(w); }, {w}), data, options).run();
  EXPECT_EQ(result.outcome, Outcome::kFloor) << result.in_words();
  EXPECT_LE(relative_error(w, best), 1e-6);
}

TEST(Guarded, WithWeightDecayLowersTheWholeObjective) {
  const TrainData data = smooth_data(20, 1, 10);
  std::vector<double> objectives;
  for (const int64_t steps : {0, 1, 2, 4, 8, 16}) {
    nn::Mlp net = small_network(4, 1, 4);
    TrainOptions options;
    options.weight_decay = 1e-3;
    options.steps = steps;
    const auto result = Trainer(net, data, options).run();
    double square = 0;
    for (const Tensor& parameter : net->parameters())
      square += parameter.square().sum().item<double>();
    objectives.push_back(result.train_loss + 0.5e-3 * square);
  }
  for (size_t k = 1; k < objectives.size(); ++k) EXPECT_LE(objectives[k], objectives[k - 1]);
  EXPECT_LT(objectives.back(), 0.5 * objectives.front());
}

TEST(Weights, EqualOnesChangeNothing) {
  for (const Method method : {"cdt", "guarded"}) {
    std::vector<std::vector<Tensor>> ends;
    for (const bool weighted : {false, true}) {
      TrainData data = smooth_data(12, 2, 11);
      if (weighted) {
        data.sample_weights = torch::ones({12}, kDouble);
        data.output_weights = torch::ones({2}, kDouble);
      }
      nn::Mlp net = small_network(4, 2, 5);
      TrainOptions options;
      options.method = method;
      options.steps = 3;
      options.learning_rate = 2;
      Trainer(net, data, options).run();
      ends.push_back(test::parameters_of(net));
    }
    for (size_t i = 0; i < ends[0].size(); ++i) {
      EXPECT_LE(relative_error(ends[1][i], ends[0][i]), 1e-6) << to_string(method);
    }
  }
}

TEST(Weights, FavourWhatTheyWeigh) {
  const auto errors = [](bool weighted) {
    TrainData data = smooth_data(16, 1, 12);
    if (weighted) {
      data.sample_weights = torch::ones({16}, kDouble);
      data.sample_weights.narrow(0, 0, 4).fill_(100);
    }
    nn::Mlp net = small_network(4, 1, 6);
    TrainOptions options;
    options.method = "cdt";
    options.learning_rate = 0.3;
    options.steps = 60;
    Trainer(net, data, options).run();
    const torch::NoGradGuard no_graph;
    return (net->forward(data.x) - data.y).narrow(0, 0, 4).norm().item<double>();
  };
  EXPECT_LT(errors(true), 0.7 * errors(false));
}

TEST(Shaping, AsksLessOfSlowModes) {
  // Two errors of a network with steps 10⁻⁴ apart: shaped, the slow one is steered as by descent.
  const Tensor x = torch::diag(torch::tensor({1.0, 1e-2}, kDouble));
  const auto steered = [&](double shape) {
    const Tensor W = torch::ones({2, 1}, kDouble).requires_grad_();
    const kernel::Model model([W](const Tensor& at) { return at.matmul(W); }, {W});
    TrainData data;
    data.x = x;
    data.y = torch::zeros({2, 1}, kDouble);
    TrainOptions options;
    options.loss = loss::sse();
    options.learning_rate = 0.5;
    options.shape = shape;
    const auto setup = std::make_shared<train::Setup>(model, data, options, nullptr);
    const auto source = make_feedback_source(setup, {});
    const auto feedback = source->at(0, setup->forward(0), nullptr);
    feedback->design(0.5);
    return feedback->controller().steer(torch::ones({2}, kDouble));
  };
  const Tensor plain = steered(0);
  const Tensor shaped = steered(0.1);
  EXPECT_GT((plain - shaped)[1].item<double>(), 1.0);  // from 3.3 to nearly 1
  EXPECT_LT((plain - shaped)[0].item<double>(), 0.1);
  EXPECT_NEAR(shaped[1].item<double>(), std::sqrt(1 + 10 * 1e-4 / (1e-4 + 0.1)), 1e-3);
}

TEST(Shaping, GoesWithWeightsUnderAGuard) {
  TrainData data = smooth_data(16, 2, 12);
  data.sample_weights = torch::logspace(-1, 1, 16, 10, kDouble);
  TrainOptions options;
  options.shape = 0.1;
  options.steps = 20;
  const auto result = Trainer(small_network(4, 2, 6), data, options).run();
  for (size_t k = 1; k < result.history.size(); ++k) {
    EXPECT_LE(result.history[k].objective, result.history[k - 1].objective);
  }
  EXPECT_LT(result.objective, 0.1 * result.history[0].objective);
  options.method = "cdt";
  options.learning_rate = 0.1;
  nn::Mlp net = small_network(4, 2, 6);
  EXPECT_THROW(Trainer(net, data, options).run(), InvalidArgument);
}

TEST(Policies, RenewTheKernelWhenTheySay) {
  const auto run = [](const std::string& policy, Method method = "cdt") {
    nn::Mlp net = small_network(4, 1, 7);
    TrainOptions options;
    options.method = method;
    options.learning_rate = 2;
    options.steps = 40;
    options.relinearize = parse_relinearization(policy);
    return Trainer(net, smooth_data(16, 1, 13), options).run();
  };
  EXPECT_EQ(run("never").linearizations, 1);
  const auto every = run("every:15");
  EXPECT_EQ(every.linearizations, 3);
  EXPECT_EQ(every.history[15].refreshed, 1);
  EXPECT_EQ(every.history[30].refreshed, 1);
  const auto strict = run("error:0.001");
  const auto loose = run("error:0.3");
  EXPECT_GT(strict.linearizations, loose.linearizations);
  EXPECT_EQ(run("error:1e9").linearizations, 1);
  for (size_t k = 1; k + 1 < loose.history.size(); ++k) {
    const StepRecord& row = loose.history[k];
    EXPECT_FALSE(std::isnan(row.linearization_error));
  }
  EXPECT_EQ(run("never", "guarded").linearizations, 1);
}

TEST(Policies, KcWatchesTheExponentialBound) {
  // A linear model keeps its kernel: the bound holds to the end. A network at a high rate breaks
  // it.
  torch::manual_seed(5);
  TrainData data;
  data.x = torch::randn({8, 12}, kDouble);
  data.y = torch::randn({8, 1}, kDouble);
  Tensor w = torch::zeros({12, 1}, kDouble).requires_grad_(true);
  TrainOptions options;
  options.method = "cdt";
  options.steps = 50;
  options.relinearize = parse_relinearization("kc");
  const auto linear =
      Trainer(kernel::Model([&](const Tensor& x) { return x.mm(w); }, {w}), data, options).run();
  EXPECT_EQ(linear.linearizations, 1);
  options.learning_rate = 20;
  nn::Mlp net = small_network(4, 1, 7);
  EXPECT_GT(Trainer(net, smooth_data(16, 1, 13), options).run().linearizations, 1);
}

TEST(Policies, KcIsThePapersTrigger) {
  // The inequality of App. boundedness, written out with a brute-force Jacobian and the closed
  // loop's dense eigenvalues, must be broken first where the trainer renews its kernel.
  int renewed = 0, earlier = 0;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int64_t n = 8;
    const TrainData data = smooth_data(n, 1, seed);
    nn::Mlp net = small_network(4, 1, seed);
    const kernel::Model model(net);
    const Tensor theta0 = kernel::flatten(model, test::parameters_of(net));
    const Tensor y = data.y.reshape({-1});
    const Tensor y0 = net->forward(data.x).detach().reshape({-1});
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < n; ++i) {
      Tensor unit = torch::zeros({n}, kDouble);
      unit[i] = 1;
      rows.push_back(kernel::vector_jacobian_product(model, data.x, unit));
    }
    const Tensor J = torch::stack(rows);
    TrainOptions options;
    options.method = "cdt";
    options.learning_rate = 0.4 * n / torch::linalg_eigvalsh(J.mm(J.t())).max().item<double>();
    options.steps = 400;
    options.relinearize = parse_relinearization("kc");
    const Tensor S = *options.learning_rate * 2 / n * J.mm(J.t());
    const Tensor K =
        test::lqr_of(J.mm(J.t()), loss::step_scale(*options.learning_rate, loss::mse(), J.size(0)))
            .gain_matrix();
    const Tensor loop = torch::eye(n, kDouble) - S - S.mm(K);
    const double kappa = torch::linalg_eigvals(loop).abs().max().item<double>();
    const double h = kernel::hessian_norm(model, data.x).norm;
    std::vector<Tensor> path{theta0};
    TrainHooks hooks;
    hooks.on_step = [&](const StepRecord&) {
      path.push_back(kernel::flatten(model, test::parameters_of(net)));
    };
    const auto result = Trainer(net, data, options).run(hooks);
    const double start = (y0 - y).norm().item<double>();
    for (size_t k = 1; k + 1 < result.history.size(); ++k) {
      const Tensor moved = path[k] - theta0;
      const double local = (y0 + J.mv(moved) - y).norm().item<double>();
      const double allowed = std::pow(kappa, k) * start;
      const double lagrange = h / 2 * moved.square().sum().item<double>();
      const bool broken = local > allowed - lagrange + 1e-6 * start;
      ASSERT_EQ(result.history[k].refreshed, broken ? 1 : 0) << "step " << k;
      if (local > allowed) ++earlier;
      if (!broken) continue;
      ++renewed;
      break;
    }
  }
  EXPECT_GT(renewed, 0);
  EXPECT_EQ(earlier, 0) << "without the Lagrange term nothing would have been noticed";
}

TEST(Policies, TheLinearizationErrorIsTheTrueOne) {
  const TrainData data = smooth_data(10, 1, 14);
  nn::Mlp net = small_network(4, 1, 8);
  const kernel::Model model(net);
  const Tensor theta0 = kernel::flatten(model, test::parameters_of(net));
  const Tensor y0 = net->forward(data.x).detach().reshape({-1});
  // J₀ as a matrix, before training moves the parameters.
  std::vector<Tensor> columns;
  for (int64_t i = 0; i < 10; ++i) {
    Tensor unit = torch::zeros({10}, kDouble);
    unit[i] = 1;
    columns.push_back(kernel::vector_jacobian_product(model, data.x, unit));
  }
  const Tensor J = torch::stack(columns);
  TrainOptions options;
  options.method = "cdt";
  options.learning_rate = 0.5;
  options.steps = 7;
  options.linearization_error = true;
  auto result = Trainer(net, data, options).run();
  // The row of step 7 has no control, hence no error: compare with step 7 of a longer run.
  options.steps = 8;
  nn::Mlp again = small_network(4, 1, 8);
  result = Trainer(again, data, options).run();
  const Tensor moved = kernel::flatten(model, test::parameters_of(net)) - theta0;
  const Tensor y7 = net->forward(data.x).detach().reshape({-1});
  const double expected = (y7 - y0 - J.mv(moved)).norm().item<double>();
  EXPECT_GT(expected, 1e-6);
  EXPECT_NEAR(result.history[7].linearization_error, expected, 1e-9 * expected + 1e-14);
  EXPECT_EQ(result.history[0].linearization_error, 0);
}

}  // namespace
}  // namespace cdt::train
