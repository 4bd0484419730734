/// What the controllers share: checked errors, and augmented labels from steered ones.
#pragma once

#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::control {

/// An error e [n], float64 and finite.
inline void require_error(const torch::Tensor& error, int64_t n) {
  require_floating(error, "error");
  require_shape(error, {n}, "error");
  CDT_REQUIRE(error.scalar_type() == torch::kFloat64, "error must be float64, got ",
              error.scalar_type());
  require_finite(error, "error");
}

/// v [n] as a controller gave it, detached, float64.
inline torch::Tensor require_steered(const torch::Tensor& v, int64_t n) {
  require_shape(v, {n}, "what a controller steers to");
  require_floating(v, "what a controller steers to");
  return v.detach().to(torch::kFloat64);
}

/// ȳ = ŷ − G(ŷ − y) for n outputs, in float64, with ŷ's shape, dtype and device. `steer` maps e [n]
/// to G e [n].
template <class Steer>
torch::Tensor augmented_label(const torch::Tensor& y_hat, const torch::Tensor& y, int64_t n,
                              const Steer& steer) {
  require_floating(y_hat, "y_hat");
  require_floating(y, "y");
  CDT_REQUIRE(y_hat.sizes() == y.sizes(), "outputs and labels must have one shape; they have ",
              y_hat.sizes(), " and ", y.sizes());
  CDT_REQUIRE(y.numel() == n, "the controller was designed for ", n, " outputs, these are ",
              y.numel());
  const torch::Tensor outputs = y_hat.detach().to(torch::kFloat64).reshape({-1});
  const torch::Tensor error = outputs - y.detach().to(outputs.options()).reshape({-1});
  require_finite(error, "y_hat − y");
  return (outputs - steer(error).to(outputs.device())).view(y_hat.sizes()).to(y_hat.scalar_type());
}

}  // namespace cdt::control
