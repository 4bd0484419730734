#include <cdt/train/epoch_guard.h>

#include <algorithm>

namespace cdt::train {
namespace {

/// The share falls faster than it recovers, to lose few epochs: from the usual rate of 10⁴ units,
/// four reductions reach plain gradient steps on every batch.
constexpr double kDamp = 16;
constexpr double kRelease = 2;
constexpr int64_t kGoodEpochs = 2;
/// 16¹⁰ ≈ 10¹²
constexpr int64_t kMaxFailures = 10;

}  // namespace

bool EpochGuard::holds(const Whole& here) const {
  return step_ < 0 || here.objective <= at_start_.objective;  // false for NaN
}

void EpochShare::kept() {
  failures_ = 0;
  if (++good_ < kGoodEpochs) return;
  share_ = std::min(1.0, share_ * kRelease);
  good_ = 0;
}

void EpochShare::taken_back() {
  share_ /= kDamp;
  good_ = 0;
  ++failures_;
}

bool EpochShare::exhausted() const { return failures_ > kMaxFailures; }

void EpochShare::save(SavedState& state) const {
  state.values["epoch_damping"] = share_;
  state.values["epoch_good"] = good_;
  state.values["epoch_failures"] = failures_;
}

void EpochShare::restore(const SavedState& state) {
  share_ = state.positive("epoch_damping");
  good_ = state.count("epoch_good");
  failures_ = state.count("epoch_failures");
}

bool EpochGuard::accept(int64_t step, Whole& here) {
  if (step == step_) return true;
  const bool held = holds(here);
  if (held) {
    if (step_ >= 0) share_.kept();
    at_start_ = here;
    copy_parameters(setup_->model, start_);
  } else {
    share_.taken_back();
    rejected_ += step - step_;
    here = at_start_;
    set_parameters(setup_->model, start_);
  }
  step_ = step;
  return held;
}

void EpochGuard::start_from(int64_t step) {
  step_ = step;
  at_start_ = setup_->whole();
  copy_parameters(setup_->model, start_);
}

void EpochGuard::save(SavedState& state) const {
  state.values["epoch_step"] = step_;
  state.values["epoch_loss"] = at_start_.loss;
  state.values["epoch_objective"] = at_start_.objective;
  share_.save(state);
  state.values["epoch_rejected"] = rejected_;
  state.put("epoch", start_);
}

void EpochGuard::restore(const SavedState& state) {
  if (!state.values.contains("epoch_step")) return;
  step_ = state.count("epoch_step", -1);
  at_start_ = {state.number("epoch_loss"), state.number("epoch_objective")};
  share_.restore(state);
  rejected_ = state.count("epoch_rejected");
  if (step_ >= 0) start_ = state.tensors_like("epoch", setup_->model.parameters());
}

}  // namespace cdt::train
