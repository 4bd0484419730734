// What a certificate says, against the loop of the object that takes the first step: that loop is
// taken from the steps themselves, of a network that is linear in its parameters, by moving the
// parameters one at a time.
#include <cdt/kernel/ntk.h>
#include <cdt/train/trainer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "train/problem.h"

namespace cdt::train {
namespace {

using torch::Tensor;

constexpr int64_t kSamples = 5;

/// ŷ = xWᵀ: the same kernel everywhere, and as many parameters as outputs.
struct Linear {
  Tensor weight;  ///< [n_L, features]
  TrainData data;

  kernel::Model model() const {
    return {[w = weight](const Tensor& x) { return x.matmul(w.t()); }, {weight}};
  }
  /// ∂ŷ/∂θ [n, P]
  Tensor jacobian() const {
    const int64_t outputs = weight.size(0);
    Tensor rows = torch::zeros({data.x.size(0) * outputs, weight.numel()}, torch::kFloat64);
    for (int64_t i = 0; i < data.x.size(0); ++i) {
      for (int64_t c = 0; c < outputs; ++c) {
        rows[i * outputs + c].narrow(0, c * weight.size(1), weight.size(1)).copy_(data.x[i]);
      }
    }
    return rows;
  }
};

Linear linear_problem(int64_t outputs, bool sample_weights, bool output_weights) {
  torch::manual_seed(3);
  Linear problem;
  problem.weight = torch::randn({outputs, kSamples}, torch::kFloat64).requires_grad_();
  problem.data.x = torch::randn({kSamples, kSamples}, torch::kFloat64);
  problem.data.y = torch::randn({kSamples, outputs}, torch::kFloat64);
  if (sample_weights) problem.data.sample_weights = torch::rand(kSamples, torch::kFloat64) + 0.1;
  if (output_weights) problem.data.output_weights = torch::rand(outputs, torch::kFloat64) + 0.2;
  return problem;
}

/// The parameters after the first step from `start`.
Tensor after_a_step(const Linear& problem, const TrainOptions& options, const Tensor& start) {
  Linear moved = problem;
  moved.weight = start.clone().view_as(problem.weight).requires_grad_();
  Trainer trainer(moved.model(), moved.data, options);
  const StepResult done = trainer.step();
  EXPECT_FALSE(done.outcome) << "no step was taken";
  EXPECT_EQ(done.record.rejected, 0);
  return moved.weight.detach().reshape({-1}).clone();
}

/// ∂θ⁺/∂θ of the first step, which is affine.
Tensor loop_of_steps(const Linear& problem, const TrainOptions& options) {
  const Tensor start = problem.weight.detach().reshape({-1});
  const Tensor there = after_a_step(problem, options, start);
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < start.numel(); ++j) {
    Tensor moved = start.clone();
    moved[j] += 1;
    columns.push_back(after_a_step(problem, options, moved) - there);
  }
  return torch::stack(columns, 1);
}

double radius_of(const Tensor& loop) {
  return torch::abs(torch::linalg_eigvals(loop)).max().item<double>();
}

struct ControllerCase {
  std::string name;
  Method method = "cdt";
  std::optional<double> rate;
  bool sample_weights = false;
  bool output_weights = false;
  double shape = 0;
  double decay = 0;
  Form form = "auto";
};

std::vector<ControllerCase> cases() {
  std::vector<ControllerCase> all;
  for (const bool samples : {false, true}) {
    for (const bool outputs : {false, true}) {
      for (const double shape : {0.0, 0.1}) {
        for (const double decay : {0.0, 0.02}) {
          const auto add = [&](const std::string& name, Method method, std::optional<double> rate) {
            all.push_back(
                {fmt::format("{}{}{}{}{}", name, samples ? "Samples" : "", outputs ? "Outputs" : "",
                             shape > 0 ? "Shape" : "", decay > 0 ? "Decay" : ""),
                 method, rate, samples, outputs, shape, decay});
          };
          // The paper's method shrinks parameters beside its step: that loop is another problem.
          const bool refused = shape > 0 && (samples || outputs);
          if (decay == 0 && !refused) add("Cdt", "cdt", 0.5);
          add("GuardedRate", "guarded", 0.5);
          if (shape == 0 && decay == 0) add("Guarded", "guarded", {});
        }
      }
    }
  }
  for (const Form form : {"dual", "primal"}) {
    for (const bool samples : {false, true}) {
      all.push_back({fmt::format("Form{}{}", to_string(form), samples ? "Samples" : ""),
                     "guarded",
                     {},
                     samples,
                     false,
                     0,
                     0,
                     form});
    }
  }
  return all;
}

class CertificateCase : public testing::TestWithParam<ControllerCase> {};

TEST_P(CertificateCase, IsOfTheLoopThatTakesTheFirstStep) {
  const ControllerCase& wanted = GetParam();
  const Linear problem = linear_problem(2, wanted.sample_weights, wanted.output_weights);
  TrainOptions options;
  options.method = wanted.method;
  options.learning_rate = wanted.rate;
  options.shape = wanted.shape;
  options.weight_decay = wanted.decay;
  options.form = wanted.form;

  const Tensor J = problem.jacobian();
  const Tensor theta = J.mm(J.t());
  Linear own = problem;
  own.weight = problem.weight.detach().clone().requires_grad_();
  Trainer trainer(own.model(), own.data, options);
  const control::Certificate examined = trainer.prepare(theta);
  ASSERT_FALSE(trainer.step().outcome);
  EXPECT_EQ(trainer.controller().digest, examined.digest);
  EXPECT_EQ(trainer.controller().controller, examined.controller);

  // J is square: errors and parameters have the same loop.
  const Tensor loop = loop_of_steps(problem, options);
  ASSERT_TRUE(examined.radius.exact()) << examined.controller;
  EXPECT_NEAR(examined.radius.value, radius_of(loop), 1e-8) << examined.controller;

  // S = αcM + αd with M = W^½ΘW^½ of weighted errors (M = Θ, where weights are of the cost alone);
  // I − A = SG.
  const double c = loss::gradient_factor(options.loss, theta.size(0));
  Tensor root = torch::ones({kSamples, 2}, torch::kFloat64);
  if (wanted.method == "guarded") {
    if (wanted.sample_weights) root = root * problem.data.sample_weights.sqrt().unsqueeze(1);
    if (wanted.output_weights) root = root * problem.data.output_weights.sqrt();
  }
  const Tensor T = torch::diag(root.reshape({-1}));
  const Tensor errors = T.mm(J).mm(loop).mm(torch::linalg_inv(T.mm(J)));
  const Tensor eye = torch::eye(theta.size(0), torch::kFloat64);
  const double rate = examined.rate;
  const auto steps = [&](double factor) {
    return factor * rate * c * T.mm(theta).mm(T) + rate * wanted.decay * eye;
  };
  const Tensor G = torch::linalg_solve(steps(1), eye - errors);
  const auto grown = [&](double factor) { return eye - steps(factor).mm(G); };
  ASSERT_TRUE(examined.kernel_margin.exact());
  const double margin = examined.kernel_margin.value;
  EXPECT_LT(radius_of(grown(margin * (1 - 1e-6))), 1);
  EXPECT_GT(radius_of(grown(margin * (1 + 1e-6))), 1);
  if (examined.overshoot_margin.exact()) {
    const double most = examined.overshoot_margin.value;
    const auto least = [&](double factor) {
      return torch::real(torch::linalg_eigvals(grown(factor))).min().item<double>();
    };
    EXPECT_GT(least(most * (1 - 1e-6)), -1e-9);
    EXPECT_LT(least(most * (1 + 1e-4)), 0);
  }
  EXPECT_FALSE(examined.residual > 1e-9);

  // What a step leaves of each mode, by size.
  ASSERT_TRUE(examined.spectrum.defined());
  const Tensor left = std::get<0>(torch::abs(examined.spectrum[3]).sort());
  const Tensor true_left = std::get<0>(torch::abs(torch::linalg_eigvals(loop)).sort());
  EXPECT_LT((left - true_left).abs().max().item<double>(), 1e-8);
}

INSTANTIATE_TEST_SUITE_P(Controllers, CertificateCase, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

TEST(CertificateOf, APathHoldsItsLoopBetweenBounds) {
  const Linear problem = linear_problem(2, false, false);
  for (const Form form : {"dual", "primal", "free", "sketch"}) {
    TrainOptions options;
    options.method = "path";
    options.form = form;
    Linear own = problem;
    own.weight = problem.weight.detach().clone().requires_grad_();
    Trainer trainer(own.model(), own.data, options);
    ASSERT_FALSE(trainer.step().outcome);
    const control::Certificate found = trainer.controller();
    const double radius = radius_of(loop_of_steps(problem, options));
    EXPECT_LE(found.radius.lower, radius + 1e-3) << found.controller;
    EXPECT_GE(found.radius.upper, radius - 1e-3) << found.controller;
    EXPECT_GE(found.kernel_margin.lower, 2);
    // Conjugate gradients end where another product gains next to nothing.
    const bool exact = form == "dual" || form == "primal";
    EXPECT_LT(found.residual, exact ? 1e-9 : 0.5) << found.controller;
    EXPECT_FALSE(found.digest.empty());
  }
}

/// The Gram matrix of the parameters has other sizes than the kernel, and the same loop.
TEST(CertificateOf, TheParametersFormIsOfTheKernelsLoop) {
  for (const int64_t samples : {6, 900}) {  // more parameters than rows, and fewer
    const TrainData data = test::smooth_data(samples, 1, 7);
    const auto ntk = kernel::empirical_ntk(kernel::Model(test::small_network(4, 1, 9)), data.x);
    std::vector<control::Certificate> found;
    for (const Form form : {"dual", "primal"}) {
      TrainOptions options;
      options.form = form;
      Trainer trainer(kernel::Model(test::small_network(4, 1, 9)), data, options);
      found.push_back(trainer.prepare(ntk.theta));
      ASSERT_EQ(found.back().spectrum.size(1), samples);
    }
    EXPECT_NEAR(found[0].radius.value, found[1].radius.value, 1e-6);
    EXPECT_NEAR(found[0].kernel_margin.value, found[1].kernel_margin.value, 1e-8);
  }
}

TEST(CertificateOf, ClassesIsThatOfTheLoopInLogits) {
  const TrainData data = test::class_data(6, 3, 5);
  for (const std::optional<double> rate : {std::optional<double>(2.0), std::optional<double>()}) {
    TrainOptions options;
    options.method = rate ? "cdt" : "guarded";
    options.learning_rate = rate;
    options.loss = loss::cross_entropy();
    const kernel::Model model = test::small_network(4, 3, 5);
    const auto ntk = kernel::empirical_ntk(model, data.x);
    Trainer trainer(model, data, options);
    const control::Certificate found = trainer.prepare(ntk.theta);
    // The loop that its labels make in the logits, column by column: the label is affine in them.
    const auto plant = control::Plant::of(ntk, loss::cross_entropy(), found.rate, data.y);
    const auto oracle = control::design(plant);
    const loss::ClassCoordinates& at = *plant.classes();
    const int64_t n = at.samples * at.classes;
    const auto next = [&](const Tensor& z) {
      const Tensor seed = (torch::softmax(z, 1) - oracle->augment(z)) / at.samples;
      return (z - found.rate * ntk.theta.mv(seed.reshape({-1})).view(z.sizes()) - at.equilibrium)
          .matmul(at.basis)
          .reshape({-1});
    };
    const Tensor Z = torch::kron(torch::eye(at.samples, torch::kFloat64), at.basis);
    std::vector<Tensor> columns;
    for (int64_t j = 0; j < at.size(); ++j) {
      columns.push_back(next(at.equilibrium + Z.select(1, j).view({at.samples, -1})));
    }
    ASSERT_EQ(Z.size(0), n);
    EXPECT_NEAR(found.radius.value, radius_of(torch::stack(columns, 1)), 1e-7);
    EXPECT_LT(found.residual, 1e-9);
    ASSERT_FALSE(trainer.step().outcome);
    EXPECT_EQ(trainer.controller().digest, found.digest);
  }
}

TEST(CertificateOf, BatchesIsOfTheFirstBatch) {
  const TrainData data = test::smooth_data(12, 1, 7);
  for (const Method method : {"cdt", "guarded"}) {
    for (const std::optional<double> rate : {std::optional<double>(0.3), std::optional<double>()}) {
      TrainOptions options;
      options.method = method;
      options.learning_rate = rate;
      options.batch = 4;
      Trainer trainer(kernel::Model(test::small_network(4, 1, 9)), data, options);
      const control::Certificate found = trainer.prepare();
      ASSERT_FALSE(trainer.step().outcome);
      EXPECT_EQ(trainer.controller().digest, found.digest);
      EXPECT_FALSE(found.digest.empty());
    }
  }
  TrainOptions options;
  options.form = "batch";
  Trainer trainer(kernel::Model(test::small_network(4, 1, 9)), data, options);
  ASSERT_FALSE(trainer.step().outcome);
  EXPECT_TRUE(trainer.controller().digest.empty());  // which is no law
  EXPECT_FALSE(trainer.controller().radius.bounded());
}

TEST(CertificateOf, AModelThatMovesAfterItIsSeen) {
  const TrainData data = test::smooth_data(12, 1, 7);
  auto net = test::small_network(4, 1, 9);
  auto moved = test::small_network(4, 1, 10);
  Trainer prepared(kernel::Model(net), data, {});
  const std::string before = prepared.prepare().digest;
  const torch::NoGradGuard no_graph;
  for (size_t i = 0; i < net->parameters().size(); ++i) {
    net->parameters()[i].copy_(moved->parameters()[i]);
  }
  const StepResult found = prepared.step();
  Trainer fresh(kernel::Model(moved), data, {});
  const StepResult expected = fresh.step();
  EXPECT_EQ(found.record.train_loss, expected.record.train_loss);
  EXPECT_EQ(prepared.controller().digest, fresh.controller().digest);
  EXPECT_NE(prepared.controller().digest, before);
}

TEST(CertificateOf, ARunIsKeptByItsCheckpoint) {
  const TrainData data = test::smooth_data(12, 1, 7);
  TrainOptions options;
  Trainer first(kernel::Model(test::small_network(4, 1, 9)), data, options);
  first.step();
  first.step();
  Trainer second(kernel::Model(test::small_network(4, 1, 9)), data, options);
  second.restore(first.checkpoint());
  EXPECT_EQ(second.controller().digest, first.controller().digest);
  EXPECT_EQ(second.controller().controller, first.controller().controller);
  EXPECT_EQ(second.controller().radius.upper, first.controller().radius.upper);
}

}  // namespace
}  // namespace cdt::train
