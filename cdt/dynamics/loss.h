/// The losses that the library knows, and the factor c_L with which the gradient of a quadratic one
/// is c_L·e, e = ŷ − y (DESIGN section 2). Derivatives of all of them: loss_linearization.h.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <string>
#include <string_view>

namespace cdt::dynamics {

/// The first three are quadratic: their local dynamics is that of S = αc_LΘ.
enum class Loss {
  kSse,      ///< ½‖e‖², c_L = 1
  kHalfMse,  ///< ½‖e‖²/n, c_L = 1/n: the paper's MSE
  kMse,      ///< ‖e‖²/n, c_L = 2/n: PyTorch's mse_loss
  kMae,      ///< ‖e‖₁/n: no curvature, so nothing to control; no derivative where e is zero
  kCrossEntropy,  ///< −(1/r)Σ yᵀlog softmax(ŷ) on logits: PyTorch's cross_entropy
  kNegativeLog,   ///< −yᵀlog ŷ on probabilities ŷ > 0: the paper's cross entropy (eq. CEloss)
};

/// "sse", "half-mse", "mse", "mae", "cross-entropy" or "negative-log".
/// @throws InvalidArgument on another name.
Loss parse_loss(std::string_view name);
std::string to_string(Loss loss);

/// Whether the gradient is c_L·e.
bool is_quadratic(Loss loss);
/// @throws InvalidArgument unless the loss is quadratic; the message begins with who needs it so.
void require_quadratic(Loss loss, std::string_view who);

/// c_L for n = r·n_L outputs.
/// @throws InvalidArgument unless the loss is quadratic and n ≥ 1.
double gradient_factor(Loss loss, int64_t n);

/// αc_L: what controllers and analysis want to know of a rate and a loss. The local dynamics is
/// e⁺ = (I − S)e with S = αc_LΘ.
/// @throws InvalidArgument as gradient_factor, or unless α ≥ 0 and finite.
double step_scale(double learning_rate, Loss loss, int64_t n);

/// ½c_L‖e‖² as a function of the error e (any shape).
/// @throws InvalidArgument unless the loss is quadratic and e finite.
double loss_value(Loss loss, const torch::Tensor& error);

}  // namespace cdt::dynamics
