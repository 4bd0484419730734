#include <cdt/loss/parts/separable.h>

namespace cdt::loss {

using torch::Tensor;

Tensor Separable::values(const Tensor& outputs, const Tensor& targets) const {
  return height(outputs, targets).sum(1);
}

Tensor Separable::gradient(const Tensor& outputs, const Tensor& targets) const {
  return slope(outputs, targets) * scale(targets.size(0), targets.size(1));
}

Residuals Separable::residuals(const Tensor& outputs, const Tensor& targets,
                               const Tensor& weights) const {
  const Tensor root = bend(outputs, targets).sqrt();
  const Tensor w = weights.defined() ? weights.view(targets.sizes()).sqrt() : Tensor();
  Residuals found;
  found.D = torch::eye(targets.size(1), targets.options());
  found.scale = w.defined() ? w * root : root;
  found.S = torch::diag_embed(found.scale);
  const Tensor e = slope(outputs, targets) / root;
  found.e = (w.defined() ? w * e : e).reshape({-1});
  return found;
}

Tensor Separable::sums(const Tensor& outputs, const Tensor& targets, const Tensor& weights) const {
  const Tensor each = height(outputs, targets).reshape({-1});
  const Tensor weighted = weights.defined() ? torch::dot(weights, each) : each.sum();
  return torch::stack({each.sum(), weighted, torch::zeros_like(weighted)});
}

}  // namespace cdt::loss
