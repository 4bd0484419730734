/// Activation functions by name.
#pragma once

#include <torch/types.h>

#include <string>
#include <string_view>

namespace cdt::nn {

enum class Activation { kRelu, kTanh, kGelu, kSoftplus, kErf };

Activation parse_activation(std::string_view name);
std::string to_string(Activation activation);

/// φ(h), elementwise.
torch::Tensor activate(Activation activation, const torch::Tensor& h);

}  // namespace cdt::nn
