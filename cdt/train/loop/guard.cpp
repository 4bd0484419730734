#include <cdt/train/loop/guard.h>

#include <algorithm>
#include <cmath>

namespace cdt::train {
namespace {

constexpr double kPoor = 0.5;
constexpr double kGood = 0.75;
/// On Ames, architecture 3, kernels with η = 95 % failed at the next step.
constexpr double kExcellent = 0.97;
constexpr int64_t kMostFailures = 4;  // further failures do not double the wary steps
constexpr int64_t kGoodStepsToGrow = 2;
constexpr double kShrink = 4;
constexpr double kGrow = 2;
/// 4²⁰ ≈ 10¹²: from the usual rate, far below the one at which gradient descent is stable.
constexpr int64_t kMaxShrinks = 20;

}  // namespace

Verdict judge(GuardState& state, double eta, bool fresh) {
  if (!(eta > 0)) {  // or NaN
    state.good_steps = 0;
    if (!fresh) {
      state.wary_steps = int64_t{1} << std::min(state.failures++, kMostFailures);
      return Verdict::kRejectAndRefresh;
    }
    if (state.rate > state.usual_rate) {  // halfway to the usual rate, in powers of ten
      const double halfway = std::sqrt(state.rate) * std::sqrt(state.usual_rate);
      state.rate = std::min(state.rate / kShrink, halfway);
      return Verdict::kRejectAndShrink;
    }
    if (++state.shrinks > kMaxShrinks) return Verdict::kFloor;
    state.rate /= kShrink;
    return Verdict::kRejectAndShrink;
  }
  state.shrinks = 0;
  state.good_steps = eta >= kGood ? state.good_steps + 1 : 0;
  if (state.good_steps >= kGoodStepsToGrow && state.rate < state.start_rate) {
    state.rate = std::min(state.start_rate, state.rate * kGrow);
    state.good_steps = 0;
  }
  if (!fresh) state.failures = state.wary_steps = 0;
  const bool wary = state.wary_steps > 0;
  if (wary) --state.wary_steps;
  return eta < (wary ? kExcellent : kPoor) ? Verdict::kAcceptAndRefresh : Verdict::kAccept;
}

}  // namespace cdt::train
