/// Checks of a controller's inputs and outputs.
#pragma once

#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::control {

/// @throws InvalidArgument unless the error is [n], float64 and finite.
inline void require_error(const torch::Tensor& error, int64_t n) {
  require_floating(error, "error");
  require_shape(error, {n}, "error");
  CDT_REQUIRE(error.scalar_type() == torch::kFloat64, "error must be float64, got ",
              error.scalar_type());
  require_finite(error, "error");
}

/// The result v [n] of a controller, checked, detached, float64.
inline torch::Tensor require_steered(const torch::Tensor& v, int64_t n) {
  require_shape(v, {n}, "what a controller steers to");
  require_floating(v, "what a controller steers to");
  return v.detach().to(torch::kFloat64);
}

}  // namespace cdt::control
