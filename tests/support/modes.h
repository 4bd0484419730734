/// Eigendecompositions for the tests.
#pragma once

#include <cdt/core/tolerance.h>
#include <cdt/dynamics/modes.h>

namespace cdt::test {

/// Of a kernel that is exact but for rounding.
inline dynamics::Modes spectrum_of(const torch::Tensor& theta) {
  return dynamics::decompose(theta, tol::rank_of_stored(theta.size(0), torch::kFloat64));
}

}  // namespace cdt::test
