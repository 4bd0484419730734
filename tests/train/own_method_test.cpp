// A training method of one's own, given by value: trained, refused, saved and resumed by Trainer.
#include <cdt/train/method.h>
#include <cdt/train/trainer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::kDouble;
using torch::Tensor;

constexpr double kMomentum = 0.7;

/// v ← 0.7 v + g, θ ← θ − αv.
class HeavyBall : public StepMethod {
 public:
  explicit HeavyBall(std::shared_ptr<const Setup> setup) : setup_(std::move(setup)) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override {
    const torch::NoGradGuard no_graph;
    row.learning_rate = learning_rate() * setup_->factor(step);
    const auto gradients = pass.gradients(setup_->loss->gradient(pass.values, pass.labels));
    if (velocity_.empty()) {
      for (const Tensor& g : gradients) velocity_.push_back(torch::zeros_like(g));
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      velocity_[i].mul_(kMomentum).add_(gradients[i]);
      Tensor(setup_->model.parameters()[i]).sub_(velocity_[i] * row.learning_rate);
    }
    return {};
  }
  double learning_rate() const override { return setup_->options.learning_rate.value_or(0.1); }
  void save(SavedState& state) const override {
    state.values["moves"] = !velocity_.empty();
    state.put("velocity", velocity_);
  }
  void restore(const SavedState& state) override {
    if (state.flag("moves")) velocity_ = state.tensors_like("velocity", setup_->model.parameters());
  }

 private:
  std::shared_ptr<const Setup> setup_;
  std::vector<Tensor> velocity_;
};

Method heavy_ball() {
  return MethodTraits{.name = "heavy-ball",
                      .gradients = true,
                      .start_rate = 0.1,
                      .by_curvature = false,
                      .make = [](auto setup) { return std::make_unique<HeavyBall>(setup); }};
}

TrainOptions options_of(int64_t steps) {
  TrainOptions options;
  options.method = heavy_ball();
  options.schedule.kind = Schedule::Kind::kInverse;
  options.steps = steps;
  return options;
}

TEST(OwnMethod, TrainsAsItsFormulaSays) {
  const TrainData data = test::smooth_data(20, 2, 3);
  nn::Mlp net = test::small_network(4, 2, 5), other = test::small_network(4, 2, 5);
  const TrainResult found = Trainer(net, data, options_of(25)).run();
  EXPECT_EQ(found.steps, 25);
  EXPECT_EQ(found.learning_rate, 0.1);

  std::vector<Tensor> velocity;
  for (const Tensor& p : other->parameters()) velocity.push_back(torch::zeros_like(p));
  for (int step = 0; step < 25; ++step) {
    const Tensor loss = torch::mse_loss(other->forward(data.x), data.y);
    const auto gradients = torch::autograd::grad({loss}, other->parameters());
    const torch::NoGradGuard no_graph;
    for (size_t i = 0; i < gradients.size(); ++i) {
      velocity[i] = kMomentum * velocity[i] + gradients[i];
      other->parameters()[i].sub_(0.1 / (1 + 0.01 * step) * velocity[i]);
    }
  }
  const auto ours = test::parameters_of(net), theirs = test::parameters_of(other);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LE(test::relative_error(ours[i], theirs[i]), 1e-12);
  }
}

TEST(OwnMethod, ResumesToTheSameBits) {
  const TrainData data = test::smooth_data(20, 2, 3);
  TrainOptions options = options_of(30);
  options.batch = 6;
  options.reshuffle = true;
  nn::Mlp whole = test::small_network(4, 2, 5), half = test::small_network(4, 2, 5);
  const TrainResult expected = Trainer(whole, data, options).run();
  Trainer first(half, data, options);
  for (int k = 0; k < 11; ++k) first.step();
  const SafeTensors saved = first.checkpoint();
  const auto again = test::small_network(4, 2, 6);
  Trainer second(again, data, options);
  second.restore(saved);
  EXPECT_EQ(second.run().train_loss, expected.train_loss);
  EXPECT_TRUE(test::same_bits(test::parameters_of(again), test::parameters_of(whole)));

  TrainOptions others = options;
  others.method = "adam";
  EXPECT_THAT([&] { Trainer(again, data, others).restore(saved); },
              testing::ThrowsMessage<InvalidArgument>(
                  testing::HasSubstr("must be of method adam, got heavy-ball")));
}

TEST(OwnMethod, IsAskedByItsTraits) {
  const auto refusal = [](auto change) -> std::string {
    TrainOptions options = options_of(5);
    change(options);
    try {
      require_valid(options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "was not refused";
  };
  EXPECT_EQ(refusal([](TrainOptions&) {}), "was not refused");
  EXPECT_EQ(refusal([](TrainOptions& o) { o.loss = loss::mae(); }), "was not refused");
  EXPECT_THAT(refusal([](TrainOptions& o) { o.form = "dual"; }),
              testing::HasSubstr("heavy-ball solves nothing"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.relinearize = parse_relinearization("every:3"); }),
              testing::HasSubstr("heavy-ball uses no kernel"));
  EXPECT_THAT(refusal([](TrainOptions& o) { o.method = MethodTraits{.name = "empty"}; }),
              testing::HasSubstr("got 'empty'"));
  TrainData weighted = test::smooth_data(20, 2, 3);
  weighted.sample_weights = torch::linspace(1, 2, 20, kDouble);
  EXPECT_THROW(Trainer(test::small_network(4, 2, 5), weighted, options_of(5)), InvalidArgument);
  EXPECT_FALSE(heavy_ball() == Method("gd"));
  EXPECT_TRUE(heavy_ball() == heavy_ball());
}

}  // namespace
}  // namespace cdt::train
