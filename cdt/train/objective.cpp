#include <cdt/core/text/numbers.h>
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
  return assessment(to_vector(sums(outputs, labels, weights)), labels.size(0), labels.size(1));
}

Tensor Objective::sums(const Tensor& outputs, const Tensor& labels, const Tensor& weights) const {
  if (loss_ == Loss::kCrossEntropy) {
    const Tensor log_p = torch::log_softmax(outputs, 1);
    const Tensor targets = smoothed(labels);
    const Tensor least = torch::xlogy(targets, targets);  // −, of each label
    const Tensor w = weights.defined() ? weights.view(labels.sizes()) : torch::ones_like(labels);
    return torch::stack(
        {(labels * log_p).sum(), (w * (least - targets * log_p)).sum(), (w * least).sum()});
  }
  const Tensor error = (outputs - labels).reshape({-1});
  const Tensor square = torch::dot(error, error);
  if (loss_ == Loss::kMae) return torch::stack({square, error.abs().mean()});
  return weights.defined() ? torch::stack({square, torch::dot(error, weights * error)})
                           : square.view({1});
}

Assessment Objective::assessment(std::span<const double> sums, int64_t samples,
                                 int64_t outputs) const {
  if (loss_ == Loss::kCrossEntropy) {
    const auto r = static_cast<double>(samples);
    const double misfit = sums[1] / r;
    return {-sums[0] / r, misfit, misfit - sums[2] / r};
  }
  if (loss_ == Loss::kMae) return {sums[1], sums[0], sums[1]};
  const double c = curvature(samples, outputs);  // the loss is ½ c_L ‖e‖²
  const double misfit = sums.back();
  return {c * sums.front() / 2, misfit, c * misfit / 2};
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

double Objective::squares(const Tensor& outputs, const Tensor& labels,
                          const Tensor& weights) const {
  const std::vector<double> found = to_vector(sums(outputs, labels, weights));
  return loss_ == Loss::kCrossEntropy ? 2 * found[1] : found.back();
}

double Objective::square_factor(int64_t samples, int64_t outputs) const {
  if (loss_ == Loss::kCrossEntropy) return 1 / static_cast<double>(samples);
  return curvature(samples, outputs);
}

}  // namespace cdt::train
