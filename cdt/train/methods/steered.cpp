/// CDT, the paper's Algorithm 1: labels steered by a gain.
#include <cdt/train/loop/renewal.h>
#include <cdt/train/method.h>

namespace cdt::train {
namespace {

class SteeredDescent : public StepMethod, public BlindSteps {
 public:
  explicit SteeredDescent(std::shared_ptr<const Setup> setup)
      : setup_(std::move(setup)),
        renewal_(setup_, make_feedback_source(setup_, {.steers = true})) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override {
    last_ = pass.batch;
    Plan& plan = renewal_.plan_for(step, pass, row);
    row.learning_rate = plan.guard.rate * setup_->factor(step);
    const Steered steered = plan.feedback->steer(pass.values);
    row.augment_norm = steered.augment().norm().item<double>();
    pass.descend(steered.seed, row.learning_rate, row.learning_rate * setup_->options.weight_decay);
    plan.feedback->took(pass.values);
    plan.tighten_bound(setup_->factor(step));
    return {};
  }
  void prepare(int64_t step, const Pass& pass, StepRecord& row) override {
    last_ = pass.batch;
    renewal_.plan_for(step, pass, row);
  }
  control::Certificate certificate(const torch::Tensor& theta) const override {
    return renewal_.certificate(last_, theta);
  }
  BlindSteps* blind() override { return this; }
  int64_t left(int64_t step) const override { return renewal_.unwatched_steps(kAll, step); }
  Steered heading(const torch::Tensor& outputs, const torch::Tensor&) override {
    return renewal_.plan_of(kAll).feedback->steer(outputs);
  }
  std::optional<LinearHeading> linear() override {
    const torch::Tensor matrix = renewal_.plan_of(kAll).feedback->matrix();
    if (!matrix.defined()) return std::nullopt;
    return LinearHeading{matrix};
  }
  double rate(int64_t step) const override {
    return renewal_.plan_of(kAll).guard.rate * setup_->factor(step);
  }
  void took(int64_t step) override {
    Plan& plan = renewal_.plan_of(kAll);
    plan.last_used = step;
    plan.tighten_bound(setup_->factor(step));
  }
  void adopt(const dynamics::Modes& modes) override { renewal_.adopt(modes); }
  double learning_rate() const override { return renewal_.learning_rate(); }
  int64_t linearizations() const override { return renewal_.linearizations(); }
  void save(SavedState& state) const override { renewal_.save(state); }
  void restore(const SavedState& state) override { renewal_.restore(state); }

 private:
  static constexpr int64_t kAll = 0;  ///< the batch number of runs on all samples

  std::shared_ptr<const Setup> setup_;
  Renewal renewal_;
  int64_t last_ = -1;  ///< batch of the last step
};

}  // namespace

MethodTraits cdt_method() {
  return {.name = "cdt",
          .summary = "controlled descent as in the paper",
          .controlled = true,
          .blind = true,
          .balances = true,
          .designed = true,
          .follows_forecast = true,
          .weights = MethodTraits::Weights::kCost,
          .start_rate = 0.5,
          .make = [](auto setup) { return std::make_unique<SteeredDescent>(std::move(setup)); }};
}

}  // namespace cdt::train
