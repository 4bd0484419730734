/// Records a short run of gradient descent together with its local model. The network is not
/// changed.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/curvature.h>

#include <functional>

namespace cdt::kernel {

struct PathOptions {
  int64_t steps = 20;
  CurvatureOptions curvature;
};

/// The result of f steps. Float64.
struct TrainingPath {
  torch::Tensor outputs;        ///< ŷ(k) [f + 1, n]; ends with the first row that is not finite
  torch::Tensor local_outputs;  ///< ŷ_ϑ(k), likewise
  torch::Tensor displacements;  ///< ‖ϑ(k)‖ [f + 1]
  Curvature curvature;  ///< on the segment from θ(k₀) to the end; at θ(k₀) if the run diverged
};

/// Runs θ ← θ − αJᵀ seed(ŷ) on a copy of the parameters. `seed` maps outputs ŷ [n], float64, to
/// ∂L/∂ŷ [n]: c_L·e for gradient descent, c_L·G e under control. Each step costs a gradient step
/// and a Jacobian-vector product. Do not call between a forward pass and its backward pass.
/// @throws InvalidArgument unless steps ≥ 1 and α > 0, or if the seed does not fit.
TrainingPath record_path(const Model& model, const torch::Tensor& x, double learning_rate,
                         const std::function<torch::Tensor(const torch::Tensor& outputs)>& seed,
                         const PathOptions& options = {});

}  // namespace cdt::kernel
