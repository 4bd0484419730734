/// Losses of numbers that look at one output ŷ and its target y at a time.
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
  /// Of h + h'd + ½ωd², which is no less than h of ŷ + d as far as h falls: so what a step
  /// promises, it keeps.
  Residuals residuals(const torch::Tensor& outputs, const torch::Tensor& targets,
                      const torch::Tensor& weights) const override;
  ResidualShape residual_shape(int64_t outputs) const override { return {outputs, true}; }
  torch::Tensor sums(const torch::Tensor& outputs, const torch::Tensor& targets,
                     const torch::Tensor& weights) const override;

 protected:
  using Tensor = torch::Tensor;
  /// h, from 0; h' and ω ≥ h'' by the output.
  virtual Tensor height(const Tensor& outputs, const Tensor& targets) const = 0;
  virtual Tensor slope(const Tensor& outputs, const Tensor& targets) const = 0;
  virtual Tensor bend(const Tensor& outputs, const Tensor& targets) const = 0;
};

}  // namespace cdt::loss
