/// Losses of numbers that look at one error e = ŷ − y at a time.
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
  /// Of h(e) + h'(e)d + ½ω(e)d², which is no less than h(e + d): so what a step promises, it keeps.
  Residuals residuals(const torch::Tensor& outputs, const torch::Tensor& targets,
                      const torch::Tensor& weights) const override;
  ResidualShape residual_shape(int64_t outputs) const override { return {outputs, true}; }
  torch::Tensor sums(const torch::Tensor& outputs, const torch::Tensor& targets,
                     const torch::Tensor& weights) const override;

 protected:
  virtual torch::Tensor height(const torch::Tensor& error) const = 0;  ///< h, from 0
  virtual torch::Tensor slope(const torch::Tensor& error) const = 0;   ///< h'
  virtual torch::Tensor bend(const torch::Tensor& error) const = 0;    ///< ω
};

}  // namespace cdt::loss
