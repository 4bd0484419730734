/// A bound from above on how strongly a network of dense layers bends in its parameters, beside the
/// estimate from below of kernel/curvature.h.
#pragma once

#include <cdt/nn/mlp.h>

#include <optional>

namespace cdt::nn {

/// No less than ‖∂²ŷ/∂θ²‖ at the network's present parameters, for inputs x [r, features]: spectral
/// norms of the weights and derivatives of the activations at this very place, layer by layer.
/// None for activations with kinks. It grows with the depth, and is no bound elsewhere.
/// O(samples × width²), and a singular value decomposition a layer.
std::optional<double> curvature_bound(const Mlp& network, const torch::Tensor& x);

}  // namespace cdt::nn
