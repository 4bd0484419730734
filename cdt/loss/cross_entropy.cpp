// −yᵀlog softmax(ŷ), for distributions y over classes, trained on (1 − ε)y + ε/C.
#include <cdt/core/error.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/loss/loss.h>

#include <cmath>

namespace cdt::loss {
namespace {

using torch::Tensor;

/// Lower limit on probabilities in 1/√p; samples below it would require more than a step can give.
constexpr double kLeastProbability = 1e-12;

class CrossEntropy : public Loss {
 public:
  explicit CrossEntropy(double smoothing) : smoothing_(smoothing) {}

  std::string name() const override { return "cross-entropy"; }
  Traits traits() const override {  // ½ bounds the eigenvalues of diag(p) − ppᵀ
    return {.classes = true, .smoothing = smoothing_, .curvature_bound = 0.5};
  }
  double scale(int64_t samples, int64_t /*outputs*/) const override {
    return 1 / static_cast<double>(samples);
  }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    return -(trained(targets).to(outputs.scalar_type()) * torch::log_softmax(outputs, 1)).sum(1);
  }
  Tensor least(const Tensor& targets) const override {
    const Tensor y = trained(targets);
    return -torch::xlogy(y, y).sum(1);
  }
  Tensor mean(const Tensor& outputs) const override { return torch::softmax(outputs, 1); }
  LossPtr smoothed(double smoothing) const override { return cross_entropy(smoothing); }

  Tensor graph(const Tensor& outputs, const Tensor& targets) const override {
    const Tensor y = trained(targets).to(outputs.scalar_type());
    return -(y * torch::log_softmax(outputs, 1)).sum() / static_cast<double>(targets.size(0));
  }
  Tensor gradient(const Tensor& outputs, const Tensor& targets) const override {
    return (torch::softmax(outputs, 1) - trained(targets)) / static_cast<double>(targets.size(0));
  }
  Tensor hessian(const Tensor& outputs, const Tensor& targets) const override {
    return softmax_hessian(torch::softmax(outputs, 1)) / static_cast<double>(targets.size(0));
  }
  double third_derivative_bound(const Tensor& /*from*/, const Tensor& /*to*/,
                                const Tensor& targets) const override {
    // The entries of a unit vector differ by at most √2, and a third central moment on an interval
    // of length d is at most d³/(6√3).
    return std::sqrt(2.0) / (3 * std::sqrt(3.0)) / static_cast<double>(targets.size(0));
  }

  /// With p = softmax(ŷ): S = diag(√p) − p√pᵀ, e = (p − y)/√p.
  Residuals residuals(const Tensor& outputs, const Tensor& targets,
                      const Tensor& weights) const override {
    const Tensor labels = trained(targets);
    const Tensor p = torch::softmax(outputs, 1);
    const Tensor root = p.clamp_min(kLeastProbability).sqrt();
    const Tensor w = weights.defined() ? weights.view(labels.sizes()).narrow(1, 0, 1).sqrt()
                                       : torch::ones_like(labels.narrow(1, 0, 1));
    Residuals found;
    if (labels.size(1) == 2) {                               // in the difference of the two logits
      const Tensor spread = root.prod(1, /*keepdim=*/true);  // √(p₀p₁)
      found.D = torch::tensor({{1.0}, {-1.0}}, labels.options());
      found.scale = w * spread;
      found.S = found.scale.unsqueeze(1) * found.D;
      found.e = (w * (p - labels).narrow(1, 0, 1) / spread).reshape({-1});
      return found;
    }
    found.S = w.unsqueeze(2) * (torch::diag_embed(root) - p.unsqueeze(2) * root.unsqueeze(1));
    found.e = (w * (p - labels) / root).reshape({-1});
    return found;
  }
  ResidualShape residual_shape(int64_t outputs) const override {
    return outputs == 2 ? ResidualShape{1, true} : ResidualShape{outputs, false};
  }

  Tensor sums(const Tensor& outputs, const Tensor& targets, const Tensor& weights) const override {
    const Tensor log_p = torch::log_softmax(outputs, 1);
    const Tensor labels = trained(targets);
    const Tensor low = torch::xlogy(labels, labels);  // −, of each label
    const Tensor w = weights.defined() ? weights.view(targets.sizes()) : torch::ones_like(targets);
    return torch::stack(
        {(targets * log_p).sum(), (w * (low - labels * log_p)).sum(), (w * low).sum()});
  }
  Assessment assessment(std::span<const double> sums, int64_t samples,
                        int64_t /*outputs*/) const override {
    const auto r = static_cast<double>(samples);
    const double misfit = sums[1] / r;
    return {-sums[0] / r, misfit, misfit - sums[2] / r, 2 * sums[1]};
  }

 private:
  Tensor trained(const Tensor& targets) const { return smoothed_targets(targets, smoothing_); }

  double smoothing_;
};

}  // namespace

LossPtr cross_entropy(double smoothing) {
  static const LossPtr hard = std::make_shared<CrossEntropy>(0);
  return smoothing == 0 ? hard : std::make_shared<CrossEntropy>(smoothing);
}

}  // namespace cdt::loss
