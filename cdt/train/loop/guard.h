/// The guard of guarded CDT: what to do with a step, given how much of the promised descent came
/// (docs/explanation/guard.md).
#pragma once

#include <cstdint>
#include <limits>

namespace cdt::train {

/// The rate under the guard's care, and its memory.
struct GuardState {
  double rate = 0;        ///< α now
  double start_rate = 0;  ///< α when the kernel was linearized; never exceeded
  double usual_rate = std::numeric_limits<double>::infinity();  ///< what α is unless told
  int64_t good_steps = 0;  ///< accepted with η ≥ ¾ in a row
  int64_t shrinks = 0;     ///< in a row, on a fresh linearization, from usual_rate down
  int64_t failures = 0;    ///< of steps on an older kernel, in a row
  int64_t wary_steps = 0;  ///< so many more renew the kernel, unless they are the best
};

enum class Verdict {
  kAccept,
  kAcceptAndRefresh,  ///< the local model is getting old, or will not last another step
  kRejectAndRefresh,  ///< no descent, but the kernel is not of these parameters
  kRejectAndShrink,   ///< no descent although it is: the step was too long
  kFloor,             ///< no descent however short the step: rounding, or nothing left to gain
};

/// Judges a step by η = (descent that came) / (descent that the local model promised), and moves
/// the rate: down fourfold after a bad step on a fresh linearization, faster from far above the
/// usual rate; up twofold, to at most start_rate, after two good ones. Twenty reductions in a row
/// from the usual rate, or from a lower one, are the floor. `fresh`: the kernel is of the
/// parameters that the step started from. η may be NaN. Less than half of the promise asks for a
/// new kernel. Once a step on an older kernel has failed, the next one asks with less than nearly
/// all of the promise; after each further failure twice as many do, up to 16, until a step on an
/// older kernel succeeds.
Verdict judge(GuardState& state, double eta, bool fresh);

}  // namespace cdt::train
