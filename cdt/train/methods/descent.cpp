/// Gradient descent.
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/method.h>

#include <cmath>
#include <limits>

namespace cdt::train {
namespace {

class Descent : public StepMethod, public BlindSteps {
 public:
  Descent(std::shared_ptr<const Setup> setup, double boost)
      : setup_(std::move(setup)), rate_(boost) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override {
    rate_.at(*setup_, pass);
    row.learning_rate = rate(step);
    pass.descend(heading(pass.values, pass.labels).seed, row.learning_rate,
                 row.learning_rate * setup_->options.weight_decay);
    return {};
  }
  BlindSteps* blind() override { return this; }
  int64_t left(int64_t) const override {
    return std::isnan(rate_.value()) ? 0 : std::numeric_limits<int64_t>::max();
  }
  Steered heading(const torch::Tensor& outputs, const torch::Tensor& labels) override {
    return {setup_->loss->gradient(outputs, labels), {}};
  }
  std::optional<LinearHeading> linear() override {
    if (!setup_->options.loss->quadratic()) return std::nullopt;
    return LinearHeading{};
  }
  double rate(int64_t step) const override { return rate_.value() * setup_->factor(step); }
  void adopt(const dynamics::Modes& modes) override { rate_.adopt(modes); }
  double learning_rate() const override { return rate_.value(); }
  void save(SavedState& state) const override { rate_.save(state); }
  void restore(const SavedState& state) override { rate_.restore(state); }

 private:
  std::shared_ptr<const Setup> setup_;
  BaseRate rate_;
};

}  // namespace

// Half the largest rate without oscillation, so that even the matched baseline is stable.

MethodTraits gd_method() {
  return {.name = "gd",
          .summary = "gradient descent",
          .blind = true,
          .follows_forecast = true,
          .start_rate = 0.5,
          .make = [](auto setup) { return std::make_unique<Descent>(std::move(setup), 1); }};
}

/// Uses α√(1 + q/p), the rate that CDT gives slow modes: the fair baseline.
MethodTraits gd_matched_method() {
  return {.name = "gd-matched",
          .summary = "gd at lr·√(1 + q/p)",
          .blind = true,
          .balances = true,
          .start_rate = 0.5,
          .make = [](auto setup) {
            const double boost = std::sqrt(1 + setup->options.q / setup->options.p);
            return std::make_unique<Descent>(std::move(setup), boost);
          }};
}

}  // namespace cdt::train
