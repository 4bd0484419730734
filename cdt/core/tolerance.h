/// Every tolerance of the library, in one place, each with its reason. (Those of the tests:
/// tests/support/tolerance.h.)
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <limits>

namespace cdt::tol {

inline constexpr double kEpsilon32 = std::numeric_limits<float>::epsilon();
inline constexpr double kEpsilon64 = std::numeric_limits<double>::epsilon();

/// Machine epsilon of a floating-point dtype (float32 and narrower: float32's).
inline double epsilon(torch::ScalarType dtype) {
  return dtype == torch::kFloat64 ? kEpsilon64 : kEpsilon32;
}

/// A matrix read from a file counts as symmetric within this many units of its own precision.
inline double symmetry(torch::ScalarType dtype) { return 64 * epsilon(dtype); }

/// Eigenvalues below λ_max times this are zero, for a kernel that was stored in `dtype`.
inline double rank_of_stored(int64_t n, torch::ScalarType dtype) {
  return static_cast<double>(n) * epsilon(dtype);
}

/// The same for a kernel that we computed from a network of `dtype`: the Gram products ran in
/// float64, so rounding of the network moves singular values of J, not of Θ = JJᵀ, and enters
/// squared.
inline double rank_of_computed(int64_t n, torch::ScalarType dtype) {
  const double network = epsilon(dtype);
  return static_cast<double>(n) * std::max(kEpsilon64, network * network);
}

/// Relative agreement of vᵀΘv with ‖Jᵀv‖², and of a site's gradient under a random seed with its
/// promise: rounding of a deep network grows to some hundred units; a wrong layout or a forgotten
/// use is wrong in the first digits.
inline double self_check(torch::ScalarType dtype) { return dtype == torch::kFloat64 ? 1e-9 : 1e-4; }

/// By how much of its norm a gradient may differ when the same operators compute it again: a GPU
/// may add up in another order.
inline double same_function(torch::ScalarType dtype) {
  return dtype == torch::kFloat64 ? 1e-12 : 1e-5;
}

/// How much a sample's output may change when it is evaluated alone, relative to the largest
/// output.
inline double coupling(torch::ScalarType dtype) { return dtype == torch::kFloat64 ? 1e-9 : 1e-3; }

/// Inputs count as parallel if 1 − |cos| of their angle, in float64, is no larger: rounding of
/// their entries turns them by a few units of their own precision, and the cosine rounds, too.
inline double parallel(torch::ScalarType dtype) {
  const double angle = 16 * epsilon(dtype);
  return std::max(angle * angle / 2, 16 * kEpsilon64);
}
/// Inputs that were scaled to norm 1 in their own precision lie in the unit ball.
inline double unit_ball(torch::ScalarType dtype) { return 16 * epsilon(dtype); }

/// Kernels and steps with larger entries are refused: their squares overflow.
inline constexpr double kLargestEntry = 1e150;

/// An error on an unreachable direction below this share of ‖e‖ counts as zero.
inline constexpr double kUnreachableError = 1e-6;

/// The doubling iteration stops when its increment falls below this share of the iterate.
inline constexpr double kDoubling = 1e-15;
/// … if the closed loop of that many steps has decayed to this, as well.
inline constexpr double kDiedDown = 1e-3;
/// A solution of the Riccati equation is refined by Newton's method until each mode is this exact,
/// or as exact as rounding lets it.
inline constexpr double kRiccatiRefined = 1e-12;
/// … or, in modes, while the equation of one is off by more than this share of its own terms, which
/// are as small as it is slow. Doubling leaves some ε/s of a mode with step s, so that modes from
/// s = 10⁻⁸ on need no more unless the weights are singular.
inline constexpr double kModesRefined = 1e-9;
/// A solution with a larger relative residual is an error, not a result.
inline constexpr double kRiccatiResidual = 1e-9;
/// The terms of an equation for a state at rest cancel to this share of themselves: rounding of
/// what a caller multiplied.
inline constexpr double kRest = 1e-9;
/// A mode decays if its eigenvalue is inside the unit circle by this much. Nearer to it the cost of
/// the mode, which is as large as its decay is slow, has no four right digits.
inline constexpr double kUndecayed = 1e-11;
/// A direction that moves or costs less than this share of the largest one is lost (Hautus' test).
inline constexpr double kLostDirection = 1e-10;
/// Modes with smaller steps count as null where weights are arbitrary: in 1 − s most of their
/// digits are lost, and 10¹⁰ training steps would not show them.
inline constexpr double kSlowestStep = 1e-10;

/// Eigenvalues closer than this share of the larger count as equal where their eigenspace matters.
inline constexpr double kEqualModes = 1e-9;
/// A direction whose weight in Q is below this share of Q's norm costs nothing.
inline constexpr double kUndetected = 1e-12;
/// Labels of a sample sum to 1 within this: float32 one-hot labels do, smoothed ones nearly.
inline constexpr double kDistribution = 1e-5;

/// A gradient below this share of a large one is zero: what float32 training can reach.
inline constexpr double kStationary = 1e-6;
/// A kernel with no larger eigenvalue is zero: no output changes by more than 10⁻¹² of a parameter.
inline constexpr double kNullKernel = 1e-24;
/// States of a trajectory closer than this share of their size may differ by rounding of float32.
inline constexpr double kDistinctOutputs = 1e-4;
/// The exponential bound may be exceeded by this share of the first error: float32 outputs round.
inline constexpr double kValiditySlack = 1e-6;

}  // namespace cdt::tol
