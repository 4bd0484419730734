/// The network's first-order model in its parameters (paper eq. y_lin), beside the network itself.
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
  /// Of parameters that the model had once, shaped like its own, and its outputs on x there.
  /// @throws InvalidArgument if there are not as many of them.
  LocalModel(Model model, torch::Tensor x, std::vector<torch::Tensor> origin,
             const torch::Tensor& outputs);

  /// ŷ(k₀) [n], float64.
  const torch::Tensor& outputs() const { return outputs_; }
  /// ϑ [P]: how far the model's parameters are from θ(k₀) now, in its dtype.
  torch::Tensor displacement() const;
  /// θ(k₀), shaped like the parameters.
  const std::vector<torch::Tensor>& origin() const { return origin_; }
  /// ŷ(k₀) + J₀ϑ [n], float64, for ϑ [P]. The model is at θ(k₀) meanwhile and as before afterwards,
  /// whatever is thrown; a pass that has yet to go backward may.
  /// @throws InvalidArgument if ϑ has another length, dtype or device, or is not finite.
  torch::Tensor predict(const torch::Tensor& displacement) const;
  /// The same at the model's present parameters.
  torch::Tensor predict() const { return predict(displacement()); }
  /// ‖ŷ − ŷ_ϑ‖ at the present parameters: the true linearization error. One forward pass more.
  double error() const;

 private:
  Model model_;
  torch::Tensor x_;
  std::vector<torch::Tensor> origin_;
  torch::Tensor outputs_;
};

}  // namespace cdt::kernel
