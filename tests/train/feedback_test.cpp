// One feedback between controllers and networks, beside a linear network whose every step is known:
// in each of the coordinates, with weights and weight decay, steered and solved.
#include <cdt/control/apply/solve.h>
#include <cdt/control/riccati.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/loop/feedback_source.h>
#include <cdt/train/trainer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using control::Plant;
using test::kDouble;
using torch::Tensor;

constexpr double kLoopSmoothing = 0.1;

enum class LoopKind { kErrors, kWeighted, kClasses, kWeightedClasses };

struct LoopCase {
  LoopKind kind;
  double decay = 0;
  bool solved = false;

  bool classes() const { return kind == LoopKind::kClasses || kind == LoopKind::kWeightedClasses; }
  bool weighted() const {
    return kind == LoopKind::kWeighted || kind == LoopKind::kWeightedClasses;
  }
  friend std::ostream& operator<<(std::ostream& out, const LoopCase& c) {
    return out << (c.classes() ? "Classes" : "Errors") << (c.weighted() ? "Weighted" : "")
               << (c.decay > 0 ? "Decayed" : "") << (c.solved ? "Solved" : "");
  }
};

/// ŷ = xW: a network that is its own linearization.
struct LinearProblem {
  static constexpr int64_t kRows = 7, kFeatures = 5;
  int64_t outputs;
  Tensor x, W, y, weights;
  kernel::Model model;
  loss::LossPtr loss;

  explicit LinearProblem(const LoopCase& c)
      : outputs(c.classes() ? 3 : 2),
        x(torch::randn({kRows, kFeatures}, kDouble)),
        W(torch::randn({kFeatures, outputs}, kDouble).requires_grad_()),
        y(c.classes() ? torch::one_hot(torch::randint(0, 3, {kRows}), 3).to(torch::kFloat64)
                      : torch::randn({kRows, outputs}, kDouble)),
        model([this](const Tensor& at) { return at.matmul(W); }, {W}),
        loss(c.classes() ? loss::cross_entropy(kLoopSmoothing) : loss::mse()) {
    if (c.weighted()) {
      const Tensor rows = torch::logspace(-1, 1, kRows, 10, kDouble).unsqueeze(1);
      weights = (rows * (c.classes() ? torch::ones({outputs}, kDouble)
                                     : torch::linspace(0.5, 2, outputs, kDouble)))
                    .reshape({-1});
    }
  }
  Tensor outputs_now() const { return x.matmul(W.detach()); }
  Tensor theta() const { return kernel::empirical_ntk(model, x).theta; }
  /// Σ w ℓ·c by the loss itself, and its gradient.
  double objective(const Tensor& at) const { return loss::assess(*loss, at, y, weights).objective; }
  Tensor gradient(const Tensor& at) const {
    const Tensor g = loss->gradient(at, y).reshape({-1});
    return weights.defined() ? g * weights : g;
  }
  CoordinatesPtr coordinates(const LoopCase& c) const {
    if (!c.classes()) {
      return error_coordinates(y.reshape({-1}), c.weighted() ? weights.sqrt() : Tensor(),
                               loss::gradient_factor(loss, y.numel()));
    }
    return class_coordinates(
        loss::class_coordinates_at(outputs_now(), y, kLoopSmoothing),
        c.weighted() ? weights.view({kRows, outputs}).select(1, 0).contiguous() : Tensor());
  }
  Feedback feedback(const LoopCase& c) const {
    const CoordinatesPtr coordinates = this->coordinates(c);
    const Tensor M = coordinates->kernel(theta());
    const double least = coordinates->rank_tolerance(torch::kFloat64);
    FeedbackOptions options;
    if (c.solved) {
      options.make = [](const Plant& plant) {
        return std::make_unique<control::SolveController>(plant, std::sqrt(11.0));
      };
      return {coordinates, Plant::of_kernel(M, least, coordinates->plant(0)), options};
    }
    options.make = [](const Plant& plant) { return control::design(plant); };
    options.decay = {c.decay, model, [this] { return x; }};
    return {coordinates,
            Plant::of_modes(dynamics::decompose(M, least), coordinates->plant(c.decay)), options};
  }
};

class FeedbackCase : public testing::TestWithParam<LoopCase> {
 protected:
  FeedbackCase() { torch::manual_seed(3); }
};

/// T, column by column.
Tensor columns_of(int64_t columns, const std::function<Tensor(const Tensor&)>& map) {
  const Tensor units = torch::eye(columns, kDouble);
  std::vector<Tensor> images;
  for (int64_t j = 0; j < columns; ++j) images.push_back(map(units[j]));
  return torch::stack(images, 1);
}

TEST_P(FeedbackCase, CoordinatesAreLinearAndCarryTheGradient) {
  const LinearProblem problem(GetParam());
  const CoordinatesPtr coordinates = problem.coordinates(GetParam());
  const Tensor here = problem.outputs_now();
  const Tensor T = columns_of(here.numel(), [&](const Tensor& v) { return coordinates->moved(v); });
  const Tensor Tt =
      columns_of(coordinates->size(), [&](const Tensor& v) { return coordinates->seed(v); });
  EXPECT_LE(test::relative_error(Tt, T.t()), 1e-12);
  EXPECT_LE(
      test::relative_error(coordinates->kernel(problem.theta()), T.mm(problem.theta()).mm(T.t())),
      1e-12);
  const Tensor change = torch::randn_like(here);
  const Tensor x = coordinates->state(here);
  EXPECT_LE(test::relative_error(coordinates->state(here + change) - x, T.mv(change.reshape({-1}))),
            1e-12);
  EXPECT_LE(torch::linalg_svdvals(T).max().item<double>(), coordinates->sensitivity() + 1e-12);
  // Descent on x itself is that of the loss, at the linearization.
  EXPECT_LE(test::relative_error(coordinates->step_seed(x, 0.3), 0.3 * problem.gradient(here)),
            1e-9);
  // The loss above its minimum, anywhere.
  const double lowest = problem.objective(here) - coordinates->loss(x);
  EXPECT_NEAR(problem.objective(here + change) - coordinates->loss(x + T.mv(change.reshape({-1}))),
              lowest, 1e-12);
}

TEST_P(FeedbackCase, AStepLeavesWhatItPromises) {
  const LoopCase c = GetParam();
  for (const double rate : {0.1, 10.0, 1e4}) {
    LinearProblem problem(c);
    Feedback feedback = problem.feedback(c);
    feedback.design(rate * feedback.unit_rate());
    for (const double share : {1.0, 0.3}) {
      SCOPED_TRACE(testing::Message() << "rate " << rate << ", share " << share);
      const Tensor before = problem.W.detach().clone();
      const Proposal proposal = feedback.propose(problem.outputs_now(), share * feedback.rate());
      const Tensor moved =
          (1 - proposal.shrink) * before -
          problem.x.t().mm(proposal.seed.view({LinearProblem::kRows, problem.outputs}));
      const Tensor after = problem.x.matmul(moved);
      // θ⊥ has no part in the outputs: the linear network does what the local model says.
      EXPECT_NEAR(feedback.merit(after), proposal.left,
                  1e-9 * feedback.merit(problem.outputs_now()));
    }
  }
}

TEST_P(FeedbackCase, TheStepIsThatOfTheDenseProblem) {
  const LoopCase c = GetParam();
  if (c.decay > 0) return;
  const LinearProblem problem(c);
  const CoordinatesPtr coordinates = problem.coordinates(c);
  const Tensor here = problem.outputs_now();
  const Tensor x = coordinates->state(here);
  Feedback feedback = problem.feedback(c);
  const double rate = 3 * feedback.unit_rate();
  feedback.design(rate);
  const Plant& plant = feedback.controller().plant();
  const int64_t n = x.numel();
  Tensor v;
  if (c.solved) {
    const double mu = 1 / (plant.step_scale() * std::sqrt(11.0));
    const Tensor shifted = plant.matrix() + mu * torch::eye(n, kDouble);
    v = std::get<0>(torch::linalg_solve_ex(shifted, x.unsqueeze(1))).squeeze(1) /
        plant.step_scale();
  } else {  // Riccati's equation on what labels reach
    const Tensor V = plant.modes().reachable_vectors();
    const Tensor S = plant.step_scale() * V.t().mm(plant.matrix()).mm(V);
    const Tensor one = torch::eye(S.size(0), kDouble);
    const auto solved = control::solve_riccati(one - S, S, one, 0.1 * one);
    const Tensor modal = V.t().mv(x);
    v = V.mv(modal + solved.K.mv(modal));
  }
  const Tensor wanted = problem.theta().mv(coordinates->step_seed(v, rate));
  const Tensor found = problem.theta().mv(feedback.propose(here, rate).seed);
  EXPECT_LE(test::relative_error(found, wanted), 1e-8);
  // Algorithm 1 takes the same, without the rate.
  EXPECT_LE(test::relative_error(problem.theta().mv(feedback.steer(here).seed) * rate, wanted),
            1e-8);
  EXPECT_NEAR(feedback.steer(here).augment().norm().item<double>(),
              feedback.propose(here, rate).augment_norm, 1e-9 * x.norm().item<double>() * n);
}

TEST_P(FeedbackCase, SettledIsWhereNoLabelMovesAnything) {
  const LoopCase c = GetParam();
  const LinearProblem problem(c);
  Feedback feedback = problem.feedback(c);
  feedback.design(feedback.unit_rate());
  EXPECT_EQ(feedback.settled(problem.outputs_now(), 0), c.decay > 0);
  EXPECT_TRUE(feedback.settled(problem.outputs_now(), 1e6));
}

INSTANTIATE_TEST_SUITE_P(
    All, FeedbackCase,
    testing::Values(LoopCase{LoopKind::kErrors}, LoopCase{LoopKind::kWeighted},
                    LoopCase{LoopKind::kClasses}, LoopCase{LoopKind::kWeightedClasses},
                    LoopCase{LoopKind::kErrors, 0.05}, LoopCase{LoopKind::kWeighted, 0.05},
                    LoopCase{LoopKind::kClasses, 0.05}, LoopCase{LoopKind::kWeightedClasses, 0.05},
                    LoopCase{LoopKind::kErrors, 0, true}, LoopCase{LoopKind::kWeighted, 0, true}),
    testing::PrintToStringParamName());

// With decay the objective of a linear network is quadratic: at its least nothing moves, whatever
// the rate.
TEST(DecayedFeedback, RestsWhereTheObjectiveIsLeast) {
  for (const LoopKind kind : {LoopKind::kErrors, LoopKind::kWeighted}) {
    torch::manual_seed(5);
    const LoopCase c{kind, 0.2};
    LinearProblem problem(c);
    const double factor = loss::gradient_factor(problem.loss, problem.y.numel());
    const Tensor w = c.weighted() ? problem.weights : torch::ones({problem.y.numel()}, kDouble);
    const Tensor J = torch::kron(problem.x, torch::eye(problem.outputs, kDouble));
    const Tensor A =
        factor * J.t().mm(w.unsqueeze(1) * J) + c.decay * torch::eye(J.size(1), kDouble);
    const Tensor best = std::get<0>(
        torch::linalg_solve_ex(A, (factor * J.t().mv(w * problem.y.reshape({-1}))).unsqueeze(1)));
    {
      const torch::NoGradGuard no_graph;
      problem.W.copy_(best.view_as(problem.W));
    }
    Feedback feedback = problem.feedback(c);
    for (const double rate : {0.5, 1e3}) {
      feedback.design(rate * feedback.unit_rate());
      const Proposal proposal = feedback.propose(problem.outputs_now(), feedback.rate());
      const Tensor moved = (1 - proposal.shrink) * problem.W.detach() -
                           problem.x.t().mm(proposal.seed.view(problem.y.sizes()));
      EXPECT_LE(test::relative_error(moved, problem.W), 1e-9) << rate;
    }
  }
}

TEST(ResidualCoordinates, AreTheGaussNewtonProblemOfTheLoss) {
  torch::manual_seed(4);
  const LinearProblem problem({LoopKind::kWeightedClasses});
  const Tensor here = problem.outputs_now();
  const auto residuals = problem.loss->residuals(here, problem.y, problem.weights);
  const CoordinatesPtr coordinates =
      residual_coordinates(residuals, problem.loss, problem.y, problem.weights, alone());
  EXPECT_LE(test::relative_error(coordinates->step_seed(coordinates->state(here), 0.7),
                                 0.7 * problem.gradient(here)),
            1e-9);
  const Tensor T = columns_of(here.numel(), [&](const Tensor& v) { return coordinates->moved(v); });
  EXPECT_LE(
      test::relative_error(coordinates->kernel(problem.theta()), T.mm(problem.theta()).mm(T.t())),
      1e-12);
  const Tensor there = here + torch::randn_like(here);
  EXPECT_NEAR(
      (*coordinates->watched(here) - *coordinates->watched(there)) / 2 / LinearProblem::kRows,
      problem.objective(here) - problem.objective(there), 1e-12);
}

TEST(ClassCoordinates, ASampleOfNoWeightIsNone) {
  torch::manual_seed(4);
  LinearProblem problem({LoopKind::kWeightedClasses});
  problem.weights = problem.weights.clone();
  problem.weights.narrow(0, 0, 3).zero_();
  const CoordinatesPtr coordinates = problem.coordinates({LoopKind::kWeightedClasses});
  const Tensor here = problem.outputs_now();
  Tensor there = here.clone();
  there[0] += torch::randn({3}, kDouble);
  const Tensor x = coordinates->state(there);
  EXPECT_TRUE(x.equal(coordinates->state(here)));
  EXPECT_TRUE(std::isfinite(coordinates->loss(x)));
  EXPECT_EQ(coordinates->step_seed(x, 1).narrow(0, 0, 3).abs().max().item<double>(), 0);
}

TEST(ClassCoordinates, OutputsThatAreNotFiniteHaveNoLoss) {
  torch::manual_seed(4);
  const LinearProblem problem({LoopKind::kClasses});
  Feedback feedback = problem.feedback({LoopKind::kClasses});
  feedback.design(1);
  Tensor outputs = problem.outputs_now();
  outputs[0][0] = test::kInfinity;
  EXPECT_TRUE(std::isnan(feedback.merit(outputs)));
}

TEST(Feedback, NeedsAllModes) {
  auto leading = dynamics::decompose(test::kernel_with({1e-2, 1, 2}, 1), 1e-14);
  leading.values = leading.values.narrow(0, 1, 2);
  leading.vectors = leading.vectors.narrow(1, 1, 2);
  leading.rank = 2;
  const auto coordinates = error_coordinates(torch::zeros({3}, kDouble), {}, 1);
  EXPECT_THROW(Feedback(coordinates, Plant::of_modes(leading, coordinates->plant(0)), {}),
               InvalidArgument);
}

// A kernel of known modes, from fast to slower than any rate; the last one is null.
struct KnownKernel {
  Tensor vectors, values, kernel;

  explicit KnownKernel(int64_t n) {
    torch::manual_seed(4);
    vectors = std::get<0>(torch::linalg_qr(torch::randn({n, n}, torch::kFloat64)));
    values = torch::logspace(3, -9, n, 10, torch::kFloat64);
    values[n - 1] = 0;
    kernel = (vectors * values).mm(vectors.t());
    kernel = (kernel + kernel.t()) / 2;
  }
  Feedback solved(const Tensor& labels) const {
    FeedbackOptions options;
    options.make = [](const Plant& plant) {
      return std::make_unique<control::SolveController>(plant, std::sqrt(11.0));
    };
    const auto coordinates = error_coordinates(labels, {}, 1);
    return {coordinates, Plant::of_kernel(kernel, 1e-12, coordinates->plant(0)), options};
  }
};

TEST(SolvedFeedback, EveryModeIsLeftWithItsShare) {
  const KnownKernel known(20);
  const Tensor labels = torch::randn({20}, torch::kFloat64);
  Feedback feedback = known.solved(labels);
  EXPECT_NEAR(feedback.unit_rate(), 1e-3, 1e-12);
  const double rate = 10.0;  // with c_L = 1, the steps s are 10 λ
  feedback.design(rate);
  const Tensor outputs = torch::randn({20, 1}, torch::kFloat64);
  const Tensor error = outputs.reshape({-1}) - labels;
  const Tensor modal = known.vectors.t().mv(error);
  const Tensor s = known.values * rate;
  for (const double share : {1.0, 0.3}) {
    const Proposal proposal = feedback.propose(outputs, rate * share);
    const Tensor left = (1 - share + share / (1 + s * std::sqrt(11.0))) * modal;
    // Θ is off by ε·10³, a ten-thousandth of μ by 10⁻⁹.
    EXPECT_NEAR(proposal.left, left.square().sum().item<double>(), 1e-9 * proposal.left);
    // And that is what the seed does to a linear network's outputs.
    EXPECT_LE(
        test::relative_error(known.vectors.t().mv(error - known.kernel.mv(proposal.seed)), left),
        1e-9);
  }
}

TEST(SolvedFeedback, AgreesWithTheControllerAtBothEndsOfTheSpectrum) {
  for (const double s : {1e-6, 1e-5, 1e-4, 1e3, 1e4, 1e5}) {
    const double ridge = 1 / (1 + s * std::sqrt(11.0));
    const Tensor step = torch::full({1}, s, kDouble);
    const double exact = control::lqr(1, 0.1).leaves(step).item<double>();
    // Slow: the same to first order in s. Fast: both next to nothing.
    if (s < 1) {
      EXPECT_NEAR(1 - ridge, 1 - exact, 6 * s * (1 - exact));
    } else {
      EXPECT_LE(std::abs(ridge - exact), 1 / s);
    }
  }
}

TEST(SolvedFeedback, IsSettledWhereOnlyErrorsOutOfReachAreLeft) {
  const KnownKernel known(20);
  Feedback feedback = known.solved(torch::zeros({20}, kDouble));
  feedback.design(1);
  const Tensor null = known.vectors.select(1, 19);
  EXPECT_TRUE(feedback.settled(null, 0));
  EXPECT_FALSE(feedback.settled(null + 0.1 * known.vectors.select(1, 18), 0));
  EXPECT_TRUE(feedback.settled(null + 0.1 * known.vectors.select(1, 18), 0.2));
}

/// The step of a weighted run with a rate, of its feedback here or as a file has it.
TEST(FeedbackSource, ReadsModesOfBeforeWeightsWereCoordinates) {
  TrainData data = test::smooth_data(10, 2, 3);
  TrainOptions options;
  options.learning_rate = 3;
  const nn::Mlp net = test::small_network(4, 2, 9);
  const auto with = [&](bool weighted) {
    if (weighted) data.sample_weights = torch::linspace(0.5, 4, 10, kDouble);
    return std::make_shared<const train::Setup>(kernel::Model(net), data, options, nullptr);
  };
  const auto step = [&](Feedback& feedback, const train::Setup& setup) {
    feedback.design(3);
    return feedback.propose(setup.forward(0).values, 3).seed;
  };
  const auto plain = with(false);
  SavedState old;  // the modes of Θ, and nothing of weights
  const auto before = make_feedback_source(plain, {})->at(0, plain->forward(0), nullptr);
  before->save(old);
  const auto weighted = with(true);
  const auto source = make_feedback_source(weighted, {});
  const auto here = source->at(0, weighted->forward(0), nullptr);
  const Tensor wanted = step(*here, *weighted);
  EXPECT_LE(test::relative_error(step(*source->saved(0, old), *weighted), wanted), 1e-9);
  SavedState now;
  here->save(now);
  EXPECT_TRUE(step(*source->saved(0, now), *weighted).equal(wanted)) << "to the same bits";
  EXPECT_GT(test::relative_error(step(*before, *weighted), wanted), 1e-2);
}

// Guarded runs that only want to arrive take it; those with a rate keep to the controller.
TEST(SolvedFeedback, ServesGuardedRunsWithoutARate) {
  const TrainData data = test::smooth_data(20, 1, 3);
  const auto kernel_in = [&](const TrainOptions& options) {
    nn::Mlp net = test::small_network(4, 1, 9);
    TrainHooks hooks;
    SafeTensors last;
    hooks.checkpoint = [&](const SafeTensors& content) { last = content; };
    const auto result = Trainer(net, data, options).run(hooks);
    EXPECT_LT(result.train_loss, 1e-3 * result.history.front().train_loss);
    return last.tensors.contains("plan.0.kernel");
  };
  TrainOptions options;
  options.steps = 20;
  EXPECT_TRUE(kernel_in(options));
  options.learning_rate = 1e4;
  EXPECT_FALSE(kernel_in(options));
  options.learning_rate.reset();
  options.linearization_error = true;
  EXPECT_FALSE(kernel_in(options));
}

}  // namespace
}  // namespace cdt::train
