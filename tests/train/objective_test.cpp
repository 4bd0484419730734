// What training lowers (Setup::whole, Pass::objective), beside the same sums written out.
#include <cdt/train/setup.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::kDouble;
using torch::Tensor;

double square_of(const nn::Mlp& net) {
  double sum = 0;
  for (const Tensor& p : net->parameters()) sum += p.detach().square().sum().item<double>();
  return sum;
}

TEST(Objective, WeighsSquaresAndAddsTheDecay) {
  nn::Mlp net = test::small_network(4, 2, 3);
  TrainData data = test::smooth_data(10, 2, 2);
  data.sample_weights = torch::linspace(0.5, 3, 10, kDouble);
  data.output_weights = torch::tensor({0.25, 4.0}, kDouble);
  TrainOptions options;
  options.weight_decay = 0.02;
  const train::Setup setup(kernel::Model(net), data, options, nullptr);
  const Tensor e = net->forward(data.x).detach() - data.y;
  const Tensor w = data.sample_weights.unsqueeze(1) * data.output_weights;
  const double decay = 0.01 * square_of(net);
  const Whole whole = setup.whole();
  EXPECT_NEAR(whole.loss, e.square().mean().item<double>(), 1e-12) << "the loss has no weights";
  EXPECT_NEAR(whole.objective, (w * e.square()).mean().item<double>() + decay, 1e-12);
  const Pass pass = setup.forward(int64_t{0});
  EXPECT_DOUBLE_EQ(pass.objective, whole.objective);
  const Pass some = setup.forward(torch::tensor({7, 2}));
  const Tensor rows = torch::tensor({7, 2});
  EXPECT_NEAR(some.objective, (w * e.square()).index_select(0, rows).mean().item<double>() + decay,
              1e-12);
}

TEST(Objective, OfClassesIsSmoothedAndTheLossIsNot) {
  nn::Mlp net = test::small_network(4, 3, 3);
  const TrainData data = test::class_data(12, 3, 2);
  TrainOptions options;
  options.loss = loss::cross_entropy();
  options.smoothing = 0.3;
  const train::Setup setup(kernel::Model(net), data, options, nullptr);
  const Tensor log_p = torch::log_softmax(net->forward(data.x).detach(), 1);
  const auto entropy = [&](const Tensor& y) { return -(y * log_p).sum(1).mean().item<double>(); };
  const Whole whole = setup.whole();
  EXPECT_NEAR(whole.loss, entropy(data.y), 1e-12);
  EXPECT_NEAR(whole.objective, entropy(0.7 * data.y + 0.1), 1e-12);
  EXPECT_NEAR(setup.loss_of(data.x, data.y), entropy(data.y), 1e-12);
}

TEST(Objective, NumbersThatWaitSayTheSame) {
  nn::Mlp net = test::small_network(4, 1, 3);
  TrainOptions options;
  options.weight_decay = 0.1;
  options.method = "gd";
  options.learning_rate = 0.1;
  options.loss = loss::huber(0.05);
  const train::Setup setup(kernel::Model(net), test::smooth_data(10, 1, 2), options, nullptr);
  const Tensor outputs = net->forward(setup.data.x).detach();
  const Tensor numbers = setup.numbers(outputs, setup.data.y, {});
  const Tensor read = numbers.contiguous();
  const Measured found =
      setup.measured({read.data_ptr<double>(), static_cast<size_t>(read.numel())}, setup.data.y);
  const double huber =
      torch::huber_loss(outputs, setup.data.y, at::Reduction::Mean, 0.05).item<double>();
  EXPECT_NEAR(found.found.loss, huber, 1e-12);
  EXPECT_NEAR(found.objective, huber + 0.05 * square_of(net), 1e-12);
}

}  // namespace
}  // namespace cdt::train
