// The form of batches: its step by brute force, what a momentum keeps, the whole objective, the
// decay path by epochs, checkpoints.
#include <cdt/core/error.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/methods/batch_momentum.h>
#include <gmock/gmock.h>

#include "train/form_problem.h"

namespace cdt::train {
namespace {

using loss::LossPtr;
using test::FormCase;
using test::FormProblem;
using test::kDouble;
using test::parameters_of;
using test::relative_error;
using test::same_bits;
using test::small_network;
using test::smooth_data;
using testing::HasSubstr;
using torch::Tensor;

/// Some samples of a problem.
RidgeProblem part_of(const FormProblem& all, int64_t first, int64_t count) {
  RidgeProblem part = all.problem;
  part.network = all.problem.network->at(all.data.x.narrow(0, first, count),
                                         linearization_for("batch", {}, torch::kFloat64));
  part.residuals = of_range(all.problem.residuals, {first, count});
  return part;
}

/// Its rows of SᵀJ.
Tensor rows_of(const FormProblem& all, int64_t first, int64_t count) {
  const Tensor rows = all.rows();
  const int64_t each = rows.size(0) / all.data.x.size(0);
  return rows.narrow(0, first * each, count * each);
}

TEST(BatchMomentum, IsTheLeastOfItsProblem) {
  for (const FormCase& setting : test::kFormCases) {
    for (const uint64_t seed : {1, 2, 3}) {
      for (const int64_t width : {3, 12}) {  // fewer parameters than residuals, and more
        for (const bool decays : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << to_string(setting.loss) << ", " << setting.outputs << " outputs, seed "
                       << seed << ", width " << width << ", decay " << decays);
          const FormProblem all(setting.loss, 40, setting.outputs, seed, setting.weighted, width);
          const BatchRates rates{.momentum = 0.8, .damping = 0.3, .rate = 1};
          BatchMomentum momentum;
          RidgeProblem first = part_of(all, 0, 25), second = part_of(all, 25, 15);
          if (!decays) first.displacement = second.displacement = Tensor();
          const double tau = decays ? 0.2 : 0;
          const Tensor before = momentum.next(first, tau, rates).clone();
          const Tensor found = momentum.next(second, tau, rates);

          const Tensor J = rows_of(all, 25, 15), I = torch::eye(J.size(1), kDouble);
          const double lambda =
              rates.damping * J.square().sum().item<double>() / static_cast<double>(J.size(0));
          const Tensor d = decays ? all.problem.displacement : torch::zeros_like(before);
          const Tensor normal = J.t().mm(J) + (tau + lambda) * I;
          const Tensor right = J.t().mv(second.residuals.e) + tau * d + lambda * 0.8 * before;
          EXPECT_LE(relative_error(found, torch::linalg_solve(normal, right, /*left=*/true)), 1e-8);
        }
      }
    }
  }
}

TEST(BatchMomentum, OfAllRowsAndNoMomentumIsTheDualStep) {
  for (const FormCase& setting : test::kFormCases) {
    const FormProblem all(setting.loss, 30, setting.outputs, 4, setting.weighted, 8);
    const auto dual = make_form("dual", all.problem, {});
    for (const double damping : {1.0, 1e-3}) {
      for (const double tau : {0.0, 0.05}) {
        const auto step = dual->step(tau, damping * dual->mean_eigenvalue());
        BatchMomentum momentum;
        momentum.next(part_of(all, 3, 9), tau, {.momentum = 0});  // leaves nothing behind
        const Tensor phi = momentum.next(all.problem, tau, {.momentum = 0, .damping = damping});
        EXPECT_LE(relative_error(-phi, all.delta(*step)), 1e-9);
      }
    }
  }
}

/// As λ goes to 0 the batch is fitted in the linear model, and φ changes where the batch sees it
/// alone: by rows of J.
TEST(BatchMomentum, KeepsWhatABatchDoesNotSee) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    const FormProblem all(loss::mse(), 20, 1, seed, false, 12);
    RidgeProblem first = part_of(all, 0, 10), second = part_of(all, 10, 10);
    first.displacement = second.displacement = Tensor();
    const double mu = 0.9, damping = 1e-9;
    BatchMomentum momentum;
    const Tensor before = momentum.next(first, 0, {mu, 0.1, 1}).clone();
    const Tensor after = momentum.next(second, 0, {mu, damping, 1});
    const Tensor J = rows_of(all, 10, 10);
    const auto [U, s, Vt] = torch::linalg_svd(J, /*full_matrices=*/false);
    const Tensor e = second.residuals.e;
    // What λ leaves of a mode of K is at most λ over its eigenvalue.
    const double lambda = damping * s.square().mean().item<double>();
    const double left = lambda / s.min().square().item<double>();
    ASSERT_LT(left, 1e-3);
    EXPECT_LE((e - J.mv(after)).norm().item<double>(),
              (left + 1e-9) * (e - mu * J.mv(before)).norm().item<double>());
    const auto unseen = [&, &V = Vt](const Tensor& phi) { return phi - V.t().mv(V.mv(phi)); };
    EXPECT_GT(unseen(before).norm().item<double>(), 0.01 * before.norm().item<double>());
    EXPECT_LE(relative_error(unseen(after), mu * unseen(before)), 1e-8);
  }
}

/// The kernel of a batch is solved in the network's precision: rounding of float32 moves φ by some
/// 10⁻⁴ of it, at the usual damping.
TEST(BatchMomentum, OfFloat32IsNearThatOfFloat64) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto phi_in = [&](torch::ScalarType dtype) {
      const TrainData data = smooth_data(400, 1, seed, dtype);
      nn::Mlp net = small_network(4, 1, seed, torch::kFloat64, 30);
      net->to(dtype);
      const kernel::Model model(net);
      const Tensor outputs = net->forward(data.x).detach().to(torch::kFloat64);
      const Residuals residuals = loss::mse()->residuals(outputs, data.y.to(torch::kFloat64), {});
      RidgeOptions options;
      options.accumulate = dtype;
      BatchMomentum momentum;
      const auto network =
          kernel::linearize(model, data.x, linearization_for("batch", options, model.dtype()));
      momentum.next({network, residuals, {}}, 0, BatchRates());
      return momentum.next({network, residuals, {}}, 0, BatchRates()).to(torch::kFloat64);
    };
    EXPECT_LE(relative_error(phi_in(torch::kFloat32), phi_in(torch::kFloat64)), 1e-3) << seed;
  }
}

TEST(BatchForm, TakesThreadsByWhatABatchIsWorth) {
  FormSizes sizes;
  sizes.samples = 40000;
  sizes.width = 94 + 4 * 128 + 1;
  EXPECT_EQ(most_threads("batch", sizes), 1);
  EXPECT_EQ(most_threads("sketch", sizes), 0);
  sizes.batch = 5000;
  EXPECT_EQ(most_threads("batch", sizes), 0);
  sizes.batch = 0;
  sizes.width = 94 + 4 * 2000 + 1;
  EXPECT_EQ(most_threads("batch", sizes), 0);
  // A path's kernel likewise; of a guarded run, whose steps are few, it takes what there is.
  sizes.width = 94 + 4 * 256 + 1;
  sizes.samples = 1000;
  EXPECT_EQ(most_threads("dual", sizes), 1);
  sizes.samples = 4000;
  EXPECT_EQ(most_threads("dual", sizes), 0);
  sizes.samples = 1000;
  sizes.path = false;
  EXPECT_EQ(most_threads("dual", sizes), 0);
}

TEST(Optimizers, TakeThreadsByWhatABatchIsWorth) {
  const auto threads = [](int64_t batch, int64_t parameters) {
    const Tensor w = torch::zeros({4, parameters / 4}).requires_grad_();
    TrainData data;
    data.x = torch::rand({600, 4});
    data.y = torch::rand({600, 1});
    TrainOptions options;
    options.method = "adam";
    options.batch = batch;
    const kernel::Model model([&](const Tensor& x) { return x.mm(w).sum(1, true); }, {w});
    return Trainer(model, data, options).most_threads();
  };
  EXPECT_EQ(threads(32, 100'000), 1);
  EXPECT_EQ(threads(0, 100'000), 0);
  EXPECT_EQ(threads(32, 1'000'000), 0);
}

TEST(BatchMomentum, TakesItsRateAlongTheDirection) {
  const FormProblem all(loss::mse(), 20, 1, 1, false, 6);
  const Tensor before = kernel::flatten(all.model, parameters_of(all.net));
  BatchMomentum momentum;
  momentum.take(all.model, all.problem, 0, {.rate = 0.25});
  const Tensor moved = kernel::flatten(all.model, parameters_of(all.net)) - before;
  EXPECT_LE(relative_error(moved, -0.25 * momentum.direction()), 1e-12);
  const BatchRates rates = BatchRates().at(1.0 / 16);
  EXPECT_DOUBLE_EQ(rates.damping, 4 * BatchRates().damping);
  EXPECT_DOUBLE_EQ(rates.rate, BatchRates().rate / 4);
}

TrainOptions by_batches(Method method, int64_t steps, int64_t batch) {
  TrainOptions options;
  options.method = method;
  options.form = "batch";
  options.steps = steps;
  options.batch = batch;
  return options;
}

TEST(BatchForm, TheWholeObjectiveNeverEndsHigher) {
  int64_t rejected = 0;
  for (const double scale : {1.0, 300.0}) {  // far away: first epochs go too far
    for (const int64_t batch : {3, 16, 60}) {
      for (const uint64_t seed : {1, 2}) {
        SCOPED_TRACE(testing::Message()
                     << "scale " << scale << ", batch " << batch << ", seed " << seed);
        TrainData data = smooth_data(60, 1, seed, torch::kFloat32);
        data.y = data.y * scale;
        nn::Mlp net = small_network(4, 1, seed, torch::kFloat32);
        const int64_t steps = 15 * ((60 + batch - 1) / batch) + 1;  // ends within an epoch
        const auto result = Trainer(net, data, by_batches("guarded", steps, batch)).run();
        rejected += result.rejected;
        double before = std::numeric_limits<double>::infinity();
        for (const StepRecord& row : result.history) {
          if (std::isnan(row.objective)) continue;
          EXPECT_LE(row.objective, before) << "step " << row.step;
          before = row.objective;
        }
        const Tensor e = net->forward(data.x).detach().to(torch::kFloat64) - data.y;
        const double loss = e.square().mean().item<double>();
        EXPECT_NEAR(result.train_loss, loss, 1e-4 * loss);
        EXPECT_LE(loss, result.history.front().train_loss * (1 + 1e-6));
        EXPECT_EQ(result.form, "batch");
        EXPECT_EQ(result.form_why, c10::str("kernels of ", batch, " rows, one after another"));
      }
    }
  }
  EXPECT_GT(rejected, 0);
}

TEST(BatchForm, ArrivesByBatches) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const TrainData data = smooth_data(400, 1, 3, dtype);
    nn::Mlp net = small_network(4, 1, 3, dtype);
    TrainOptions options = by_batches("guarded", 2000, 40);
    options.stop_loss = 1e-4;
    const TrainResult result = Trainer(net, data, options).run();
    EXPECT_EQ(result.outcome, Outcome::kTarget);
    EXPECT_EQ(result.linearizations, result.steps);
  }
}

/// Of a linear model at a constant decay, where the least of the objective is known.
TEST(BatchForm, PathsGoWhereTheirObjectiveIsLeast) {
  const TrainData data = smooth_data(60, 2, 1);
  const auto with_ones = [](const Tensor& x) {
    return torch::cat({x, torch::ones({x.size(0), 1}, kDouble)}, 1);
  };
  const Tensor X = with_ones(data.x);
  for (const int64_t batch : {60, 12, 7}) {
    SCOPED_TRACE(batch);
    nn::MlpOptions linear;
    linear.inputs = 4;
    linear.outputs = 2;
    nn::Mlp net(linear, 3, torch::kFloat64);
    const auto start = parameters_of(net);
    const Tensor e = net->forward(data.x).detach() - data.y;
    TrainOptions options = by_batches("path", 300, batch);
    options.path = {.start = 1, .factor = 1};
    const TrainResult result = Trainer(net, data, options).run();
    const double tau = result.history.front().decay;
    const Tensor normal = X.t().mm(X) + tau * torch::eye(5, kDouble);
    const Tensor moves = torch::linalg_solve(normal, -X.t().mm(e), /*left=*/true);
    const double least =
        ((e + X.mm(moves)).square().sum() + tau * moves.square().sum()).item<double>() / 120;
    EXPECT_GE(result.history.back().objective, least * (1 - 1e-12));
    // Batches of some of the rows disagree about where it is, by a percent or less here.
    EXPECT_LE(result.history.back().objective, least * (batch == 60 ? 1 + 1e-9 : 1.01));
  }
}

TEST(BatchForm, ThePathsObjectiveNeverRises) {
  int64_t rejected = 0;
  for (const auto& [loss, outputs] :
       {std::pair{loss::mse(), 1}, std::pair{loss::cross_entropy(), 2},
        std::pair{loss::cross_entropy(), 3}}) {
    SCOPED_TRACE(testing::Message() << to_string(loss) << ", " << outputs);
    const bool classes = loss->classes();
    TrainData data = classes ? test::class_data(90, outputs, 3) : smooth_data(90, outputs, 3);
    data.sample_weights = torch::linspace(0.5, 2, 90, kDouble);
    if (!classes) data.y = data.y * 300;  // far away: some epochs go too far
    nn::Mlp net = small_network(4, outputs, 5, torch::kFloat64, 10);
    TrainOptions options = by_batches("path", 16, 20);
    options.loss = loss;
    options.path.start = 1;
    const TrainResult result = Trainer(net, data, options).run();
    for (size_t k = 1; k < result.history.size(); ++k) {
      const StepRecord &row = result.history[k], &last = result.history[k - 1];
      EXPECT_LE(row.objective, last.objective * (1 + 1e-12)) << "point " << k;
      if (std::isnan(row.decay)) continue;
      EXPECT_NEAR(row.decay / last.decay, 0.36, 1e-12);
    }
    EXPECT_LT(result.train_loss, 0.5 * result.history.front().train_loss);
    rejected += result.rejected;
    // The more steps an epoch takes, the less decay it needs to begin with: five batches here.
    const double of_one = result.history.front().decay;
    options.steps = 1;
    for (const auto& [start, share] : {std::pair{50.0, 10.0}, {3.0, 1.0}, {0.5, 0.5}}) {
      options.path.start = start;
      nn::Mlp again = small_network(4, outputs, 5, torch::kFloat64, 10);
      const double first = Trainer(again, data, options).run().history.front().decay;
      EXPECT_NEAR(first, share * of_one, 1e-9 * first) << start;
    }
  }
  EXPECT_GT(rejected, 0);
}

TEST(BatchForm, ResumesToTheSameBits) {
  for (const Method method : {"guarded", "path"}) {
    for (const double scale : {1.0, 1e4}) {    // the latter with epochs taken back
      for (const int64_t stop : {3, 9, 14}) {  // within an epoch, and at its start
        SCOPED_TRACE(testing::Message() << to_string(method) << ", " << scale << ", " << stop);
        TrainData data = smooth_data(50, 1, 1, torch::kFloat32);
        data.y = data.y * scale;
        const TrainOptions options = by_batches(method, 20, 17);
        nn::Mlp whole = small_network(4, 1, 2, torch::kFloat32);
        EXPECT_EQ(Trainer(whole, data, options).run().rejected > 0, scale > 1);
        nn::Mlp net = small_network(4, 1, 2, torch::kFloat32);
        Trainer first(net, data, options);
        for (int64_t k = 0; k < stop; ++k) first.step();
        const SafeTensors saved = first.checkpoint();
        EXPECT_TRUE(saved.tensors.contains("direction"));
        nn::Mlp other = small_network(4, 1, 3, torch::kFloat32);
        Trainer second(other, data, options);
        second.restore(saved);
        second.run();
        EXPECT_TRUE(same_bits(parameters_of(other), parameters_of(whole)));
      }
    }
  }
}

TEST(BatchForm, KnowsWhatItGoesWith) {
  const auto message = [](TrainData data, const TrainOptions& options, int64_t outputs = 1) {
    try {
      Trainer(small_network(4, outputs, 1), std::move(data), options);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  TrainOptions options = by_batches("path", 5, 10);
  EXPECT_EQ(message(smooth_data(30, 1, 1), options), "");
  options.form = "dual";
  EXPECT_THAT(message(smooth_data(30, 1, 1), options), HasSubstr("not batches of 10"));
  options = by_batches("guarded", 5, 10);
  EXPECT_EQ(message(smooth_data(30, 1, 1), options), "");
  TrainData weighted = smooth_data(30, 1, 1);
  weighted.sample_weights = torch::ones({30}, kDouble);
  EXPECT_EQ(message(weighted, options), "");
  options.loss = loss::cross_entropy();
  EXPECT_EQ(message(test::class_data(30, 2, 1), options, 2), "");
  options.learning_rate = 1;
  EXPECT_THAT(message(test::class_data(30, 2, 1), options, 2), HasSubstr("goes without lr"));
  options = by_batches("guarded", 5, 30);
  options.memory_bytes = 1000;
  EXPECT_THAT(message(smooth_data(30, 1, 1), options), HasSubstr("form batch needs 0.0216 MB"));
}

TEST(BatchForm, HasAUsualSize) {
  EXPECT_EQ(batch_rows(0, 10000, 1), kBatchResiduals);
  EXPECT_EQ(batch_rows(0, 10000, 4), kBatchResiduals / 4);
  EXPECT_EQ(batch_rows(0, 100, 1), 100);
  EXPECT_EQ(batch_rows(0, 100, 1000), 1);
  EXPECT_EQ(batch_rows(64, 10000, 4), 64);
  TrainOptions options = by_batches("guarded", 5, 0);
  const Batches batches = step_batches(options, 1700, 1);
  EXPECT_EQ(batches.per_epoch(), 4);
  EXPECT_FALSE(torch::equal(batches.rows(0), batches.rows(4)));  // drawn anew
  EXPECT_TRUE(torch::equal(batches.rows(0), step_batches(options, 1700, 1).rows(0)));
  options.method = "path";
  EXPECT_TRUE(step_batches(options, 1700, 1).all());
  FormSizes sizes;
  sizes.samples = 43000;
  sizes.parameters = 90000;
  sizes.width = 1200;
  const FormChoice choice = choose_form("batch", sizes);
  EXPECT_EQ(choice.batch_rows, kBatchResiduals);
  EXPECT_EQ(choose_form("auto", sizes).form, "sketch");
  const double passes = (12 + 4) * 43000.0 * 90000;
  EXPECT_NEAR(form_cost("batch", sizes).operations,
              86 * (2 * 500.0 * 500 * 1200 + 2 * 500.0 * 500 * 500 / 3) + passes, 1e-9 * passes);
  sizes.ranks = 2;
  EXPECT_THROW(choose_form("batch", sizes), InvalidArgument);
}

}  // namespace
}  // namespace cdt::train
