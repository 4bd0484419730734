/// Losses of numbers that depend on one output ŷ and its target y at a time.
#pragma once

#include <cdt/loss/loss.h>

namespace cdt::loss {

class Separable : public Loss {
 public:
  double scale(int64_t samples, int64_t outputs) const override {
    return 1 / static_cast<double>(samples * outputs);
  }
  torch::Tensor values(const torch::Tensor& outputs, const torch::Tensor& targets) const override;
  torch::Tensor gradient(const torch::Tensor& outputs, const torch::Tensor& targets) const override;
  /// Residuals of h + h'd + ½ωd², an upper bound on h at ŷ + d where h decreases, so that a step
  /// keeps its predicted decrease.
  Residuals residuals(const torch::Tensor& outputs, const torch::Tensor& targets,
                      const torch::Tensor& weights) const override;
  ResidualShape residual_shape(int64_t outputs) const override { return {outputs, true}; }
  torch::Tensor sums(const torch::Tensor& outputs, const torch::Tensor& targets,
                     const torch::Tensor& weights) const override;

 protected:
  using Tensor = torch::Tensor;
  /// h with minimum 0; h' and ω ≥ h'' with respect to the output.
  virtual Tensor height(const Tensor& outputs, const Tensor& targets) const = 0;
  virtual Tensor slope(const Tensor& outputs, const Tensor& targets) const = 0;
  virtual Tensor bend(const Tensor& outputs, const Tensor& targets) const = 0;
};

}  // namespace cdt::loss
