/// Quadratic losses and the factor c_L with which their gradient is c_L·e, e = ŷ − y (DESIGN
/// section 2).
#pragma once

#include <torch/types.h>

#include <string>
#include <string_view>

namespace cdt::dynamics {

enum class Loss {
  kSse,      ///< ½‖e‖², c_L = 1
  kHalfMse,  ///< ½‖e‖²/n, c_L = 1/n: the paper's MSE
  kMse,      ///< ‖e‖²/n, c_L = 2/n: PyTorch's mse_loss
};

/// "sse", "half-mse" or "mse".
/// @throws InvalidArgument on another name.
Loss parse_loss(std::string_view name);
std::string to_string(Loss loss);

/// c_L for n = r·n_L outputs.
/// @throws InvalidArgument unless n ≥ 1.
double gradient_factor(Loss loss, int64_t n);

/// L as a function of the error e (any shape).
double loss_value(Loss loss, const torch::Tensor& error);

}  // namespace cdt::dynamics
