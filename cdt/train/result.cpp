#include <cdt/core/text/format.h>
#include <cdt/core/text/names.h>
#include <cdt/train/result.h>
#include <fmt/format.h>

namespace cdt::train {
namespace {

constexpr Names<Outcome, 10> kOutcomes{{{"target", Outcome::kTarget},
                                        {"floor", Outcome::kFloor},
                                        {"stuck", Outcome::kStuck},
                                        {"early-stopping", Outcome::kEarlyStopping},
                                        {"plateau", Outcome::kPlateau},
                                        {"steps", Outcome::kSteps},
                                        {"time", Outcome::kTime},
                                        {"interrupted", Outcome::kInterrupted},
                                        {"stopped", Outcome::kStopped},
                                        {"diverged", Outcome::kDiverged}}};

}  // namespace

std::string to_string(Outcome outcome) { return name_of(kOutcomes, outcome); }
Outcome parse_outcome(std::string_view name) { return parse_name(kOutcomes, name, "outcome"); }

std::string TrainResult::in_words() const {
  std::string text;
  switch (outcome) {
    case Outcome::kTarget:
      text = fmt::format("Converged: the training loss reached its target after {}.",
                         count_of(steps, "step"));
      break;
    case Outcome::kFloor:
      text = fmt::format(
          "Converged after {}: the remaining error is rounding, or out of reach of any label.",
          count_of(steps, "step"));
      break;
    case Outcome::kStuck:
      text = fmt::format(
          "Stopped after {}: no step lowers the error any more. Networks with kinks (relu) can end "
          "so; try a wider network, another activation or another seed.",
          count_of(steps, "step"));
      break;
    case Outcome::kEarlyStopping:
      text = fmt::format("Stopped early after {}: the validation loss no longer improved.",
                         count_of(steps, "step"));
      break;
    case Outcome::kPlateau:
      text = fmt::format(
          "Stopped after {}: the training loss no longer improves. What is left may be noise, "
          "or rows that contradict each other.",
          count_of(steps, "step"));
      break;
    case Outcome::kSteps:
      text = fmt::format("Stopped at the limit of {}.", count_of(steps, "step"));
      break;
    case Outcome::kTime:
      text = fmt::format("Stopped at the time limit after {}.", count_of(steps, "step"));
      break;
    case Outcome::kInterrupted:
      text = fmt::format("Interrupted after {}.", count_of(steps, "step"));
      break;
    case Outcome::kStopped:
      text = fmt::format("Stopped after {}, as the callback asked.", count_of(steps, "step"));
      break;
    case Outcome::kDiverged:
      return fmt::format(
          "DIVERGED at step {}: the training loss is no longer a finite number. Lower the learning "
          "rate, or let the method guarded choose it.",
          steps);
  }
  if (linearizations > 1 || rejected > 0) {
    text += fmt::format(" The kernel was refreshed {}, {} rejected.",
                        linearizations == 2 ? "once" : count_of(linearizations - 1, "time"),
                        rejected == 1 ? "1 step was" : count_of(rejected, "step") + " were");
  }
  if (best_kept) {
    text += fmt::format(
        " The results use the weights of step {}, where the validation loss was best.", best_step);
  } else if (best_step >= 0 && best_val_loss < 0.95 * val_loss) {
    text +=
        fmt::format(" The validation loss was lower, {:.3g}, at step {}: --patience stops there.",
                    best_val_loss, best_step);
  }
  return text;
}

}  // namespace cdt::train
