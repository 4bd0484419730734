// Guarded steps by forms, of classes and with weights: the damped Gauss-Newton step of whatever is
// trained.
#include <cdt/core/error.h>
#include <cdt/train/forms/form_solver.h>
#include <cdt/train/loop/feedback.h>
#include <gmock/gmock.h>

#include <limits>

#include "train/form_problem.h"

namespace cdt::train {
namespace {

using loss::LossPtr;
using test::FormCase;
using test::kDouble;
using test::relative_error;
using test::small_network;
using testing::HasSubstr;
using torch::Tensor;

constexpr double kSmoothing = 0.1;
constexpr double kBoost = 3.3166247903554;  // √(1 + q/p) of the defaults, √11

std::string name_of(const FormCase& c) {
  return c10::str(to_string(c.loss), ", ", c.outputs, " outputs", c.weighted ? ", weights" : "");
}
const std::vector<FormCase> kGuardedCases{{loss::cross_entropy(), 2, false},
                                          {loss::cross_entropy(), 2, true},
                                          {loss::cross_entropy(), 3, false},
                                          {loss::cross_entropy(), 4, true},
                                          {loss::mse(), 2, true},
                                          {loss::mse(), 1, false}};

/// Classes have weights of samples, numbers of outputs as well.
TrainData data_of(const FormCase& c, int64_t samples, uint64_t seed,
                  torch::ScalarType dtype = torch::kFloat64) {
  const bool classes = c.loss->classes();
  TrainData data = classes ? test::class_data(samples, c.outputs, seed, dtype)
                           : test::smooth_data(samples, c.outputs, seed, dtype);
  if (!c.weighted) return data;
  data.sample_weights = torch::linspace(0.2, 3, samples, kDouble);
  if (!classes) data.output_weights = torch::linspace(0.5, 4, c.outputs, kDouble);
  return data;
}

/// What a guarded run minimizes, by dense matrices: JᵀHJ, Jᵀ(gradient in the outputs) and the sum
/// of losses itself, of numbers Σwe²/2.
struct Dense {
  Tensor H;  ///< [P, P]
  Tensor g;  ///< [P]
  double sum = 0;
  double c = 0;  ///< the objective is c times the sum

  Dense(const FormCase& setting, const kernel::Model& model, const TrainData& data,
        const Tensor& weights) {
    const int64_t r = data.x.size(0), outputs = data.y.size(1), P = model.parameter_count();
    const Tensor graph = model.forward(data.x);
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < graph.numel(); ++i) {
      rows.push_back(kernel::flatten(
          model, torch::autograd::grad({graph.reshape({-1})[i]}, model.parameters(), {},
                                       /*retain_graph=*/true)));
    }
    const Tensor J = torch::stack(rows).view({r, outputs, P}), z = graph.detach();
    H = torch::zeros({P, P}, kDouble);
    g = torch::zeros({P}, kDouble);
    const bool classes = setting.loss->classes();
    c = classes ? 1.0 / static_cast<double>(r) : 2.0 / static_cast<double>(r * outputs);
    for (int64_t i = 0; i < r; ++i) {
      const Tensor w = weights.view({r, outputs})[i];
      Tensor gradient = w * (z[i] - data.y[i]), hessian = torch::diag(w);
      if (classes) {
        const Tensor p = torch::softmax(z[i], 0);
        const Tensor y = (1 - kSmoothing) * data.y[i] + kSmoothing / static_cast<double>(outputs);
        gradient = w * (p - y);
        hessian = w[0] * (torch::diag(p) - torch::outer(p, p));
        sum += (w * y * (y.log() - p.log())).sum().item<double>();
      } else {
        sum += (w * (z[i] - data.y[i]).square()).sum().item<double>() / 2;
      }
      H += J[i].t().mm(hessian).mm(J[i]);
      g += J[i].t().mv(gradient);
    }
  }

  /// δ at a damping μ.
  Tensor step(double mu) const {
    return -torch::linalg_solve(H + mu * torch::eye(H.size(0), kDouble), g.unsqueeze(1),
                                /*left=*/true)
                .squeeze(1);
  }
  double largest() const { return torch::linalg_eigvalsh(H).max().item<double>(); }
};

Tensor weights_of(const TrainData& data) {
  Tensor weights = torch::ones_like(data.y);
  if (data.sample_weights.defined()) weights = weights * data.sample_weights.unsqueeze(1);
  if (data.output_weights.defined()) weights = weights * data.output_weights;
  return weights.reshape({-1});
}

Feedback feedback_of(Form form, const FormCase& c, const kernel::Model& model,
                     const TrainData& data, const Tensor& weights, int64_t sketch_rows) {
  const LossPtr loss = c.loss->classes() ? c.loss->smoothed(kSmoothing) : c.loss;
  RidgeOptions options = test::tight();
  options.sketch_rows = sketch_rows;
  const Residuals residuals = loss->residuals(model.forward(data.x).detach(), data.y, weights);
  const auto solver = make_form_solver([=, &model] {
    const auto how = linearization_for(form, options, model.dtype());
    return make_form(form, {kernel::linearize(model, data.x, how), residuals, {}}, options);
  });
  auto coordinates = residual_coordinates(residuals, loss, data.y, weights, alone());
  FeedbackOptions wanted;
  wanted.make = [solver](const control::Plant& plant) {
    return std::make_unique<control::SolveController>(
        plant, kBoost, [solver](const control::Plant&) { return solver; });
  };
  const auto plant = control::Plant::of_products(coordinates->size(), solver->largest().lower,
                                                 coordinates->plant(0));
  return {coordinates, plant, wanted};
}

Tensor delta_of(const Proposal& proposal, const kernel::Model& model, const Tensor& x) {
  if (proposal.delta.defined()) return proposal.delta;
  const Tensor outputs = model.forward(x);
  return -kernel::flatten(model, torch::autograd::grad({outputs}, model.parameters(),
                                                       {proposal.seed.view_as(outputs)}));
}

TEST(GuardedForms, TakeTheDampedGaussNewtonStep) {
  for (const FormCase& c : kGuardedCases) {
    for (const uint64_t seed : {1, 2}) {
      const TrainData data = data_of(c, 30, seed);
      nn::Mlp net = small_network(4, c.outputs, seed, torch::kFloat64, 5);
      const kernel::Model model(net);
      const Tensor outputs = net->forward(data.x).detach();
      const Dense dense(c, model, data, weights_of(data));
      for (const Form form : {"dual", "primal", "free", "sketch"}) {
        SCOPED_TRACE(testing::Message()
                     << name_of(c) << ", " << to_string(form) << ", seed " << seed);
        Feedback feedback =
            feedback_of(form, c, model, data, c.weighted ? weights_of(data) : Tensor(), 12);
        // Of a sketch and of products it is estimated.
        if (form == "dual" || form == "primal") {
          EXPECT_NEAR(feedback.unit_rate() * dense.c * dense.largest(), 1, 1e-9);
        }
        EXPECT_NEAR(feedback.merit(outputs), 2 * dense.sum, 1e-9 * dense.sum);
        for (const double damping : {1e-1, 1e-3, 1e-4}) {
          const double mu = damping * dense.largest();
          const double rate = 1 / (mu * dense.c * kBoost);
          feedback.design(rate);
          const Proposal whole = feedback.propose(outputs, rate);
          const Tensor wanted = dense.step(mu);
          EXPECT_LE(relative_error(delta_of(whole, model, data.x), wanted), 1e-8) << damping;
          EXPECT_EQ(whole.shrink, 0);
          // What the model of second order promises, of twice the sum.
          const auto model_of = [&](const Tensor& d) {
            return -(2 * dense.g.dot(d) + d.dot(dense.H.mv(d))).item<double>();
          };
          EXPECT_NEAR(whole.promise, model_of(wanted), 1e-7 * model_of(wanted)) << damping;
          // A schedule takes a part of the step.
          const Proposal half = feedback.propose(outputs, rate / 2);
          EXPECT_LE(relative_error(delta_of(half, model, data.x), wanted / 2), 1e-8);
          EXPECT_NEAR(half.promise, model_of(wanted / 2), 1e-7 * model_of(wanted));
        }
      }
    }
  }
}

TEST(GuardedForms, AWeightOfZeroIsNoRow) {
  for (const FormCase& c : kGuardedCases) {
    const TrainData data = data_of(c, 30, 3);
    nn::Mlp net = small_network(4, c.outputs, 3, torch::kFloat64, 5);
    const kernel::Model model(net);
    Tensor weights = weights_of(data).view({30, -1});
    weights.narrow(0, 7, 5).zero_();
    const auto others = [](const Tensor& all) {
      return torch::cat({all.narrow(0, 0, 7), all.narrow(0, 12, 18)});
    };
    TrainData rest = data;
    rest.x = others(data.x);
    rest.y = others(data.y);
    for (const Form form : {"dual", "primal", "free", "sketch"}) {
      SCOPED_TRACE(testing::Message() << name_of(c) << ", " << to_string(form));
      Feedback all = feedback_of(form, c, model, data, weights.reshape({-1}), 30);
      Feedback some = feedback_of(form, c, model, rest, others(weights).reshape({-1}), 25);
      const auto unit = [&](const Feedback& feedback, double rows) {
        return feedback.unit_rate() / rows;  // of a mean over all rows
      };
      EXPECT_NEAR(unit(all, 30), unit(some, 25), 1e-6 * unit(some, 25));
      all.design(1e3 * some.unit_rate() * 30 / 25);
      some.design(1e3 * some.unit_rate());
      const Tensor wanted =
          delta_of(some.propose(net->forward(rest.x).detach(), some.rate()), model, rest.x);
      const Proposal found = all.propose(net->forward(data.x).detach(), all.rate());
      EXPECT_LE(relative_error(delta_of(found, model, data.x), wanted), 1e-8);
    }
  }
}

TrainOptions options_of(const FormCase& c, Form form, int64_t steps) {
  TrainOptions options;
  options.loss = c.loss;
  options.form = form;
  options.steps = steps;
  if (form == "batch") options.batch = 16;
  return options;
}

/// A whole run's first step, at the rate that the guard came to.
TEST(GuardedForms, ARunTakesThatStep) {
  for (const FormCase& c : kGuardedCases) {
    const TrainData data = data_of(c, 40, 2);
    for (const Form form : {"dual", "primal", "sketch"}) {  // of all 40 rows
      SCOPED_TRACE(testing::Message() << name_of(c) << ", " << to_string(form));
      nn::Mlp net = small_network(4, c.outputs, 2, torch::kFloat64, 5);
      const kernel::Model model(net);
      const Dense dense(c, model, data, weights_of(data));
      const Tensor before = kernel::flatten(model, test::parameters_of(net));
      const TrainResult result = Trainer(net, data, options_of(c, form, 1)).run();
      EXPECT_EQ(result.form, to_string(form));
      EXPECT_EQ(result.form_why, "asked for");
      const double mu = 1 / (result.history[0].learning_rate * dense.c * kBoost);
      const Tensor moved = kernel::flatten(model, test::parameters_of(net)) - before;
      // The damping is down to 10⁻⁵ of the norm, and a sketch cancels that many digits.
      EXPECT_LE(relative_error(moved, dense.step(mu)), form == "sketch" ? 1e-6 : 1e-8);
      const double share = result.learning_rate * dense.c * dense.largest() / 1e4;
      EXPECT_NEAR(share, c.loss->classes() ? 0.01 : 1, 1e-6);
    }
  }
}

TEST(GuardedForms, NeverRaiseTheObjectiveAndLowerTheLoss) {
  for (const FormCase& c : kGuardedCases) {
    for (const Form form : {"dual", "primal", "free", "sketch", "batch"}) {
      for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
        SCOPED_TRACE(testing::Message() << name_of(c) << ", " << to_string(form) << ", " << dtype);
        const TrainData data = data_of(c, 60, 4, dtype);
        nn::Mlp net = small_network(4, c.outputs, 4, dtype, 8);
        const Tensor weights = weights_of(data).view_as(data.y);
        // Against labels as they are trained on, with their weights; recomputed.
        const auto objective = [&] {
          const Tensor z = net->forward(data.x).detach().to(torch::kFloat64);
          if (c.loss == loss::mse()) return (weights * (z - data.y).square()).mean().item<double>();
          const Tensor y = (1 - kSmoothing) * data.y + kSmoothing / static_cast<double>(c.outputs);
          return -(weights * y * torch::log_softmax(z, 1)).sum(1).mean().item<double>();
        };
        const double start = objective();
        const TrainResult result = Trainer(net, data, options_of(c, form, 21)).run();
        double before = std::numeric_limits<double>::infinity();
        for (const StepRecord& row : result.history) {
          if (std::isnan(row.objective)) continue;  // within an epoch
          EXPECT_LE(row.objective, before) << "step " << row.step;
          before = row.objective;
        }
        EXPECT_NEAR(result.objective, objective(), 1e-5 * start);
        EXPECT_LT(result.objective, 0.8 * start);
        EXPECT_LT(result.train_loss, 0.8 * result.history.front().train_loss);
      }
    }
  }
}

TEST(GuardedForms, FindWhereTheObjectiveIsLeast) {
  // Of a linear model without hidden layers the cross entropy is convex.
  const FormCase c{loss::cross_entropy(), 3, true};
  TrainData data = data_of(c, 80, 5);
  data.y = data.y.index_select(0, torch::randperm(80, torch::kInt64));  // no labels to fit
  for (const Form form : {"dual", "primal", "free", "sketch"}) {
    SCOPED_TRACE(to_string(form));
    nn::MlpOptions linear;
    linear.inputs = 4;
    linear.outputs = 3;
    nn::Mlp net(linear, 3, torch::kFloat64);
    const TrainResult result = Trainer(net, data, options_of(c, form, 100)).run();
    EXPECT_EQ(result.outcome, Outcome::kFloor);
    const kernel::Model model(net);
    const Dense dense(c, model, data, weights_of(data));
    EXPECT_LE(dense.g.norm().item<double>(), 1e-4 * dense.sum);
  }
}

/// Where rows contradict each other, and what is best with weights is worse without.
TEST(GuardedForms, LowerTheWeightedObjectiveThoughTheOtherRises) {
  for (const Form form : {"dual", "primal", "sketch", "batch"}) {
    SCOPED_TRACE(to_string(form));
    TrainData data = test::smooth_data(20, 1, 1);
    const Tensor y = data.y;
    data.x = torch::cat({data.x, data.x});
    data.y = torch::cat({y, y + 1});
    nn::Mlp net = small_network(4, 1, 1);
    const FormCase numbers{loss::mse(), 1, true};
    Trainer(net, data, options_of(numbers, "dual", 100)).run();
    const auto above = [&] {
      return (net->forward(data.x.narrow(0, 0, 20)).detach() - y).mean().item<double>();
    };
    EXPECT_NEAR(above(), 0.5, 1e-3);
    data.sample_weights =
        torch::cat({torch::full({20}, 49.0, kDouble), torch::ones({20}, kDouble)});
    TrainOptions options = options_of(numbers, form, form == "batch" ? 300 : 60);
    options.batch = form == "batch" ? 40 : 0;
    const TrainResult result = Trainer(net, data, options).run();
    EXPECT_NEAR(above(), 0.02, 1e-3);
    EXPECT_GT(result.train_loss, 0.4);  // from 0.25
    EXPECT_LT(result.rejected, 10);     // so it is the guard that lets them
  }
}

TEST(GuardedForms, ResumeToTheSameBits) {
  for (const FormCase& c : kGuardedCases) {
    for (const Form form : {"dual", "primal", "free", "sketch", "batch"}) {
      for (const int64_t stop : {2, 5}) {
        SCOPED_TRACE(testing::Message()
                     << name_of(c) << ", " << to_string(form) << ", step " << stop);
        const TrainData data = data_of(c, 50, 1, torch::kFloat32);
        const TrainOptions options = options_of(c, form, 8);
        nn::Mlp whole = small_network(4, c.outputs, 2, torch::kFloat32, 8);
        Trainer(whole, data, options).run();
        nn::Mlp net = small_network(4, c.outputs, 2, torch::kFloat32, 8);
        Trainer first(net, data, options);
        for (int64_t k = 0; k < stop; ++k) first.step();
        nn::Mlp other = small_network(4, c.outputs, 3, torch::kFloat32, 8);
        Trainer second(other, data, options);
        second.restore(first.checkpoint());
        second.run();
        EXPECT_TRUE(test::same_bits(test::parameters_of(other), test::parameters_of(whole)));
      }
    }
  }
}

TEST(GuardedForms, BeginWhereTheLastStepWasAccepted) {
  const FormCase c{loss::cross_entropy(), 3, false};
  nn::Mlp net = small_network(4, 3, 2, torch::kFloat64, 6);
  const kernel::Model model(net);
  const TrainData data = data_of(c, 40, 2);
  Trainer trainer(net, data, options_of(c, "primal", 10));
  double last = 0.005;
  int64_t rejected = 0;
  for (int k = 0; k < 10; ++k) {
    const double unit = 40 / Dense(c, model, data, weights_of(data)).largest();
    const StepResult done = trainer.step();
    const double share = done.record.learning_rate / (1e4 * unit);
    const double first = std::min(1.0, 2 * last);
    EXPECT_NEAR(share, first * std::pow(0.25, done.record.rejected), 1e-6 * share) << k;
    last = share;
    rejected += done.record.rejected;
  }
  EXPECT_GT(rejected, 0);
}

std::string refusal(const TrainData& data, const TrainOptions& options) {
  try {
    Trainer(small_network(4, data.y.size(1), 1), data, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(GuardedForms, SayWhatTheyGoWithout) {
  const FormCase c{loss::cross_entropy(), 3, true};
  const TrainData data = data_of(c, 20, 1);
  for (const Form form : {"dual", "primal", "free", "sketch", "batch"}) {
    SCOPED_TRACE(to_string(form));
    EXPECT_EQ(refusal(data, options_of(c, form, 5)), "");
    const auto with = [&](auto change) {
      TrainOptions options = options_of(c, form, 5);
      change(options);
      return refusal(data, options);
    };
    const auto words = HasSubstr("a form of guarded steps goes without lr, weight decay, shape");
    EXPECT_THAT(with([](auto& o) { o.learning_rate = 1; }), words);
    EXPECT_THAT(with([](auto& o) { o.weight_decay = 0.1; }), words);
    EXPECT_THAT(with([](auto& o) { o.linearization_error = true; }), words);
    EXPECT_THAT(with([](auto& o) { o.relinearize = parse_relinearization("every:3"); }), words);
    EXPECT_THAT(with([](auto& o) { o.shape = 0.1; }), HasSubstr("spectral shaping"));
    EXPECT_THAT(with([](auto& o) { o.loss = loss::mae(); }), HasSubstr("no curvature"));
    TrainData outputs = data;
    outputs.output_weights = torch::ones({3}, kDouble);
    EXPECT_THAT(refusal(outputs, options_of(c, form, 5)), HasSubstr("weights of outputs"));
  }
}

TEST(GuardedForms, AreChosenWhereAControllerHasTooManyModes) {
  const auto form_of = [](const FormCase& c, int64_t most_modes) {
    TrainOptions options = options_of(c, "auto", 1);
    options.most_modes = most_modes;
    const TrainResult result =
        Trainer(small_network(4, c.outputs, 1), data_of(c, 20, 1), options).run();
    EXPECT_EQ(result.form.empty(), result.form_why.empty());
    EXPECT_THAT(result.form_why, result.form.empty() ? HasSubstr("") : HasSubstr("residuals"));
    return result.form;
  };
  // Modes: 20 of two classes, 40 of three.
  for (const auto& [c, modes] : {std::pair{FormCase{loss::cross_entropy(), 2, false}, 20},
                                 std::pair{FormCase{loss::cross_entropy(), 3, false}, 40}}) {
    SCOPED_TRACE(testing::Message() << name_of(c));
    EXPECT_EQ(form_of(c, modes), "");
    EXPECT_EQ(form_of(c, modes - 1), "dual");
  }
  // With weights classes are solved, and numbers anyway.
  EXPECT_EQ(form_of({loss::cross_entropy(), 3, true}, 5000), "dual");
  EXPECT_EQ(form_of({loss::mse(), 2, false}, 5000), "dual");
  EXPECT_EQ(form_of({loss::mse(), 2, true}, 5000), "dual");
}

TEST(GuardedForms, TakeTheKernelOfAnEngine) {
  for (const FormCase& c : kGuardedCases) {
    SCOPED_TRACE(testing::Message() << name_of(c));
    const TrainData data = data_of(c, 20, 1);
    std::vector<Tensor> found;
    for (const bool own : {false, true}) {
      nn::Mlp net = small_network(4, c.outputs, 1, torch::kFloat64, 6);
      const kernel::Model model(net);
      std::shared_ptr<kernel::StepEngine> engine;
      if (own) engine = std::make_shared<test::OwnKernelEngine>(model);
      const Form form = own ? "primal" : "dual";
      const TrainResult result = Trainer(model, data, options_of(c, form, 2), engine).run();
      EXPECT_EQ(result.form, "dual");
      EXPECT_THAT(result.form_why, HasSubstr(own ? "engine" : "asked for"));
      found.push_back(net->forward(data.x).detach());
    }
    EXPECT_LE(relative_error(found[1], found[0]), 1e-8);
  }
}

TEST(GuardedForms, BatchesCountResiduals) {
  TrainOptions options = options_of({loss::cross_entropy(), 2, false}, "batch", 1);
  options.batch = 0;
  EXPECT_EQ(step_batches(options, 1700, 2).per_epoch(), 4);  // one a row of two classes
  EXPECT_EQ(step_batches(options, 1700, 5).per_epoch(), 17);
  options.loss = loss::mse();
  EXPECT_EQ(step_batches(options, 1700, 2).per_epoch(), 7);
}

}  // namespace
}  // namespace cdt::train
