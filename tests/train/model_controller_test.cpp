// The controller of somebody else's loop: sound as it comes, its drift, its diagnosis, its
// certificate.
#include <cdt/core/error.h>
#include <cdt/dynamics/loss_linearization.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/model_controller.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>

#include "support/compare.h"
#include "support/plants.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using loss::LossPtr;
using test::kDouble;
using test::relative_error;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

/// Takes plain steps of gradient descent, as a program of somebody else does; `change` may do
/// something else with the gradients. Returns the losses against the labels themselves.
template <class Labels>
std::vector<double> descend(nn::Mlp& net, const Tensor& x, const Tensor& y, LossPtr loss,
                            double rate, int steps, const Labels& labels, double momentum = 0) {
  std::vector<double> losses;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(rate).momentum(momentum));
  for (int k = 0; k < steps; ++k) {
    optimizer.zero_grad();
    const Tensor y_hat = net->forward(x);
    const Tensor target = labels(y_hat);
    const Tensor value =
        loss->classes() ? torch::cross_entropy_loss(y_hat, target) : torch::mse_loss(y_hat, target);
    value.backward();
    optimizer.step();
    losses.push_back(dynamics::output_loss(loss, net->forward(x).to(torch::kFloat64), y));
  }
  return losses;
}

TEST(ModelController, CrossEntropyIsSoundAsItComes) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    for (const double share : {0.5, 1.0, 8.0}) {  // of the largest rate of plain descent
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << share << " of the rate");
      const auto data = test::class_data(20, 3, seed, torch::kFloat32);
      nn::Mlp net = test::small_network(4, 3, seed, torch::kFloat32, 64);
      const auto ntk = kernel::empirical_ntk(net, data.x);
      const auto plant = control::Plant::of(ntk, loss::cross_entropy(), 1, data.y);
      const double rate = share * 2 * plant.unit_rate();
      ModelControllerOptions options;
      options.learning_rate = rate;
      options.loss = loss::cross_entropy();
      ModelController controller(net, data.x, data.y, options);
      const double start =
          dynamics::output_loss(loss::cross_entropy(), ntk.outputs.to(torch::kFloat64), data.y);
      const auto losses = descend(net, data.x, data.y, loss::cross_entropy(), rate, 150,
                                  [&](const Tensor& y_hat) { return controller.augment(y_hat); });
      // The smoothed labels' own loss is −ln(1 − 0.1·2/3) = 0.069.
      EXPECT_LT(losses.back(), 0.2 * start);
      EXPECT_GT(controller.refreshes(), 0);
      EXPECT_LE(controller.refreshes(), 150);
    }
  }
}

TEST(ModelController, DriftIsTheStepsDistanceFromTheLocalModel) {
  for (const LossPtr& loss : {loss::mse(), loss::sse(), loss::cross_entropy()}) {
    SCOPED_TRACE(to_string(loss));
    const bool classes = loss->classes();
    const auto data = classes ? test::class_data(12, 3, 2) : test::smooth_data(12, 2, 2);
    nn::Mlp net = test::small_network(4, data.y.size(1), 3);
    ModelControllerOptions options;
    options.learning_rate = loss == loss::sse() ? 0.01 : 0.3;
    options.loss = loss;
    options.refresh_above = test::kInfinity;
    ModelController controller(net, data.x, data.y, options);
    const Tensor before = net->forward(data.x).detach();
    const Tensor labels = controller.augment(before);
    EXPECT_FALSE(controller.drift());
    // By a Jacobian and autograd's gradient.
    const Tensor gradient = dynamics::loss_gradient(loss, before, labels).reshape({-1});
    const Tensor outputs = net->forward(data.x).reshape({-1});
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < outputs.size(0); ++i) {
      std::vector<Tensor> parts;
      for (const Tensor& part : torch::autograd::grad({outputs[i]}, net->parameters(), {},
                                                      /*retain_graph=*/true)) {
        parts.push_back(part.reshape({-1}));
      }
      rows.push_back(torch::cat(parts));
    }
    const Tensor J = torch::stack(rows);
    const Tensor step = J.t().mv(gradient);
    int64_t first = 0;
    {
      const torch::NoGradGuard no_graph;
      for (Tensor& parameter : net->parameters()) {
        const int64_t count = parameter.numel();
        parameter.sub_(options.learning_rate *
                       step.narrow(0, first, count).view(parameter.sizes()));
        first += count;
      }
    }
    const Tensor after = net->forward(data.x).detach();
    controller.augment(after);
    const Tensor taken = (after - before).reshape({-1});
    const double expected =
        ((taken + options.learning_rate * J.mv(step)).norm() / taken.norm()).item<double>();
    ASSERT_TRUE(controller.drift());
    EXPECT_GT(expected, 1e-4);
    EXPECT_NEAR(*controller.drift() / expected, 1, 1e-7);
    EXPECT_EQ(controller.refreshes(), 0);
    controller.refresh();
    EXPECT_EQ(controller.refreshes(), 1);
    EXPECT_LE(relative_error(controller.kernel(), kernel::empirical_ntk(net, data.x).theta), 1e-12);
  }
}

TEST(ModelController, IsTheControllerOfItsKernel) {
  const auto data = test::smooth_data(12, 2, 5);
  nn::Mlp net = test::small_network(4, 2, 6);
  const auto theta = kernel::empirical_ntk(net, data.x).theta;
  const int64_t n = theta.size(0);
  ModelControllerOptions options;
  options.learning_rate = 2;
  const double scale = loss::step_scale(2, options.loss, n);
  ModelController plain(net, data.x, data.y, options);
  const control::ModalController oracle(test::plant_of(theta, scale, torch::kFloat64),
                                        control::lqr(1, 0.1));
  const Tensor K = oracle.gain_matrix();
  EXPECT_LE(relative_error(plain.gain(), K), 1e-12);
  options.Q = torch::linspace(0.5, 3, n, kDouble);
  ModelController weighted(net, data.x, data.y, options);
  // What a certificate says, asked of the closed loop's eigenvalues.
  for (ModelController* each : {&plain, &weighted}) {
    const auto found = each->certificate();
    const Tensor I = torch::eye(n, kDouble);
    const Tensor S = scale * theta;
    const auto radius_at = [&](double growth) {
      const Tensor loop = I - growth * S.mm(I + each->gain());
      return torch::linalg_eigvals(loop).abs().max().item<double>();
    };
    EXPECT_LE(found.residual, 1e-9);
    EXPECT_LT(found.radius.value, 1);
    EXPECT_NEAR(found.radius.value, radius_at(1), 1e-9);
    EXPECT_LT(radius_at(0.999 * found.kernel_margin.value), 1);
    EXPECT_GT(radius_at(1.001 * found.kernel_margin.value), 1);
    EXPECT_EQ(found.radius.value, each->closed_loop_radius());
  }
  // Of classes the kernel that it is made for decides, too.
  const auto classes = test::class_data(12, 3, 4);
  nn::Mlp logits = test::small_network(4, 3, 4);
  ModelControllerOptions of_classes;
  of_classes.loss = loss::cross_entropy();
  of_classes.learning_rate = 5;
  ModelController third(logits, classes.x, classes.y, of_classes);
  const auto found = third.certificate();
  EXPECT_LE(found.residual, 1e-9);
  EXPECT_LT(found.radius.value, 1);
  EXPECT_GT(found.kernel_margin.value, 1);
}

TEST(ModelController, RenewsWhereTheStepWentElsewhere) {
  const auto data = test::smooth_data(30, 1, 1, torch::kFloat32);
  for (const bool renewed : {false, true}) {
    nn::Mlp net = test::small_network(4, 1, 1, torch::kFloat32, 64);
    ModelControllerOptions options;
    options.learning_rate = 4;
    if (renewed) options.refresh_above = 0.5;
    ModelController controller(net, data.x, data.y, options);
    const auto losses = descend(net, data.x, data.y, loss::mse(), options.learning_rate, 300,
                                [&](const Tensor& y_hat) { return controller.augment(y_hat); });
    const auto lost = [&] { controller.augment(torch::full({30, 1}, INFINITY)); };
    const auto says = [](const std::string& first, const std::string& second) {
      return ThrowsMessage<NumericalError>(AllOf(HasSubstr(first), HasSubstr(second)));
    };
    if (renewed) {
      EXPECT_LT(losses.back(), 1e-3);
      EXPECT_GT(controller.refreshes(), 0);
      EXPECT_THAT(lost, says("diverged at lr=4", "without momentum"));
    } else {
      EXPECT_EQ(controller.refreshes(), 0);
      EXPECT_THAT(lost, says("diverged at lr=4 after 0 refreshes", "refresh_above"));
    }
  }
}

TEST(ModelController, SaysThatTheLoopIsAnotherOne) {
  const auto data = test::smooth_data(30, 1, 1);
  nn::Mlp net = test::small_network(4, 1, 1);
  ModelControllerOptions options;
  options.learning_rate = 0.3;
  options.refresh_above = 0.5;
  ModelController controller(net, data.x, data.y, options);
  std::vector<std::string> warnings;
  descend(
      net, data.x, data.y, loss::mse(), options.learning_rate, 15,
      [&](const Tensor& y_hat) {
        const Tensor labels = controller.augment(y_hat);
        if (!controller.warning().empty()) warnings.push_back(controller.warning());
        return labels;
      },
      /*momentum=*/0.9);
  ASSERT_EQ(warnings.size(), 1U) << "once";
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("each of the last 10 steps"),
                                 HasSubstr("without momentum"), HasSubstr("in the order of x")));
}

TEST(ModelController, RefusesWhatItCannotSteer) {
  const auto data = test::smooth_data(6, 2, 1);
  nn::Mlp net = test::small_network(4, 2, 1);
  const auto with = [&](auto change) {
    ModelControllerOptions options;
    change(options);
    return [&, options] { ModelController(net, data.x, data.y, options); };
  };
  const auto refuses = [](const std::string& text) {
    return ThrowsMessage<InvalidArgument>(HasSubstr(text));
  };
  EXPECT_NO_THROW(with([](auto&) {})());
  EXPECT_THAT(with([](auto& o) { o.learning_rate = 0; }), refuses("learning_rate"));
  EXPECT_THAT(with([](auto& o) { o.p = -1; }), refuses("p"));
  EXPECT_THAT(with([](auto& o) { o.loss = loss::mae(); }), refuses("quadratic"));
  EXPECT_THAT(with([](auto& o) { o.smoothing = 0.1; }), refuses("smoothing belongs"));
  EXPECT_THAT(with([](auto& o) { o.refresh_above = -1; }), refuses("refresh_above"));
  ModelController controller(net, data.x, data.y, {});
  EXPECT_THAT(
      [&] {
        controller.augment(torch::zeros({5, 2}, kDouble));
      },
      refuses("12 numbers, got 10"));
  EXPECT_THAT(
      [&] {
        controller.augment(torch::full({6, 2}, NAN, kDouble));
      },
      ThrowsMessage<NumericalError>(HasSubstr("diverged")));
  EXPECT_THROW(ModelController(net, data.x, data.y.narrow(1, 0, 1), {}), InvalidArgument);
  // Inputs of another precision are the model's, as in training.
  nn::Mlp single = test::small_network(4, 2, 1, torch::kFloat32);
  EXPECT_NO_THROW(ModelController(single, data.x, data.y, {}));
}

}  // namespace
}  // namespace cdt::train
