// The forms of a step agree: with each other, and with the least squares problem that they solve.
#include <cdt/core/error.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/forms/ridge.h>
#include <gmock/gmock.h>

#include <limits>

#include "train/form_problem.h"

namespace cdt::train {
namespace {

using loss::LossPtr;
using test::FormCase;
using Case = test::FormProblem;
using test::kDouble;
using test::kFormCases;
using test::relative_error;
using test::tight;
using torch::Tensor;

TEST(Forms, AllSolveTheSameProblem) {
  for (const FormCase& setting : kFormCases) {
    for (const uint64_t seed : {1, 2, 3}) {
      // Fewer parameters than residuals, and more.
      for (const int64_t width : {3, 12}) {
        const Case c(setting.loss, 40, setting.outputs, seed, setting.weighted, width);
        RidgeOptions options = tight();
        options.sketch_rows = 15;
        const auto dual = make_form("dual", c.problem, options);
        const double mean = dual->mean_eigenvalue();
        for (const auto& [tau, mu] :
             {std::pair{10.0, 0.0}, std::pair{0.1, 0.4}, std::pair{1e-3, 0.0}}) {
          const Tensor wanted = c.least(tau * mean, mu * mean);
          const Tensor left = c.problem.residuals.e + c.rows().mv(wanted);
          for (const Form form : {"dual", "primal", "free", "sketch"}) {
            SCOPED_TRACE(testing::Message() << to_string(form) << ", " << to_string(setting.loss)
                                            << ", " << setting.outputs << " outputs, seed " << seed
                                            << ", width " << width << ", tau " << tau);
            const auto step = make_form(form, c.problem, options)->step(tau * mean, mu * mean);
            ASSERT_TRUE(step);
            EXPECT_LE(relative_error(c.delta(*step), wanted), 1e-8);
            EXPECT_LE(relative_error(step->residuals, left), 1e-8);
          }
        }
      }
    }
  }
}

TEST(Forms, ASketchOfAllRowsIsTheSolutionAtOnce) {
  for (const FormCase& setting : kFormCases) {
    const Case c(setting.loss, 30, setting.outputs, 4, setting.weighted, 8);
    RidgeOptions options;
    options.sketch_rows = 30;
    options.sketch_products = 1;
    const auto dual = make_form("dual", c.problem, options);
    const auto sketch = make_form("sketch", c.problem, options);
    const double mean = dual->mean_eigenvalue();
    EXPECT_NEAR(sketch->mean_eigenvalue(), mean, 1e-12 * mean);
    EXPECT_NEAR(sketch->largest_eigenvalue(), dual->largest_eigenvalue(),
                1e-9 * dual->largest_eigenvalue());
    for (const double tau : {10.0, 0.1, 1e-3}) {
      const auto a = dual->step(tau * mean, 0.5 * tau * mean);
      const auto b = sketch->step(tau * mean, 0.5 * tau * mean);
      EXPECT_LE(relative_error(b->delta, c.delta(*a)), 1e-8) << tau;
      EXPECT_LE(relative_error(b->residuals, a->residuals), 1e-8) << tau;
    }
  }
}

/// Truncated or not, the linearized objective falls from product to product, and what a step says
/// of its residuals is what J does.
TEST(Forms, EachProductLowersTheLinearizedObjective) {
  const Case c(loss::mse(), 60, 1, 5, false, 12);
  const double tau = 1e-2;
  const auto value = [&](const RidgeStep& step) {
    const Tensor moved = c.problem.displacement + step.delta;
    return step.residuals.square().sum().item<double>() + tau * moved.square().sum().item<double>();
  };
  const Tensor rows = c.rows();
  for (const Form form : {"free", "sketch"}) {
    double before = std::numeric_limits<double>::infinity();
    for (const int64_t products : {1, 2, 3, 5, 8, 13}) {
      RidgeOptions options = tight();
      options.products = options.sketch_products = products;
      options.sketch_rows = 20;
      const auto step = make_form(form, c.problem, options)->step(tau, 0);
      EXPECT_LE(relative_error(step->residuals, c.problem.residuals.e + rows.mv(step->delta)),
                1e-10);
      // At the end there is rounding alone.
      EXPECT_LE(value(*step), before * (1 + 1e-12)) << to_string(form) << ", " << products;
      before = value(*step);
    }
    const Tensor least = c.least(tau, 0);
    RidgeStep best;
    best.delta = least;
    best.residuals = c.problem.residuals.e + rows.mv(least);
    EXPECT_GE(before, value(best) * (1 - 1e-12));
  }
}

TEST(Forms, ProductsThatGainLittleAreNotTaken) {
  const Case c(loss::mse(), 60, 2, 5, true, 8);
  const double tau = 1e-3 * make_form("dual", c.problem, {})->mean_eigenvalue();
  RidgeOptions options = tight();
  const auto value = [&](const RidgeStep& step) {
    const Tensor moved = c.problem.displacement + step.delta;
    return step.residuals.square().sum().item<double>() + tau * moved.square().sum().item<double>();
  };
  const auto step_of = [&] { return *make_form("free", c.problem, options)->step(tau, 0); };
  options.products = 0;
  const double start = value(step_of());
  for (const double least : {0.2, 0.02, 0.002}) {
    options.least_gain = 0;
    double before = start;
    RidgeStep wanted;
    for (options.products = 1;; ++options.products) {  // to the first that gains less
      wanted = step_of();
      const double now = value(wanted);
      if (before - now < least * (start - now)) break;
      before = now;
      ASSERT_LT(options.products, 100);
    }
    EXPECT_GT(options.products, 1);
    options.products = 2000;
    options.least_gain = least;
    const RidgeStep found = step_of();
    EXPECT_TRUE(found.complete);
    EXPECT_TRUE(torch::equal(found.delta, wanted.delta)) << least;
  }
}

TEST(Forms, ASketchNeedsFewerProductsThanNone) {
  const Case c(loss::mse(), 300, 1, 6, false, 24);
  RidgeOptions options;
  options.products = options.sketch_products = 6;
  options.sketch_gain = 0;
  options.sketch_rows = 100;
  const double tau = 1e-2 * make_form("sketch", c.problem, options)->mean_eigenvalue();
  const Tensor wanted = c.least(tau, 0);
  const auto off = [&](Form form) {
    return relative_error(make_form(form, c.problem, options)->step(tau, 0)->delta, wanted);
  };
  EXPECT_LT(off("sketch"), 0.5 * off("free"));
}

TEST(Forms, EffectiveParametersAreTheSameInBoth) {
  const Case c(loss::mse(), 40, 2, 7, true, 6);
  const auto dual = make_form("dual", c.problem, {});
  const auto primal = make_form("primal", c.problem, {});
  const double mean = dual->mean_eigenvalue();
  EXPECT_NEAR(primal->mean_eigenvalue(), mean, 1e-12 * mean);
  for (const double tau : {10.0, 0.1, 1e-3}) {
    EXPECT_NEAR(primal->freedom(tau * mean), dual->freedom(tau * mean), 1e-8);
  }
  EXPECT_NEAR(primal->largest_eigenvalue(), dual->largest_eigenvalue(),
              1e-9 * dual->largest_eigenvalue());
}

TEST(Forms, PathsWalkTheSameWay) {
  for (const auto& [loss, outputs] :
       {std::pair{loss::mse(), 1}, std::pair{loss::cross_entropy(), 2}}) {
    const bool classes = loss->classes();
    const TrainData data =
        classes ? test::class_data(60, outputs, 3) : test::smooth_data(60, outputs, 3);
    std::vector<Tensor> outputs_of;
    for (const Form form : {"dual", "primal", "sketch"}) {
      nn::Mlp net = test::small_network(4, outputs, 5, torch::kFloat64, 10);
      TrainOptions options;
      options.method = "path";
      options.steps = 12;
      options.loss = loss;
      options.form = form;
      const TrainResult result = Trainer(net, data, options).run();
      EXPECT_EQ(result.form, to_string(form));
      EXPECT_EQ(result.form_why, "asked for");
      outputs_of.push_back(net->forward(data.x_val).detach());
    }
    // Sixty rows are a sketch of all of them. Twelve steps multiply differences of 1e-12 or so.
    EXPECT_LE(relative_error(outputs_of[1], outputs_of[0]), 1e-7);
    EXPECT_LE(relative_error(outputs_of[2], outputs_of[0]), 1e-7);
  }
}

TEST(Forms, ASketchOfSomeRowsTakesPointsFurtherApartAndShortensSteps) {
  const int64_t rows = kSketchResiduals + 500;
  const TrainData data = test::smooth_data(rows, 1, 3);
  nn::Mlp net = test::small_network(4, 1, 5, torch::kFloat64, 6);
  std::vector<Tensor> start;
  for (const Tensor& p : net->parameters()) start.push_back(p.detach().clone());
  TrainOptions options;
  options.method = "path";
  options.steps = 6;
  options.form = "sketch";
  options.path.start = 1e-6;  // hardly any decay: the first steps go too far
  const TrainResult result = Trainer(net, data, options).run();
  ASSERT_EQ(result.history.size(), 7U);
  EXPECT_GT(result.rejected, 0);
  for (size_t i = 1; i + 1 < result.history.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "point " << i);
    EXPECT_NEAR(result.history[i].decay / result.history[i - 1].decay, 0.6 * 0.6, 1e-12);
    EXPECT_LE(result.history[i].objective, result.history[i - 1].objective);
  }
  // What was accepted is what the network has: the objective, recomputed.
  const StepRecord& last = result.history[options.steps];
  const Tensor e = net->forward(data.x).detach() - data.y;
  EXPECT_NEAR(last.train_loss, e.square().mean().item<double>(), 1e-10 * last.train_loss);
  EXPECT_LT(last.train_loss, result.history[0].train_loss / 2);
}

TrainOptions guarded_by(Form form, int64_t steps) {
  TrainOptions options;
  options.steps = steps;
  options.form = form;
  return options;
}

TEST(Forms, TheRecordNamesTheOneThatAnEngineLeft) {
  const TrainData data = test::smooth_data(40, 2, 3);
  for (const bool own : {false, true}) {
    nn::Mlp net = test::small_network(4, 2, 9, torch::kFloat64, 8);
    const kernel::Model model(net);
    std::shared_ptr<kernel::StepEngine> engine = std::make_shared<kernel::GraphEngine>(model);
    if (own) engine = std::make_shared<test::OwnKernelEngine>(model);
    const TrainResult result = Trainer(model, data, guarded_by("primal", 2), engine).run();
    EXPECT_EQ(result.form, own ? "dual" : "primal");
    EXPECT_EQ(result.form_why.find("engine") != std::string::npos, own) << result.form_why;
  }
}

TEST(Forms, AKernelThatIsThereDoesNotReplaceTheOneAskedFor) {
  const TrainData data = test::smooth_data(40, 1, 3);
  std::vector<Tensor> found;
  for (const bool adopts : {false, true}) {
    nn::Mlp net = test::small_network(4, 1, 9, torch::kFloat64, 8);
    Trainer trainer(net, data, guarded_by("free", 3));
    // Not of this network: a step by it would be another.
    const auto n = data.y.numel();
    if (adopts) {
      const auto options = torch::TensorOptions().dtype(torch::kFloat64);
      trainer.adopt(dynamics::decompose(torch::eye(n, options), 1e-12), 0);
    }
    EXPECT_EQ(trainer.run().form, "free");
    found.push_back(net->forward(data.x).detach());
  }
  EXPECT_TRUE(torch::equal(found[0], found[1]));
}

TEST(FormSolver, GuardedStepsAreThoseOfTheKernel) {
  const TrainData data = test::smooth_data(40, 2, 3);
  std::vector<Tensor> found;
  for (const Form form : {"dual", "primal", "sketch"}) {
    nn::Mlp net = test::small_network(4, 2, 9, torch::kFloat64, 8);
    // One step: after that the kernel serves again, and the others linearize anew.
    const TrainResult result = Trainer(net, data, guarded_by(form, 1)).run();
    EXPECT_EQ(result.form, to_string(form));
    EXPECT_LT(result.train_loss, result.history.front().train_loss);
    found.push_back(net->forward(data.x_val).detach());
  }
  // The damping is 10⁻⁵ of the norm: that many digits fewer.
  EXPECT_LE(relative_error(found[1], found[0]), 1e-6);
  EXPECT_LE(relative_error(found[2], found[0]), 1e-6);
}

TEST(FormSolver, NeverRaisesTheObjectiveAndArrives) {
  for (const Form form : {"primal", "free", "sketch"}) {
    for (const uint64_t seed : {1, 2}) {
      SCOPED_TRACE(testing::Message() << to_string(form) << ", seed " << seed);
      const TrainData data = test::smooth_data(60, 1, seed, torch::kFloat32);
      nn::Mlp net = test::small_network(4, 1, seed, torch::kFloat32);
      TrainOptions options = guarded_by(form, 200);
      options.stop_loss = 1e-5;
      const TrainResult result = Trainer(net, data, options).run();
      EXPECT_EQ(result.outcome, Outcome::kTarget);
      for (size_t k = 1; k < result.history.size(); ++k) {
        EXPECT_LE(result.history[k].objective, result.history[k - 1].objective) << "step " << k;
      }
    }
  }
}

/// A small budget has no room for factors: products go by graphs, which writes to the parameters
/// invalidate.
TEST(FormSolver, GoesOnAfterARejectedStepWithoutFactors) {
  TrainData data = test::smooth_data(60, 1, 1, torch::kFloat32);
  data.y = data.y * 30;  // far away: the first step is too long
  nn::Mlp net = test::small_network(4, 1, 1, torch::kFloat32);
  TrainOptions options = guarded_by("free", 15);
  options.memory_bytes = 1 << 15;
  const TrainResult result = Trainer(net, data, options).run();
  EXPECT_GT(result.rejected, 0);
  EXPECT_LT(result.train_loss, 0.5 * result.history.front().train_loss);
}

TEST(FormSolver, SaysWhenOnlyErrorsOutOfReachAreLeft) {
  // Two rows with the same inputs and different labels, again and again.
  TrainData data = test::smooth_data(20, 1, 1);
  data.x = torch::cat({data.x, data.x});
  data.y = torch::cat({data.y, data.y + 1});
  nn::Mlp net = test::small_network(4, 1, 1);
  TrainOptions options = guarded_by("primal", 300);
  const TrainResult result = Trainer(net, data, options).run();
  EXPECT_EQ(result.outcome, Outcome::kFloor);
  EXPECT_NEAR(result.train_loss, 0.25, 1e-4);  // half apart from the mean
}

TEST(FormSolver, ResumesToTheSameBits) {
  for (const Method method : {"guarded", "path"}) {
    for (const Form form : {"primal", "free", "sketch"}) {
      SCOPED_TRACE(to_string(method) + " by " + to_string(form));
      const TrainData data = test::smooth_data(50, 1, 1, torch::kFloat32);
      TrainOptions options = guarded_by(form, 6);
      options.method = method;
      nn::Mlp whole = test::small_network(4, 1, 2, torch::kFloat32);
      Trainer(whole, data, options).run();
      nn::Mlp net = test::small_network(4, 1, 2, torch::kFloat32);
      Trainer first(net, data, options);
      for (int k = 0; k < 3; ++k) first.step();
      const SafeTensors saved = first.checkpoint();
      nn::Mlp other = test::small_network(4, 1, 2, torch::kFloat32);
      Trainer second(other, data, options);
      second.restore(saved);
      second.run();
      EXPECT_TRUE(torch::equal(other->forward(data.x), whole->forward(data.x)));
    }
  }
}

FormSizes sizes_of(int64_t samples, int64_t parameters, int64_t width) {
  FormSizes sizes;
  sizes.samples = samples;
  sizes.parameters = parameters;
  sizes.width = width;
  return sizes;
}

TEST(FormChoice, CountsOperationsAndMemory) {
  EXPECT_EQ(choose_form("auto", sizes_of(2000, 90000, 1200)).form, "dual");
  EXPECT_EQ(choose_form("auto", sizes_of(43000, 90000, 1200)).form, "sketch");
  EXPECT_EQ(choose_form("auto", sizes_of(43000, 500, 60)).form, "primal");
  FormSizes classes = sizes_of(500, 90000, 1200);
  classes.outputs = classes.per_sample = 11;
  classes.one_row_kernel = false;
  EXPECT_EQ(choose_form("auto", classes).form, "free");
  FormSizes tight = sizes_of(4000, 90000, 1200);
  tight.memory_bytes = int64_t{150} << 20;  // three matrices of 4000² take 366 MB, of 2000² 92
  EXPECT_EQ(choose_form("auto", tight).form, "sketch");
  tight.memory_bytes = int64_t{50} << 20;
  EXPECT_EQ(choose_form("auto", tight).form, "free");
}

TEST(FormChoice, SaysWhyAndRefusesWhatDoesNotFit) {
  const FormChoice choice = choose_form("auto", sizes_of(43000, 90000, 1200));
  EXPECT_THAT(choice.why, testing::HasSubstr("43000 residuals"));
  EXPECT_EQ(choice.sketch_rows, kSketchResiduals);
  EXPECT_EQ(choose_form("free", sizes_of(100, 10, 10)).form, "free");
  try {
    choose_form("primal", sizes_of(43000, 90000, 1200));
    FAIL() << "a matrix of 90000² fits nowhere";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("form primal needs 1.94e+05 MB"));
  }
  EXPECT_THROW(Form("duals"), InvalidArgument);
}

TEST(FormChoice, AFormIsOfStepsThatSolveSomething) {
  TrainOptions options;
  options.form = "sketch";
  EXPECT_NO_THROW(require_valid(options));
  options.learning_rate = 1;
  EXPECT_THROW(require_valid(options), InvalidArgument);
  options.learning_rate.reset();
  options.method = "adam";
  EXPECT_THROW(require_valid(options), InvalidArgument);
}

}  // namespace
}  // namespace cdt::train
