// Rows that are shared by several ranks give the step, the path and the model that one rank gives.
#include <cdt/core/error.h>
#include <cdt/study/learn.h>
#include <gmock/gmock.h>

#include <atomic>

#include "distributed/on_ranks.h"
#include "train/form_problem.h"

namespace cdt::train {
namespace {

using loss::LossPtr;
using test::FormProblem;
using test::kDouble;
using test::on_ranks;
using test::relative_error;
using test::unequal_share;
using testing::HasSubstr;
using torch::Tensor;

Tensor flat(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> parts;
  for (const Tensor& each : parameters) parts.push_back(each.detach().reshape({-1}));
  return torch::cat(parts);
}

/// Of all rows those of a rank.
RidgeProblem part_of(const FormProblem& whole, const std::shared_ptr<const Ranks>& ranks) {
  const Share own = unequal_share(*ranks, whole.data.x.size(0));
  return {kernel::linearize(whole.model, whole.data.x.narrow(0, own.first, own.count)),
          train::of_range(whole.problem.residuals, own), whole.problem.displacement, ranks};
}

TEST(SharedRows, GiveTheStepOfAllRows) {
  for (const test::FormCase& setting : test::kFormCases) {
    const auto make = [&] {  // few parameters: conjugate gradients end soon
      return FormProblem(setting.loss, 40, setting.outputs, 1, setting.weighted, 2);
    };
    RidgeOptions options = test::tight();
    options.sketch_rows = 15;
    for (const Form form : {"primal", "free", "sketch"}) {
      const FormProblem alone = make();
      const auto whole = make_form(form, alone.problem, options);
      const double mean = whole->mean_eigenvalue();
      const double tau = 0.1 * mean, mu = 0.02 * mean;
      const RidgeStep wanted = *whole->step(tau, mu);
      const double largest = whole->largest_eigenvalue();
      const double square = whole->square(wanted.residuals);
      for (const int64_t size : {2, 4, 8}) {
        SCOPED_TRACE(testing::Message() << to_string(form) << ", " << to_string(setting.loss)
                                        << ", " << setting.outputs << " outputs, ranks " << size);
        std::vector<FormProblem> copies;  // each rank has a network of its own
        copies.reserve(static_cast<size_t>(size));
        for (int64_t k = 0; k < size; ++k) copies.push_back(make());
        std::vector<Tensor> deltas(static_cast<size_t>(size));
        on_ranks(size, [&](const auto& group) {
          const auto k = static_cast<size_t>(group->rank());
          const auto part = make_form(form, part_of(copies[k], group), options);
          EXPECT_NEAR(part->mean_eigenvalue(), mean, 1e-10 * mean);
          EXPECT_NEAR(part->largest_eigenvalue(), largest, 1e-8 * largest);
          const RidgeStep step = *part->step(tau, mu);
          EXPECT_LE(relative_error(step.delta, wanted.delta), 1e-8);
          EXPECT_NEAR(part->square(step.residuals), square, 1e-8 * square);
          deltas[k] = step.delta;
        });
        for (const Tensor& delta : deltas) EXPECT_TRUE(torch::equal(delta, deltas[0]));
      }
    }
  }
}

TEST(SharedRows, HaveNoDualForm) {
  on_ranks(2, [](const auto& group) {
    const Share own = unequal_share(*group, 30);
    TrainData data;
    data.x = torch::ones({own.count, 4}, kDouble);
    data.y = torch::ones({own.count, 1}, kDouble);
    data.ranks = group;
    const nn::Mlp net = test::small_network(4, 1, 1);
    const auto refused = [&](const TrainOptions& options, const std::string& message) {
      EXPECT_THAT([&] { Trainer(net, data, options); },
                  testing::ThrowsMessage<InvalidArgument>(HasSubstr(message)));
    };
    TrainOptions options;
    options.method = "path";
    refused(options, "form dual");
    options.method = "guarded";
    refused(options, "form dual");
    options.learning_rate = 1;
    refused(options, "that find their own rate");
    options.method = "adam";
    refused(options, "not of method adam");
  });
}

/// θ⁺ of the first step of ŷ = xWᵀ from `start`, and what was promised before it.
struct FirstStep {
  Tensor after;
  control::Certificate promised;
};
FirstStep first_step(Tensor start, TrainData part, const TrainOptions& options) {
  const Tensor weight = start.clone().view({1, -1}).requires_grad_();
  const kernel::Model model{[weight](const Tensor& x) { return x.matmul(weight.t()); }, {weight}};
  Trainer trainer(model, std::move(part), options);
  FirstStep found;
  found.promised = trainer.prepare();
  EXPECT_FALSE(trainer.step().outcome);
  EXPECT_EQ(trainer.controller().digest, found.promised.digest);
  found.after = weight.detach().reshape({-1}).clone();
  return found;
}

// The loop of two ranks is taken from their steps, by moving the parameters one at a time.
TEST(SharedRows, TheCertificateIsOfTheLoopOfAllRanks) {
  constexpr int64_t kFeatures = 4;
  torch::manual_seed(8);
  TrainData data;
  data.x = torch::randn({15, kFeatures}, kDouble);
  data.y = torch::randn({15, 1}, kDouble);
  const Tensor start = torch::randn({kFeatures}, kDouble);
  for (const bool weighted : {false, true}) {
    if (weighted) data.sample_weights = torch::rand({15}, kDouble) + 0.1;
    for (const Form form : {"primal", "free", "sketch"}) {
      SCOPED_TRACE(to_string(form) + (weighted ? ", weighted" : ""));
      TrainOptions options;
      options.form = form;
      std::vector<Tensor> ends;
      std::vector<control::Certificate> promised(2);
      for (int64_t j = -1; j < kFeatures; ++j) {
        Tensor from = start.clone();
        if (j >= 0) from[j] += 1;
        std::vector<Tensor> after(2);
        on_ranks(2, [&](const auto& group) {
          TrainData part = data;
          part.ranks = group;
          const Share own = unequal_share(*group, 15);
          for (Tensor* each : {&part.x, &part.y, &part.sample_weights}) {
            if (each->defined()) *each = each->narrow(0, own.first, own.count);
          }
          const FirstStep found = first_step(from, part, options);
          const auto k = static_cast<size_t>(group->rank());
          after[k] = found.after;
          if (j < 0) promised[k] = found.promised;
        });
        EXPECT_TRUE(torch::equal(after[0], after[1]));
        ends.push_back(after[0]);
      }
      std::vector<Tensor> columns;
      for (size_t j = 1; j < ends.size(); ++j) columns.push_back(ends[j] - ends[0]);
      const Tensor loop = torch::stack(columns, 1);
      const double radius = torch::abs(torch::linalg_eigvals(loop)).max().item<double>();
      for (const control::Certificate& each : promised) {
        EXPECT_EQ(each.digest, promised[0].digest);
        EXPECT_LE(each.radius.lower, radius + 1e-3) << each.controller;
        EXPECT_GE(each.radius.upper, radius - 1e-3) << each.controller;
        EXPECT_GE(each.kernel_margin.lower, 2);
      }
      // One rank promises the same.
      const control::Certificate alone = first_step(start, data, options).promised;
      EXPECT_NEAR(promised[0].rate / alone.rate, 1, 1e-6);
      EXPECT_NEAR(promised[0].gain / alone.gain, 1, 1e-6);
    }
  }
}

/// The parameters at the end of a run, of each rank.
std::vector<std::vector<Tensor>> train_on(int64_t size, const TrainData& data,
                                          const TrainOptions& options) {
  std::vector<nn::Mlp> nets;
  for (int64_t k = 0; k < size; ++k) nets.push_back(test::small_network(4, data.y.size(1), 3));
  std::vector<std::vector<Tensor>> ends(static_cast<size_t>(size));
  on_ranks(size, [&](const auto& group) {
    const auto k = static_cast<size_t>(group->rank());
    const Share own = unequal_share(*group, data.x.size(0));
    TrainData part = data;
    part.ranks = group;
    for (Tensor* each : {&part.x, &part.y, &part.sample_weights}) {
      if (each->defined()) *each = each->narrow(0, own.first, own.count);
    }
    Trainer(nets[k], part, options).run();
    ends[k] = test::parameters_of(nets[k]);
  });
  return ends;
}

/// Conjugate gradients without a sketch send much, so few ranks will do.
std::vector<int64_t> sizes_for(Form form) {
  if (form == "free") return {2};
  return {1, 2, 4, 8};
}

void expect_same_end(const TrainData& data, const TrainOptions& options, double tolerance) {
  nn::Mlp alone = test::small_network(4, data.y.size(1), 3);
  const TrainResult result = Trainer(alone, data, options).run();
  EXPECT_EQ(result.steps, options.steps);
  const Tensor wanted = flat(alone->parameters());
  for (const int64_t size : sizes_for(options.form)) {
    SCOPED_TRACE(testing::Message() << to_string(options.form) << ", ranks " << size);
    const auto ends = train_on(size, data, options);
    for (const auto& end : ends) {
      // Rounding, as steps multiply it.
      EXPECT_LE(relative_error(flat(end), wanted), tolerance);
      EXPECT_TRUE(test::same_bits(end, ends[0]));
    }
    EXPECT_TRUE(size != 4 || test::same_bits(train_on(size, data, options)[1], ends[0]));
  }
}

TEST(SharedRows, GiveThePathOfAllRows) {
  for (const Form form : {"primal", "free", "sketch"}) {
    TrainOptions options;
    options.method = "path";
    options.steps = 3;
    options.form = form;
    TrainData data = test::smooth_data(48, 2, 1);
    data.sample_weights = torch::linspace(0.5, 2, 48, kDouble);
    expect_same_end(data, options, 1e-7);
    options.loss = loss::cross_entropy();
    expect_same_end(test::class_data(48, 2, 1), options, 1e-7);
  }
}

TEST(SharedRows, GiveTheGuardedRunOfAllRows) {
  for (const Form form : {"primal", "free", "sketch"}) {
    TrainOptions options;
    options.steps = 3;
    options.patience = 3;
    options.form = form;
    // Without a decay conjugate gradients run out of products before they have come to an end: what
    // they lose of their orthogonality, rounding decides.
    const double tolerance = form == "free" ? 1e-3 : 1e-7;
    TrainData data = test::smooth_data(48, 1, 2);
    expect_same_end(data, options, tolerance);
    if (form == "free") options.steps = 1;
    data.sample_weights = torch::linspace(0.5, 2, 48, kDouble);
    expect_same_end(data, options, tolerance);
    options.loss = loss::cross_entropy();
    TrainData kinds = test::class_data(48, 3, 2);
    kinds.sample_weights = data.sample_weights;
    expect_same_end(kinds, options, tolerance);
  }
}

/// One that has been told to stop ends all; what it saved goes on with any number of ranks.
class SharedLearning : public testing::Test {
 protected:
  SharedLearning() {
    torch::manual_seed(7);
    const auto draw = [&](int64_t r, Tensor& x, Tensor& y) {
      x = torch::randn({r, 3}, kDouble);
      y = (x.select(1, 0) * x.select(1, 1)).sin().unsqueeze(1) +
          0.05 * torch::randn({r, 1}, kDouble);
    };
    draw(90, problem_.data.x, problem_.data.y);
    draw(25, problem_.data.x_val, problem_.data.y_val);
    options_.training.method = "path";
    options_.training.form = "primal";
    options_.training.steps = 7;
    options_.training.patience = 3;
    options_.network.hidden = {8, 8};
    options_.network.sigma_w = 0.5;
    options_.network.activation = nn::Activation::kTanh;
    options_.network.dtype = torch::kFloat64;
    options_.intervals = true;
  }

  study::Problem with(const std::shared_ptr<const Ranks>& ranks) const {
    study::Problem problem = problem_;
    problem.data.ranks = ranks;
    return problem;
  }
  static void expect_same(const study::Learned& found, const study::Learned& wanted) {
    EXPECT_EQ(found.result.best_step, wanted.result.best_step);
    EXPECT_NEAR(found.result.val_loss, wanted.result.val_loss, 1e-8);
    EXPECT_NEAR(found.result.train_loss, wanted.result.train_loss, 1e-8);
    ASSERT_EQ(found.result.history.size(), wanted.result.history.size());
    for (size_t i = 0; i + 1 < wanted.result.history.size(); ++i) {
      const StepRecord &a = found.result.history[i], &b = wanted.result.history[i];
      EXPECT_NEAR(a.train_loss, b.train_loss, 1e-8) << i;
      EXPECT_NEAR(a.objective, b.objective, 1e-8) << i;
    }
    EXPECT_LE((found.held_out - wanted.held_out).nan_to_num().abs().max().item<double>(), 1e-7);
    EXPECT_LE(
        (found.held_variance / wanted.held_variance - 1).nan_to_num().abs().max().item<double>(),
        1e-6);
    ASSERT_EQ(found.networks.size(), wanted.networks.size());
    for (size_t m = 0; m < wanted.networks.size(); ++m) {
      EXPECT_LE(relative_error(flat(found.networks[m]->parameters()),
                               flat(wanted.networks[m]->parameters())),
                1e-6)
          << m;
    }
  }

  study::Problem problem_;
  study::LearnOptions options_;
};

TEST_F(SharedLearning, GivesTheModelOfAllRows) {
  for (const int64_t members : {1, 2}) {
    options_.members = members;
    const study::Problem own = with(alone());
    const study::Learned wanted = study::Learner(own, options_).run();
    for (const int64_t size : {2, 4}) {
      SCOPED_TRACE(testing::Message() << members << " members, ranks " << size);
      on_ranks(size, [&](const auto& group) {
        const study::Problem problem = with(group);
        expect_same(study::Learner(problem, options_).run(), wanted);
      });
    }
  }
}

TEST_F(SharedLearning, GoesOnWithAnotherNumberOfRanks) {
  options_.members = 1;
  const study::Problem own = with(alone());
  const study::Learned wanted = study::Learner(own, options_).run();
  for (const int points : {2, 9}) {  // in the selection, in the refit
    SafeTensors saved;
    on_ranks(2, [&](const auto& group) {
      const study::Problem problem = with(group);
      study::LearnHooks hooks;
      int done = 0;
      if (group->rank() == 1) hooks.stop_requested = [&] { return done++ >= points; };
      if (group->rank() == 0)
        hooks.checkpoint = [&](const SafeTensors& content) { saved = content; };
      EXPECT_EQ(study::Learner(problem, options_).run(hooks).result.outcome, Outcome::kInterrupted);
    });
    for (const int64_t size : {1, 3}) {
      SCOPED_TRACE(testing::Message() << "after " << points << " points, ranks " << size);
      on_ranks(size, [&](const auto& group) {
        const study::Problem problem = with(group);
        study::Learner learner(problem, options_);
        learner.restore(saved);
        expect_same(learner.run(), wanted);
      });
    }
  }
}

TEST_F(SharedLearning, RefusesFewerRowsThanRanks) {
  const auto outcomes = test::outcomes_on_ranks(3, [&](const auto& group) {
    group->sum(1);  // all have met: one that refuses earlier leaves the others without a connection
    study::Problem problem = with(group);
    problem.data.x = problem.data.x.narrow(0, 0, 2);
    problem.data.y = problem.data.y.narrow(0, 0, 2);
    options_.members = 1;
    study::Learner(problem, options_).run();
  });
  EXPECT_THAT(outcomes, testing::Each(HasSubstr("2 training rows cannot be shared by 3 workers")));
}

/// Ranks whose machines round differently would drift apart unseen.
TEST(SharedRows, MustHaveTheSameParameters) {
  const auto outcomes = test::outcomes_on_ranks(2, [](const auto& group) {
    TrainOptions options;
    options.method = "path";
    options.form = "primal";
    TrainData data;
    data.x = torch::eye(4, kDouble);
    data.y = torch::ones({4, 1}, kDouble);
    data.ranks = group;
    // Networks of other seeds.
    nn::Mlp net = test::small_network(4, 1, static_cast<uint64_t>(group->rank()));
    Trainer(net, data, options).run();
  });
  EXPECT_THAT(outcomes, testing::Each(HasSubstr("rank 1 has other parameters than rank 0")));
}

}  // namespace
}  // namespace cdt::train
