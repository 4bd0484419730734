#include <cdt/train/stopping.h>

#include <cmath>

namespace cdt::train {
namespace {

/// A training loss lower by less than this share does not count as an improvement.
constexpr double kPlateauShare = 1e-4;

}  // namespace

StoppingRules::Verdict StoppingRules::check(const Seen& seen) {
  Verdict verdict;
  const auto stop = [&](Outcome outcome) {
    verdict.outcome = outcome;
    return verdict;
  };
  if (!std::isfinite(seen.batch_loss) ||
      (!std::isnan(seen.train_loss) && !std::isfinite(seen.train_loss))) {
    return stop(Outcome::kDiverged);
  }
  if (seen.val_loss < best_val_loss_ || (best_step_ < 0 && std::isfinite(seen.val_loss))) {
    best_val_loss_ = seen.val_loss;
    best_step_ = seen.step;
    verdict.best = true;
  }
  // A loss with smoothed labels has a positive minimum: the distance from it is compared.
  if (options_.stop_loss > 0 &&
      (seen.train_loss <= options_.stop_loss || seen.misfit <= options_.stop_loss)) {
    return stop(Outcome::kTarget);
  }
  if (seen.step >= options_.steps) return stop(Outcome::kSteps);
  if (options_.patience > 0 && best_step_ >= 0 && seen.step - best_step_ >= options_.patience) {
    return stop(Outcome::kEarlyStopping);
  }
  if (options_.plateau > 0 && !std::isnan(seen.train_loss)) {
    if (!(seen.train_loss > plateau_loss_ * (1 - kPlateauShare))) {
      plateau_loss_ = seen.train_loss;
      plateau_step_ = seen.step;
    }
    if (seen.step - plateau_step_ >= options_.plateau) return stop(Outcome::kPlateau);
  }
  if (options_.max_seconds > 0 && seen.seconds >= options_.max_seconds) {
    return stop(Outcome::kTime);
  }
  return verdict;
}

void StoppingRules::save(SavedState& state) const {
  state.values["best_step"] = best_step_;
  state.values["best_val_loss"] = best_val_loss_;
  state.values["plateau_step"] = plateau_step_;
  state.values["plateau_loss"] = plateau_loss_;
}

void StoppingRules::restore(const SavedState& state) {
  best_step_ = state.count("best_step", -1);
  best_val_loss_ = state.number("best_val_loss");
  plateau_step_ = state.count("plateau_step");
  plateau_loss_ = state.number("plateau_loss");
}

}  // namespace cdt::train
