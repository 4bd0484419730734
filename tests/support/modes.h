/// Eigendecompositions for the tests.
#pragma once

#include <cdt/core/tolerance.h>
#include <cdt/dynamics/modes.h>

namespace cdt::test {

/// The modes of a kernel that is exact up to rounding.
inline dynamics::Modes spectrum_of(const torch::Tensor& theta) {
  return dynamics::decompose(theta, tol::rank_of_stored(theta.size(0), torch::kFloat64));
}

}  // namespace cdt::test
