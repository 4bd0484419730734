// The loop step by step, through an engine; default rates; what an exception leaves behind.
#include <cdt/core/error.h>
#include <cdt/kernel/linearization.h>
#include <cdt/train/loop/base_rate.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/memory.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::small_network;
using test::smooth_data;
using torch::Tensor;

using test::kDouble;

/// LibTorch's graph, counting.
class CountingEngine : public kernel::StepEngine {
 public:
  explicit CountingEngine(kernel::Model model) : graph_(std::move(model)) {}

  std::unique_ptr<kernel::StepPass> forward(const Tensor& x, kernel::StepUse use) override {
    ++passes;
    gradients += use == kernel::StepUse::kGradients ? 1 : 0;
    return graph_.forward(x, use);
  }
  Tensor evaluate(const Tensor& x) override {
    ++evaluations;
    return graph_.evaluate(x);
  }

  int64_t passes = 0;
  int64_t gradients = 0;
  int64_t evaluations = 0;

 private:
  kernel::GraphEngine graph_;
};

/// With a way of its own to the kernel.
class KernelEngine : public CountingEngine {
 public:
  explicit KernelEngine(const kernel::Model& model) : CountingEngine(model), model_(model) {}
  kernel::LinearizationPtr linearization(const Tensor& x) override {
    ++kernels;
    return kernel::linearize(model_, x);
  }

  int64_t kernels = 0;

 private:
  kernel::Model model_;
};

TEST(Step, AnEngineMayHaveItsOwnWayToTheKernel) {
  const TrainData data = smooth_data(16, 1, 2);
  TrainOptions options;
  options.steps = 6;
  nn::Mlp usual = small_network(4, 1, 2), own = small_network(4, 1, 2);
  const auto expected =
      Trainer(usual, data, options, std::make_shared<CountingEngine>(usual)).run();
  const auto engine = std::make_shared<KernelEngine>(own);
  const auto result = Trainer(own, data, options, engine).run();
  EXPECT_GT(result.linearizations, 0);
  EXPECT_EQ(engine->kernels, result.linearizations);
  EXPECT_EQ(result.train_loss, expected.train_loss);
}

TEST(Step, LooksAgainWhereOutputsMayHaveChanged) {
  nn::Mlp net = small_network(4, 1, 2);
  const auto engine = std::make_shared<CountingEngine>(net);
  Trainer trainer(net, smooth_data(16, 1, 2), TrainOptions(), engine);
  trainer.step();
  const int64_t before = engine->passes;
  const double judged = trainer.step().record.train_loss;  // by the pass that judged the first
  const int64_t usual = engine->passes - before;
  trainer.look_again();
  const auto again = trainer.step();
  EXPECT_GE(engine->passes - before - usual, 2) << "its own, and the one that judges the step";
  EXPECT_LT(again.record.train_loss, judged);
}

TEST(Step, AGuardedStepCostsNoFurtherPass) {
  for (const Method method : {"gd", "cdt", "guarded", "adam"}) {
    SCOPED_TRACE(to_string(method));
    const TrainData data = smooth_data(16, 1, 2);
    nn::Mlp net = small_network(4, 1, 2);
    const auto engine = std::make_shared<CountingEngine>(net);
    TrainOptions options;
    options.method = method;
    options.learning_rate = 0.05;
    options.steps = 10;
    const auto result = Trainer(net, data, options, engine).run();
    ASSERT_EQ(result.rejected, 0);
    EXPECT_EQ(engine->passes, 11) << "one a step, and one at the end";
    EXPECT_EQ(engine->evaluations, 11) << "of the validation samples";
    EXPECT_EQ(engine->gradients, method == "adam" ? 11 : 0);
  }
}

TEST(Step, StepsAreTheRun) {
  for (const Method method : {"gd", "cdt", "guarded", "lbfgs"}) {
    SCOPED_TRACE(to_string(method));
    TrainOptions options;
    options.method = method;
    options.steps = 7;
    options.batch = 6;
    nn::Mlp whole = small_network(4, 1, 3);
    const auto result = Trainer(whole, smooth_data(16, 1, 3), options).run();
    nn::Mlp stepped = small_network(4, 1, 3);
    Trainer trainer(stepped, smooth_data(16, 1, 3), options);
    for (int64_t k = 0; k < 7; ++k) {
      const StepResult done = trainer.step();
      ASSERT_FALSE(done.outcome);
      EXPECT_EQ(done.record.step, k);
      EXPECT_EQ(done.record.learning_rate, result.history[static_cast<size_t>(k)].learning_rate);
    }
    const StepResult last = trainer.step();
    ASSERT_TRUE(last.outcome);
    EXPECT_EQ(*last.outcome, Outcome::kSteps);
    EXPECT_EQ(last.record.train_loss, result.train_loss);
    EXPECT_TRUE(test::same_bits(test::parameters_of(stepped), test::parameters_of(whole)));
    // Looking again changes nothing, and the history has no row twice.
    EXPECT_EQ(*trainer.step().outcome, Outcome::kSteps);
    EXPECT_EQ(trainer.run().history.size(), 8U);
  }
}

TEST(Step, ACheckpointBetweenTwoStepsGoesOn) {
  TrainOptions options;
  options.steps = 9;
  nn::Mlp whole = small_network(4, 1, 4);
  Trainer(whole, smooth_data(16, 1, 4), options).run();
  nn::Mlp first = small_network(4, 1, 4);
  Trainer trainer(first, smooth_data(16, 1, 4), options);
  for (int k = 0; k < 4; ++k) trainer.step();
  const SafeTensors content = trainer.checkpoint();
  nn::Mlp second = small_network(4, 1, 77);
  Trainer resumed(second, smooth_data(16, 1, 4), options);
  resumed.restore(content);
  EXPECT_EQ(resumed.run().history.size(), 10U);
  EXPECT_TRUE(test::same_bits(test::parameters_of(second), test::parameters_of(whole)));
}

TEST(Step, AnErrorInTheLocalModelLeavesTheParametersAlone) {
  // The local model is evaluated at the parameters of the linearization.
  nn::Mlp net = small_network(4, 1, 6);
  const kernel::Model clean(net);
  bool armed = false;
  const kernel::Model fails(
      [&](const Tensor& x) {
        if (armed) throw NumericalError("out of memory, say");
        return net->forward(x);
      },
      net->parameters());
  TrainOptions options;
  options.method = "cdt";
  options.relinearize = parse_relinearization("error:0.5");
  Trainer trainer(fails, smooth_data(10, 1, 6), options,
                  std::make_shared<kernel::GraphEngine>(clean));
  for (int k = 0; k < 3; ++k) trainer.step();
  const auto before = test::parameters_of(net);
  armed = true;
  EXPECT_THROW(trainer.step(), NumericalError);
  EXPECT_TRUE(test::same_bits(test::parameters_of(net), before));
}

/// A symmetric matrix with these eigenvalues.
Tensor with_spectrum(const Tensor& values, uint64_t seed) {
  torch::manual_seed(seed);
  const Tensor V = std::get<0>(
      torch::linalg_qr(torch::randn({values.size(0), values.size(0)}, torch::kFloat64)));
  return (V * values).mm(V.t());
}

TEST(LargestEigenvalue, BySquaringIsThatOfTheSpectrum) {
  const Tensor falling = torch::pow(0.9, torch::arange(50, torch::kFloat64));
  const auto with_first = [&](std::vector<double> first) {
    Tensor values = falling.clone();
    for (size_t k = 0; k < first.size(); ++k) values[static_cast<int64_t>(k)] = first[k];
    return values;
  };
  const std::vector<std::pair<std::string, Tensor>> spectra{
      {"a gap", with_first({1e3})},
      {"none", falling},
      {"a second that 256 powers leave a trace of", with_first({1, 0.965})},
      {"a close second", with_first({1, 1 - 1e-4})},
      {"a closer one", with_first({1, 1 - 1e-9})},
      {"repeated", with_first({1, 1, 1})},
      {"flat", torch::ones({50}, torch::kFloat64)},
      {"one mode", torch::eye(50, torch::kFloat64)[0]},
      {"rounding below zero", with_first({1, 0, -1e-15})}};
  for (const auto& [name, values] : spectra) {
    for (const double scale : {1e-120, 1.0, 1e120}) {
      SCOPED_TRACE(testing::Message() << name << ", times " << scale);
      const Tensor matrix = with_spectrum(values * scale, 3);
      const double largest = values.max().item<double>() * scale;
      const double found = largest_eigenvalue_by_squaring(matrix);
      EXPECT_NEAR(found, largest, 1e-9 * largest);
      EXPECT_LE(found, largest * (1 + 1e-13));
      EXPECT_NEAR(found, largest_eigenvalue(matrix), 1e-9 * largest);
    }
  }
  EXPECT_EQ(largest_eigenvalue_by_squaring(torch::zeros({3, 3}, torch::kFloat64)), 0);
  EXPECT_EQ(largest_eigenvalue_by_squaring(torch::full({1, 1}, 7.0, torch::kFloat64)), 7);
  EXPECT_THROW(largest_eigenvalue_by_squaring(torch::full({2, 2}, NAN, torch::kFloat64)),
               InvalidArgument);
}

TEST(DefaultRate, ComesFromTheLargestEigenvalue) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const TrainData data = smooth_data(30, 2, seed);
    nn::Mlp net = small_network(4, 2, seed);
    const double largest =
        torch::linalg_eigvalsh(kernel::empirical_ntk(net, data.x).theta).max().item<double>();
    const double enough = 1 << 30, little = 60 * 60 * 8 - 1;  // the kernel does not fit
    EXPECT_NEAR(largest_kernel_eigenvalue(net, data.x, 60, static_cast<int64_t>(enough)), largest,
                1e-10 * largest);
    EXPECT_NEAR(largest_kernel_eigenvalue(net, data.x, 60, static_cast<int64_t>(little)), largest,
                1e-3 * largest);
  }
}

TEST(DefaultRate, OutputsThatSumToZeroHaveOne) {
  // Θ = XXᵀ ⊗ [1 −1; −1 1] takes ones to zero. Too many outputs for the kernel itself.
  torch::manual_seed(1);
  TrainData data;
  data.x = torch::randn({2001, 4}, kDouble);
  data.y = torch::zeros({2001, 2}, kDouble);
  Tensor w = torch::ones({4, 1}, kDouble).requires_grad_(true);
  TrainOptions options;
  options.method = "gd";
  options.steps = 1;
  const auto result = Trainer(kernel::Model(
                                  [&](const Tensor& x) {
                                    const Tensor z = x.mm(w);
                                    return torch::cat({z, -z}, 1);
                                  },
                                  {w}),
                              data, options)
                          .run();
  const double largest = 2 * torch::linalg_eigvalsh(data.x.t().mm(data.x)).max().item<double>();
  EXPECT_NEAR(result.learning_rate, 0.5 * 2001 / largest, 1e-2 * result.learning_rate);
}

TEST(DefaultRate, StaysWithinTheMemoryBudget) {
  // 800 samples of a network whose factors are wide: some 7 MB, and a kernel of 5 MB.
  nn::Mlp net = small_network(4, 1, 1, torch::kFloat32, 1000);
  const TrainData data = smooth_data(800, 1, 1, torch::kFloat32);
  const auto peak = [&](int64_t budget) {
    return test::peak_of([&] { largest_kernel_eigenvalue(net, data.x, data.y.numel(), budget); });
  };
  const int64_t kernel = 800 * 800 * 8;
  const int64_t besides = 16 * kernel::Model(net).parameter_count() + (4 << 20);
  for (const int64_t budget : {6 << 20, 4 << 20}) {  // with the kernel, and by its operator
    EXPECT_LE(peak(budget), (budget >= kernel ? kernel : 0) + budget + besides) << budget;
  }
}

TEST(Labels, OfOneOutputNeedNoColumn) {
  const auto end_of = [](bool column) {
    TrainData data = smooth_data(10, 1, 3);
    if (!column) {
      data.y = data.y.squeeze(1);
      data.y_val = data.y_val.squeeze(1);
    }
    nn::Mlp net = small_network(4, 1, 3);
    TrainOptions options;
    options.steps = 3;
    Trainer(net, data, options).run();
    return test::parameters_of(net);
  };
  EXPECT_TRUE(test::same_bits(end_of(true), end_of(false)));
}

TEST(Labels, ClassesMayBeNumbered) {
  const auto end_of = [](torch::ScalarType dtype, bool numbered) {
    TrainData data = test::class_data(12, 3, 3);
    for (Tensor* y : {&data.y, &data.y_val}) {
      if (numbered) *y = y->argmax(1);
      *y = y->to(dtype);
    }
    nn::Mlp net = small_network(4, 3, 3);
    TrainOptions options;
    options.loss = loss::cross_entropy();
    options.steps = 3;
    Trainer(net, data, options).run();
    return test::parameters_of(net);
  };
  const auto plain = end_of(torch::kFloat64, false);
  EXPECT_TRUE(test::same_bits(end_of(torch::kInt64, true), plain));
  EXPECT_TRUE(test::same_bits(end_of(torch::kUInt8, true), plain));
  EXPECT_TRUE(test::same_bits(end_of(torch::kInt64, false), plain)) << "what one_hot returns";
}

TEST(Labels, AMessageSaysWhatToWrite) {
  using loss::LossPtr;
  const auto refused = [](const Tensor& y, LossPtr loss, int64_t outputs) -> std::string {
    TrainData data = smooth_data(8, 1, 1);
    data.x_val = data.y_val = Tensor();
    data.y = y;
    nn::Mlp net = small_network(4, outputs, 1);
    TrainOptions options;
    options.loss = loss;
    try {
      const Trainer trainer(net, data, options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "was not refused";
  };
  using testing::HasSubstr;
  const Tensor classes = torch::arange(8) % 3;
  EXPECT_EQ(refused(classes, loss::cross_entropy(), 3), "was not refused");
  EXPECT_THAT(refused(classes, loss::mse(), 1), HasSubstr("y.to(float64)"));
  EXPECT_THAT(refused(classes.to(torch::kFloat64), loss::cross_entropy(), 3),
              HasSubstr("y.to(int64)"));
  EXPECT_THAT(refused(classes, loss::cross_entropy(), 2), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refused(classes - 1, loss::cross_entropy(), 3), HasSubstr("got -1"));
  EXPECT_THAT(refused(classes, loss::cross_entropy(), 1), HasSubstr("two classes or more"));
  EXPECT_THAT(refused(torch::ones({8}, kDouble), loss::mse(), 2), HasSubstr("[8, 2]"));
  EXPECT_THAT(refused(torch::ones({7}, kDouble), loss::mse(), 1), HasSubstr("[8, outputs]"));
  EXPECT_THAT(refused(Tensor(), loss::mse(), 1), HasSubstr("training labels"));
}

}  // namespace
}  // namespace cdt::train
