/// Relative tolerances of the tests, each with its reason.
#pragma once

namespace cdt::test::tol {

/// Two float64 computations of one kernel: they differ by some hundred roundings.
inline constexpr double kKernel64 = 1e-10;
/// The same in a float32 network.
inline constexpr double kKernel32 = 1e-5;
/// Central differences in float64 with step 1e-5: truncation h² and cancellation ε/h.
inline constexpr double kFiniteDifference = 1e-6;
/// One tiny step against its linear prediction: the second-order term.
inline constexpr double kFirstOrder = 1e-4;
/// Riccati residuals and gains of well-scaled problems.
inline constexpr double kRiccati = 1e-10;
/// Scalar formulas against long double: a few units in the last place.
inline constexpr double kScalar = 1e-14;
/// Simulated against closed-form dynamics.
inline constexpr double kDynamics = 1e-10;

}  // namespace cdt::test::tol
