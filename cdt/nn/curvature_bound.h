/// Upper bound on a dense network's curvature in its parameters; kernel/curvature.h estimates it
/// from below.
#pragma once

#include <cdt/nn/mlp.h>

#include <optional>

namespace cdt::nn {

/// Upper bound on ‖∂²ŷ/∂θ²‖ at the network's current parameters, for inputs x [r, features]:
/// multiplies spectral norms of the weights and derivatives of the activations, layer by layer.
/// None for activations with kinks. It grows with depth and holds at this point only. O(samples ×
/// width²), and a singular value decomposition per layer.
std::optional<double> curvature_bound(const Mlp& network, const torch::Tensor& x);

}  // namespace cdt::nn
