/// Guarded training with form batch (batch_momentum.h): one batch per step, under the guard of
/// whole epochs (epoch_guard.h).
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/method.h>
#include <cdt/train/methods/batch_momentum.h>

namespace cdt::train {
namespace {

class Batchwise : public StepMethod {
 public:
  explicit Batchwise(std::shared_ptr<const Setup> setup)
      : setup_(std::move(setup)), choice_(choose_form("batch", form_sizes(*setup_))) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override {
    BatchRates rates = BatchRates().at(share_);
    rates.rate *= setup_->factor(step);
    const kernel::Model& model = setup_->model;
    const bool checked = step % setup_->batches.per_epoch() == 0;
    const auto how = linearization_for("batch", batch_options(*setup_, checked), model.dtype());
    momentum_.take(model,
                   {kernel::linearize(model, pass.x, how),
                    setup_->loss->residuals(pass.values, pass.labels, pass.weights),
                    {}},
                   /*decay=*/0, rates);
    row.learning_rate = rates.rate;
    ++row.refreshed;
    ++steps_;
    return {};
  }

  double learning_rate() const override { return steps_ > 0 ? BatchRates().rate : kUnknown; }
  int64_t linearizations() const override { return steps_; }
  control::Certificate certificate(const torch::Tensor&) const override {
    return steps_ > 0 ? of_batches() : control::Certificate();
  }
  FormUsed form() const override { return {choice_.form, choice_.why}; }
  /// The momentum is reset if it led to a higher objective.
  void damp(double share) override {
    if (share < share_) momentum_.forget();
    share_ = share;
  }

  void save(SavedState& state) const override {
    momentum_.save(state);
    state.values["linearizations"] = steps_;
    state.values["share"] = share_;
  }
  void restore(const SavedState& state) override {
    momentum_.restore(state, setup_->model);
    steps_ = state.count("linearizations");
    share_ = state.positive("share");
  }

 private:
  std::shared_ptr<const Setup> setup_;
  FormChoice choice_;
  BatchMomentum momentum_;
  double share_ = 1;  ///< share of its rates, set by the epoch guard
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<StepMethod> make_batchwise(std::shared_ptr<const Setup> setup) {
  return std::make_unique<Batchwise>(std::move(setup));
}

}  // namespace cdt::train
