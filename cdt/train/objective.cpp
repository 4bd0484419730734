#include <cdt/train/objective.h>

namespace cdt::train {

using dynamics::Loss;
using torch::Tensor;

Tensor Objective::smoothed(const Tensor& labels) const {
  if (smoothing_ == 0) return labels;
  return (1 - smoothing_) * labels + smoothing_ / static_cast<double>(labels.size(1));
}

Assessment Objective::assess(const Tensor& outputs, const Tensor& labels,
                             const Tensor& weights) const {
  if (loss_ == Loss::kCrossEntropy) {
    const auto r = static_cast<double>(labels.size(0));
    const Tensor log_p = torch::log_softmax(outputs, 1);
    const Tensor targets = smoothed(labels);
    const Tensor least = torch::xlogy(targets, targets);  // −, of each label
    const Tensor w = weights.defined() ? weights.view(labels.sizes()) : torch::ones_like(labels);
    const double misfit = (w * (least - targets * log_p)).sum().item<double>() / r;
    return {-(labels * log_p).sum().item<double>() / r, misfit,
            misfit - (w * least).sum().item<double>() / r};
  }
  const Tensor error = (outputs - labels).reshape({-1});
  const double square = torch::dot(error, error).item<double>();
  if (loss_ == Loss::kMae) {
    const double loss = error.abs().mean().item<double>();
    return {loss, square, loss};
  }
  const double c = curvature(labels.size(0), labels.size(1));  // the loss is ½ c_L ‖e‖²
  const double misfit =
      weights.defined() ? torch::dot(error, weights * error).item<double>() : square;
  return {c * square / 2, misfit, c * misfit / 2};
}

Tensor Objective::gradient(const Tensor& outputs, const Tensor& labels) const {
  switch (loss_) {
    case Loss::kCrossEntropy:
      return (torch::softmax(outputs, 1) - smoothed(labels)) / static_cast<double>(labels.size(0));
    case Loss::kMae:
      return (outputs - labels).sign() / static_cast<double>(labels.numel());
    default:
      return (outputs - labels) * curvature(labels.size(0), labels.size(1));
  }
}

Tensor Objective::graph(const Tensor& outputs, const Tensor& labels) const {
  const Tensor y = smoothed(labels).to(outputs.scalar_type());
  const Tensor y_hat = outputs.reshape(y.sizes());
  switch (loss_) {
    case Loss::kCrossEntropy:
      return -(y * torch::log_softmax(y_hat, 1)).sum() / static_cast<double>(labels.size(0));
    case Loss::kMae:
      return (y_hat - y).abs().mean();
    default:
      return (y_hat - y).square().sum() * (curvature(labels.size(0), labels.size(1)) / 2);
  }
}

double Objective::curvature(int64_t samples, int64_t outputs) const {
  switch (loss_) {
    case Loss::kCrossEntropy:
      return 0.5 / static_cast<double>(samples);  // diag(p) − ppᵀ has no larger eigenvalue than ½
    case Loss::kMae:
      return 0;
    default:
      return dynamics::gradient_factor(loss_, samples * outputs);
  }
}

}  // namespace cdt::train
