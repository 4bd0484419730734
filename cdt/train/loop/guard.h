/// The guard of guarded CDT: decides about a step by the share of the predicted descent that it
/// achieved (docs/explanation/guard.md).
#pragma once

#include <cstdint>
#include <limits>

namespace cdt::train {

/// The rate that the guard adapts, and the guard's counters.
struct GuardState {
  double rate = 0;        ///< current α
  double start_rate = 0;  ///< α when the kernel was linearized; never exceeded
  double usual_rate = std::numeric_limits<double>::infinity();  ///< default α of the method
  int64_t good_steps = 0;  ///< consecutive accepted steps with η ≥ ¾
  int64_t shrinks = 0;     ///< in a row, on a fresh linearization, from usual_rate down
  int64_t failures = 0;    ///< consecutive failures of steps on an older kernel
  int64_t wary_steps = 0;  ///< this many more steps relinearize, unless they achieve almost all of
                           ///< the predicted descent
};

enum class Verdict {
  kAccept,
  kAcceptAndRefresh,  ///< the local model is inaccurate, or unlikely to last another step
  kRejectAndRefresh,  ///< no descent, but the kernel belongs to older parameters
  kRejectAndShrink,   ///< no descent on a fresh kernel: the step was too long
  kFloor,             ///< no descent at any step length: only rounding is left, or nothing to gain
};

/// Judges a step by η = (achieved descent) / (descent predicted by the local model) and adapts the
/// rate. After a bad step on a fresh linearization the rate falls fourfold, or faster if it is far
/// above the usual rate; after two good steps it doubles, up to start_rate. Twenty consecutive
/// reductions from the usual rate, or from a lower one, give kFloor. `fresh` means that the kernel
/// belongs to the parameters from which the step started. η may be NaN. A step with η below one
/// half requests a new kernel. After a step on an older kernel has failed, the next step does so
/// already if η is not nearly 1; each further failure doubles the number of such steps, up to 16,
/// until a step on an older kernel succeeds.
Verdict judge(GuardState& state, double eta, bool fresh);

}  // namespace cdt::train
