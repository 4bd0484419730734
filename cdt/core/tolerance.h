/// All tolerances of the library, each with its reason. Those of the tests:
/// tests/support/tolerance.h.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <limits>

namespace cdt::tol {

inline constexpr double kEpsilon32 = std::numeric_limits<float>::epsilon();
inline constexpr double kEpsilon64 = std::numeric_limits<double>::epsilon();

/// Machine epsilon of a floating-point dtype; float32's for float32 and narrower.
inline double epsilon(torch::ScalarType dtype) {
  return dtype == torch::kFloat64 ? kEpsilon64 : kEpsilon32;
}

/// A matrix read from a file counts as symmetric within this many units of its own precision.
inline double symmetry(torch::ScalarType dtype) { return 64 * epsilon(dtype); }

/// Eigenvalues below this share of λ_max are zero, for a kernel stored in `dtype`.
inline double rank_of_stored(int64_t n, torch::ScalarType dtype) {
  return static_cast<double>(n) * epsilon(dtype);
}

/// The same for a kernel computed here from a network of `dtype`. Gram products run in float64, so
/// rounding of the network perturbs singular values of J, not of Θ = JJᵀ, and enters squared.
inline double rank_of_computed(int64_t n, torch::ScalarType dtype) {
  const double network = epsilon(dtype);
  return static_cast<double>(n) * std::max(kEpsilon64, network * network);
}

/// Relative agreement of vᵀΘv with ‖Jᵀv‖², and of a site's gradient under a random seed with the
/// predicted one. Rounding of a deep network grows to some hundred units; a wrong layout or a
/// missed use of a parameter changes the first digits.
inline double self_check(torch::ScalarType dtype) { return dtype == torch::kFloat64 ? 1e-9 : 1e-4; }

/// Relative change of a gradient's norm when the same operators compute it again: a GPU may sum in
/// another order.
inline double same_function(torch::ScalarType dtype) {
  return dtype == torch::kFloat64 ? 1e-12 : 1e-5;
}

/// How much a sample's output may change when it is evaluated alone, relative to the largest
/// output.
inline double coupling(torch::ScalarType dtype) { return dtype == torch::kFloat64 ? 1e-9 : 1e-3; }

/// Inputs count as parallel if 1 − |cos| of their angle, in float64, is at most this. Rounding of
/// the entries turns inputs by a few units of their own precision, and the cosine rounds too.
inline double parallel(torch::ScalarType dtype) {
  const double angle = 16 * epsilon(dtype);
  return std::max(angle * angle / 2, 16 * kEpsilon64);
}
/// Slack of the unit ball for inputs that were scaled to norm 1 in their own precision.
inline double unit_ball(torch::ScalarType dtype) { return 16 * epsilon(dtype); }

/// Kernels and steps with larger entries are refused: their squares overflow.
inline constexpr double kLargestEntry = 1e150;

/// An error on an unreachable direction below this share of ‖e‖ counts as zero.
inline constexpr double kUnreachableError = 1e-6;

/// The doubling iteration stops when its increment falls below this share of the iterate.
inline constexpr double kDoubling = 1e-15;
/// … and the closed loop over as many steps has decayed to this.
inline constexpr double kDiedDown = 1e-3;
/// Newton's method refines a Riccati solution until each mode has this relative accuracy, or the
/// accuracy that rounding permits.
inline constexpr double kRiccatiRefined = 1e-12;
/// … or, in modal form, while the equation of a mode is violated by more than this share of its own
/// terms, which scale with its step. Doubling leaves an error of about ε/s in a mode with step s,
/// so modes from s = 10⁻⁸ on need no refinement unless the weights are singular.
inline constexpr double kModesRefined = 1e-9;
/// A solution with a larger relative residual is an error, not a result.
inline constexpr double kRiccatiResidual = 1e-9;
/// The terms of the equations of an equilibrium cancel to this share of themselves: rounding of
/// products that the caller computed.
inline constexpr double kRest = 1e-9;
/// A mode decays if its eigenvalue is inside the unit circle by at least this. Closer to the circle
/// the mode's cost, which grows as the decay slows, has fewer than four correct digits.
inline constexpr double kUndecayed = 1e-11;
/// A direction that moves or costs less than this share of the largest is uncontrollable or
/// undetectable (Hautus test).
inline constexpr double kLostDirection = 1e-10;
/// With arbitrary weights, modes with smaller steps count as null: 1 − s loses most of their
/// digits, and 10¹⁰ training steps would not move them.
inline constexpr double kSlowestStep = 1e-10;

/// Eigenvalues closer than this share of the larger count as equal where their eigenspace matters.
inline constexpr double kEqualModes = 1e-9;
/// A direction whose weight in Q is below this share of Q's norm costs nothing.
inline constexpr double kUndetected = 1e-12;
/// Labels of a sample sum to 1 within this: float32 one-hot labels do, smoothed ones nearly.
inline constexpr double kDistribution = 1e-5;

/// A gradient below this share of a large one is zero: what float32 training can reach.
inline constexpr double kStationary = 1e-6;
/// A kernel whose eigenvalues are all at most this is zero: no output changes by more than 10⁻¹² of
/// a parameter change.
inline constexpr double kNullKernel = 1e-24;
/// States of a trajectory that differ by less than this share of their size may differ by float32
/// rounding only.
inline constexpr double kDistinctOutputs = 1e-4;
/// Measured errors may exceed the exponential bound by this share of the first error: float32
/// outputs round.
inline constexpr double kValiditySlack = 1e-6;

}  // namespace cdt::tol
