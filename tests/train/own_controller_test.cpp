// Controllers of one's own in training: derived, a gain, a function; under the guard and without,
// resumed.
#include <cdt/control/controller.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/model_controller.h>
#include <cdt/train/trainer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/problem.h"

namespace cdt::train {
namespace {

using control::Observation;
using control::Plant;
using torch::Tensor;

/// An integrator beside the error: LQI's form, with a state of its own.
class Integral : public control::Controller {
 public:
  using Controller::Controller;
  Tensor steer(const Observation& at) const override {
    return at.x + 0.05 * (sum_.defined() ? sum_ + at.x : at.x);
  }
  void took(const Observation& at) override { sum_ = sum_.defined() ? sum_ + at.x : at.x.clone(); }
  std::unique_ptr<control::Controller> redesigned(const Plant& plant) const override {
    auto next = std::make_unique<Integral>(*this);
    next->plant_ = plant;
    return next;
  }
  void fields(const Field& field) override { field("sum", sum_); }

 private:
  Tensor sum_;
};

TrainOptions with(Method method, control::ControllerFactory make, double rate = 0) {
  TrainOptions options;
  options.method = method;
  options.controller = std::move(make);
  if (rate > 0) options.learning_rate = rate;
  options.steps = 40;
  return options;
}

control::ControllerFactory integral() {
  return [](const Plant& plant) { return std::make_unique<Integral>(plant); };
}

TEST(OwnController, LqrAsOnesOwnIsTheUsualOne) {
  const TrainData data = test::smooth_data(16, 2, 3);
  const auto ours = [](const Plant& plant) { return control::design(plant); };
  const auto usual = test::small_network(4, 2, 5);
  const auto own = test::small_network(4, 2, 5);
  TrainOptions options;
  options.method = "cdt";
  options.learning_rate = 0.2;
  options.steps = 30;
  const TrainResult expected = Trainer(kernel::Model(usual), data, options).run();
  options.controller = ours;
  const TrainResult found = Trainer(kernel::Model(own), data, options).run();
  EXPECT_NEAR(found.train_loss, expected.train_loss, 1e-9 * expected.history[0].train_loss);
}

/// What a mode of step s is left with, by the formulas of the designs for q = 1, p = 0.1.
double left_by(const std::string& design, double s) {
  if (design == "descent") return 1 - s;
  if (design == "damped") return 1 / (1 + s * std::sqrt(11));
  double P = 0;  // value iteration
  for (int k = 0; k < 20000; ++k) P = 1 + (1 - s) * (1 - s) * P * 0.1 / (0.1 + s * s * P);
  return 0.1 * (1 - s) / (0.1 + s * s * P);
}

TEST(Designs, EachTrainsByItsNameAndIsWhatItPromises) {
  const TrainData data = test::smooth_data(10, 1, 3);
  for (const std::string& name : control::design_names()) {
    SCOPED_TRACE(name);
    const auto net = test::small_network(4, 1, 5);
    const kernel::Model model(net);
    TrainOptions options;
    options.method = "cdt";
    options.design = name;
    options.learning_rate = 0.2;
    options.steps = 30;
    Trainer trainer(model, data, options);
    const Tensor theta = kernel::empirical_ntk(model, data.x).theta;
    const control::Certificate promise = trainer.prepare(theta);
    double radius = 0;
    const Tensor steps = 0.2 * 2 / 10 * torch::linalg_eigvalsh(theta);
    for (int64_t i = 0; i < 10; ++i) {
      radius = std::max(radius, std::abs(left_by(name, steps[i].item<double>())));
    }
    EXPECT_NEAR(promise.radius.value, radius, 1e-7);
    const TrainResult found = trainer.run();
    EXPECT_EQ(found.controller.digest, promise.digest);
    EXPECT_LT(found.train_loss, found.history[0].train_loss);
    // The same design steers a loop of one's own.
    ModelControllerOptions loop;
    loop.learning_rate = 0.2;
    loop.design = name;
    const ModelController own(model, data.x, data.y, loop);
    EXPECT_EQ(own.certificate().controller, promise.controller);
  }
}

TEST(Designs, AreRefusedWhereTheyHaveNoPlace) {
  const auto refusal = [](const TrainOptions& options) -> std::string {
    try {
      require_valid(options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  TrainOptions options;
  options.design = "damped";
  EXPECT_THAT(refusal(options), testing::HasSubstr("controller damped belongs to the method cdt"));
  options.method = "cdt";
  EXPECT_EQ(refusal(options), "");
  options.design = "lqg";
  EXPECT_THAT(refusal(options), testing::HasSubstr("lqr, damped, descent, got 'lqg'"));
  options.design = "descent";
  options.shape = 0.1;
  EXPECT_THROW(
      Trainer(kernel::Model(test::small_network(4, 1, 5)), test::smooth_data(12, 1, 4), options)
          .run(),
      InvalidArgument);
}

TEST(OwnController, AGuardNeverRaisesTheLoss) {
  for (const bool classes : {false, true}) {
    const TrainData data = classes ? test::class_data(16, 3, 4) : test::smooth_data(16, 2, 4);
    for (const control::ControllerFactory& make :
         {integral(), control::ControllerFactory([](const Plant& plant) {
            // It pushes the wrong way: no step may be kept that raises the objective.
            return control::from_function(plant, [](const Tensor& x) { return 3 * x; });
          })}) {
      TrainOptions options = with("guarded", make);
      if (classes) options.loss = loss::cross_entropy();
      const auto net = test::small_network(4, classes ? 3 : 2, 5);
      const TrainResult found = Trainer(kernel::Model(net), data, options).run();
      for (size_t k = 1; k < found.history.size(); ++k) {
        EXPECT_LE(found.history[k].objective, found.history[k - 1].objective * (1 + 1e-12));
      }
    }
  }
}

TEST(OwnController, AnIntegratorLearnsAndResumesToTheSameBits) {
  const TrainData data = test::smooth_data(16, 2, 4);
  for (const Method method : {"cdt", "guarded"}) {
    const TrainOptions options = with(method, integral(), 0.3);
    const auto whole = test::small_network(4, 2, 5);
    const TrainResult expected = Trainer(kernel::Model(whole), data, options).run();
    EXPECT_LT(expected.train_loss, 0.5 * expected.history[0].train_loss);

    const auto half = test::small_network(4, 2, 5);
    Trainer first(kernel::Model(half), data, options);
    for (int k = 0; k < 7; ++k) first.step();
    const SafeTensors saved = first.checkpoint();
    const auto resumed = test::small_network(4, 2, 5);
    Trainer second(kernel::Model(resumed), data, options);
    second.restore(saved);
    const TrainResult found = second.run();
    EXPECT_EQ(found.train_loss, expected.train_loss);
    EXPECT_TRUE(test::same_bits(test::parameters_of(resumed), test::parameters_of(whole)));
  }
}

TEST(OwnController, WeightsScaleItsErrors) {
  TrainData data = test::smooth_data(12, 1, 4);
  data.sample_weights = torch::linspace(0.1, 2, 12, torch::kFloat64);
  const auto net = test::small_network(4, 1, 5);
  const TrainOptions options =
      with("guarded", [](const Plant& plant) { return control::design(plant); });
  const TrainResult found = Trainer(kernel::Model(net), data, options).run();
  EXPECT_LT(found.objective, 0.1 * found.history[0].objective);
}

TEST(OwnController, IsRefusedWhereItHasNoPlace) {
  const TrainData data = test::smooth_data(12, 1, 4);
  const auto refusal = [&](TrainOptions options) -> std::string {
    try {
      Trainer(kernel::Model(test::small_network(4, 1, 5)), data, options).run();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(with("adam", integral())), testing::HasSubstr("cdt and guarded"));
  TrainOptions decayed = with("guarded", integral());
  decayed.weight_decay = 0.1;
  EXPECT_THAT(refusal(decayed), testing::HasSubstr("weight decay"));
  EXPECT_THAT(refusal(with("cdt",
                           [](const Plant& plant) {
                             return control::from_gain(plant, torch::zeros({2, 2}));
                           })),
              testing::HasSubstr("gain"));
  EXPECT_THAT(refusal(with("cdt",
                           [](const Plant& plant) {
                             return control::from_function(plant,
                                                           [](const Tensor& e) { return e.sum(); });
                           })),
              testing::HasSubstr("must have shape"));
}

TEST(OwnController, AGainSteersALoopOfOnesOwn) {
  auto net = test::small_network(4, 1, 5);
  const TrainData data = test::smooth_data(10, 1, 4);
  ModelControllerOptions options;
  options.learning_rate = 0.1;
  options.controller = [](const Plant& plant) {
    return control::from_gain(plant, 0.5 * torch::eye(10, torch::kFloat64));
  };
  ModelController controller(kernel::Model(net), data.x, data.y, options);
  const Tensor y_hat = net->forward(data.x).detach();
  // y − K(ŷ − y)
  const Tensor expected = data.y - 0.5 * (y_hat - data.y);
  EXPECT_LT((controller.augment(y_hat) - expected).abs().max().item<double>(), 1e-14);
  // Descent with one and a half times the rate.
  const Tensor lambda = torch::linalg_eigvalsh(controller.kernel());
  const Tensor left = 1 - 1.5 * 0.1 * 2.0 / 10 * lambda;
  EXPECT_NEAR(controller.certificate().radius.value, left.abs().max().item<double>(), 1e-9);
}

}  // namespace
}  // namespace cdt::train
