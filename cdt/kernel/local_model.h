/// The network's first-order model in its parameters (paper eq. y_lin).
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

namespace cdt::kernel {

/// ŷ_ϑ(k) = ŷ(k₀) + J₀ϑ(k), ϑ = θ(k) − θ(k₀), with J₀ = ∂ŷ/∂θ at θ(k₀) = the parameters of
/// construction. One Jacobian-vector product per prediction; J₀ is never formed.
class LocalModel {
 public:
  /// Keeps a copy of the parameters and the outputs on x.
  /// @throws InvalidArgument and NumericalError as evaluate() does.
  LocalModel(Model model, const torch::Tensor& x);
  /// From earlier parameters `origin` of the model, shaped like its own, and its outputs on x
  /// there.
  /// @throws InvalidArgument if the number of parameters differs.
  LocalModel(Model model, torch::Tensor x, std::vector<torch::Tensor> origin,
             const torch::Tensor& outputs);

  /// ŷ(k₀) [n], float64.
  const torch::Tensor& outputs() const { return outputs_; }
  /// ϑ [P]: displacement of the model's parameters from θ(k₀), in its dtype.
  torch::Tensor displacement() const;
  /// θ(k₀), shaped like the parameters.
  const std::vector<torch::Tensor>& origin() const { return origin_; }
  /// ŷ(k₀) + J₀ϑ [n], float64, for ϑ [P]. Sets the model to θ(k₀) and restores it, even if an
  /// exception is thrown. Safe between a forward pass and its backward pass.
  /// @throws InvalidArgument if ϑ has another length, dtype or device, or is not finite.
  torch::Tensor predict(const torch::Tensor& displacement) const;
  /// The same at the model's current parameters.
  torch::Tensor predict() const { return predict(displacement()); }
  /// ‖ŷ − ŷ_ϑ‖ at the current parameters: the true linearization error. Needs one more forward
  /// pass.
  double error() const;

 private:
  Model model_;
  torch::Tensor x_;
  std::vector<torch::Tensor> origin_;
  torch::Tensor outputs_;
};

}  // namespace cdt::kernel
