#include <cdt/train/loop/residuals.h>

namespace cdt::train {

using torch::Tensor;

namespace {

/// Probabilities below this count as this much in 1/√p: what such a sample asks for is more than a
/// step can give.
constexpr double kLeastProbability = 1e-12;

Residuals quadratic_residuals(const Tensor& outputs, const Tensor& labels, const Tensor& weights) {
  Residuals found;
  found.D = torch::eye(labels.size(1), labels.options());
  found.scale = weights.defined() ? weights.sqrt().view(labels.sizes()) : torch::ones_like(labels);
  found.all_one = !weights.defined();
  found.S = torch::diag_embed(found.scale);
  found.e = (found.scale * (outputs - labels)).reshape({-1});
  return found;
}

Residuals class_residuals(const Tensor& outputs, const Tensor& labels, const Tensor& weights) {
  const Tensor p = torch::softmax(outputs, 1);
  const Tensor root = p.clamp_min(kLeastProbability).sqrt();
  const Tensor w = weights.defined() ? weights.view(labels.sizes()).narrow(1, 0, 1).sqrt()
                                     : torch::ones_like(labels.narrow(1, 0, 1));
  Residuals found;
  if (labels.size(1) == 2) {                               // of the difference of the two logits
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

}  // namespace

Tensor Residuals::to_outputs(const Tensor& u) const {
  const Tensor by_sample = u.to(torch::kFloat64).view({S.size(0), S.size(2)});
  if (D.defined()) return (scale * by_sample).mm(D.t()).reshape({-1});
  return S.matmul(by_sample.unsqueeze(2)).reshape({-1});
}

Tensor Residuals::to_residuals(const Tensor& v) const {
  const Tensor by_sample = v.to(torch::kFloat64).view({S.size(0), S.size(1)});
  if (D.defined()) return (scale * by_sample.mm(D)).reshape({-1});
  return S.transpose(1, 2).matmul(by_sample.unsqueeze(2)).reshape({-1});
}

Residuals Residuals::of_samples(const Tensor& rows) const {
  Residuals some;
  some.S = S.index_select(0, rows);
  some.e = e.view({S.size(0), -1}).index_select(0, rows).reshape({-1});
  some.D = D;
  if (scale.defined()) some.scale = scale.index_select(0, rows);
  some.all_one = all_one;
  return some;
}

Residuals Residuals::of_range(const Share& rows) const {
  return of_samples(torch::arange(rows.first, rows.first + rows.count, S.device()));
}

Residuals Residuals::gathered(const Ranks& ranks) const {
  Residuals all;
  all.S = ranks.gather(S);
  all.e = ranks.gather(e);
  all.D = D;
  if (scale.defined()) all.scale = ranks.gather(scale);
  all.all_one = all_one;
  return all;
}

int64_t residuals_per_sample(dynamics::Loss loss, int64_t outputs) {
  return loss == dynamics::Loss::kCrossEntropy && outputs == 2 ? 1 : outputs;
}

Residuals residuals_of(const Objective& objective, const Tensor& outputs, const Tensor& labels,
                       const Tensor& weights) {
  return objective.loss() == dynamics::Loss::kCrossEntropy
             ? class_residuals(outputs, objective.smoothed(labels), weights)
             : quadratic_residuals(outputs, labels, weights);
}

}  // namespace cdt::train
