/// Simulation of the local training dynamics (paper eq. linear, cloop) in error coordinates e = ŷ −
/// y.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <optional>

namespace cdt::dynamics {

/// S = α c_L Θ [n, n] for step_scale = αc_L: gradient descent is e⁺ = (I − S)e, and label augments
/// y_u add S y_u.
/// @throws InvalidArgument if Θ is not square float64 and finite, or αc_L is negative or not
///   finite.
torch::Tensor step_matrix(const torch::Tensor& theta, double step_scale);

/// A simulated trajectory of f steps.
struct Trajectory {
  torch::Tensor errors;    ///< [f + 1, n], the first row is e(0).
  torch::Tensor augments;  ///< y_u [f, n]; zero for gradient descent.
};

/// e⁺ = (I − S)e + S y_u with y_u = −K e, or y_u = 0 without a gain.
/// @throws InvalidArgument if shapes do not fit or an entry is not finite, or steps < 0.
/// @throws NumericalError if the trajectory overflows.
Trajectory simulate(const torch::Tensor& S, const torch::Tensor& initial_error, int64_t steps,
                    const std::optional<torch::Tensor>& K = std::nullopt);

/// The same for a given sequence of augments y_u [f, n].
Trajectory simulate_augments(const torch::Tensor& S, const torch::Tensor& initial_error,
                             const torch::Tensor& augments);

}  // namespace cdt::dynamics
