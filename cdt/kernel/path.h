/// A short run of gradient descent, recorded beside its local model; the network stays as it is.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/curvature.h>

#include <functional>

namespace cdt::kernel {

struct PathOptions {
  int64_t steps = 20;
  CurvatureOptions curvature;
};

/// Where f steps led. Float64.
struct TrainingPath {
  torch::Tensor outputs;        ///< ŷ(k) [f + 1, n]; ends early with the first row not finite
  torch::Tensor local_outputs;  ///< ŷ_ϑ(k), likewise
  torch::Tensor displacements;  ///< ‖ϑ(k)‖ [f + 1]
  Curvature curvature;  ///< on the segment from θ(k₀) to the end; at θ(k₀) after a divergence
};

/// Runs θ ← θ − αJᵀ seed(ŷ) on parameters of its own. `seed` maps outputs ŷ [n], float64, to ∂L/∂ŷ
/// [n]: c_L·e for gradient descent, c_L·G e under control. A step costs a gradient step and a
/// Jacobian-vector product; not between a forward pass and its backward pass.
/// @throws InvalidArgument unless steps ≥ 1 and α > 0, or if the seed does not fit.
TrainingPath record_path(const Model& model, const torch::Tensor& x, double learning_rate,
                         const std::function<torch::Tensor(const torch::Tensor& outputs)>& seed,
                         const PathOptions& options = {});

}  // namespace cdt::kernel
