#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/text/numbers.h>
#include <cdt/loss/loss.h>
#include <torch/autograd.h>

#include <cmath>

namespace cdt::loss {

using torch::Tensor;

Tensor derivative(const Tensor& sum, const Tensor& at) {
  if (!sum.requires_grad()) return torch::zeros_like(at);
  const Tensor found = torch::autograd::grad({sum}, {at}, {}, /*retain_graph=*/true,
                                             /*create_graph=*/true, /*allow_unused=*/true)[0];
  return found.defined() ? found : torch::zeros_like(at);
}

Tensor Loss::least(const Tensor& targets) const {
  return torch::zeros({targets.size(0)}, targets.options());
}

Tensor Loss::mean(const Tensor& outputs) const { return outputs; }

Tensor Loss::spread(const Tensor& mean) const { return torch::ones_like(mean); }

LossPtr Loss::smoothed(double smoothing) const {
  throw InvalidArgument(
      c10::str("smoothing (", smoothing, ") belongs to losses of classes, not to ", name()));
}

void Loss::require_defined(const Tensor& /*outputs*/, const Tensor& /*targets*/,
                           Order /*order*/) const {}

Tensor Loss::graph(const Tensor& outputs, const Tensor& targets) const {
  return values(outputs, targets.to(outputs.scalar_type())).sum() *
         scale(targets.size(0), targets.size(1));
}

Tensor Loss::gradient(const Tensor& outputs, const Tensor& targets) const {
  const bool differentiable =
      torch::GradMode::is_enabled() && (outputs.requires_grad() || targets.requires_grad());
  const torch::AutoGradMode with_graph(true);
  const Tensor at = outputs.requires_grad() ? outputs : outputs.detach().requires_grad_();
  const Tensor found = derivative(graph(at, targets), at);
  return differentiable ? found : found.detach();
}

Tensor Loss::hessian(const Tensor& outputs, const Tensor& targets) const {
  const torch::AutoGradMode with_graph(true);
  const Tensor at = outputs.detach().requires_grad_();
  const Tensor first = gradient(at, targets);
  std::vector<Tensor> rows;
  for (int64_t k = 0; k < targets.size(1); ++k) {
    rows.push_back(derivative(first.select(1, k).sum(), at));
  }
  return torch::stack(rows, 1).detach();
}

double Loss::third_derivative_bound(const Tensor& /*from*/, const Tensor& /*to*/,
                                    const Tensor& /*targets*/) const {
  return std::numeric_limits<double>::infinity();
}

Residuals Loss::residuals(const Tensor& outputs, const Tensor& targets,
                          const Tensor& weights) const {
  return second_order(outputs, targets, weights);
}

Residuals Loss::second_order(const Tensor& outputs, const Tensor& targets,
                             const Tensor& weights) const {
  const double c = scale(targets.size(0), targets.size(1));
  const Tensor blocks = hessian(outputs, targets) / c;
  const auto [values, vectors] = torch::linalg_eigh(blocks);
  // A direction without curvature has a zero residual, whatever its slope.
  const Tensor largest = values.abs().amax().clamp_min(std::numeric_limits<double>::min());
  const Tensor kept = values > largest * static_cast<double>(targets.size(1)) *
                                   std::numeric_limits<double>::epsilon();
  const Tensor root = torch::where(kept, values, torch::zeros_like(values)).clamp_min(0).sqrt();
  const Tensor w = weights.defined() ? weights.view(targets.sizes()).narrow(1, 0, 1).sqrt()
                                     : torch::ones_like(targets.narrow(1, 0, 1));
  Residuals found;
  found.S = w.unsqueeze(2) * vectors * root.unsqueeze(1);
  const Tensor slope = (gradient(outputs, targets) / c).unsqueeze(1).matmul(vectors).squeeze(1);
  const Tensor e = torch::where(kept, slope / root, torch::zeros_like(slope));
  found.e = (w * e).reshape({-1});
  return found;
}

ResidualShape Loss::residual_shape(int64_t outputs) const { return {outputs, false}; }

Tensor Loss::sums(const Tensor& outputs, const Tensor& targets, const Tensor& weights) const {
  const Tensor each = values(outputs, targets);
  const Tensor low = least(targets);
  if (!weights.defined()) return torch::stack({each.sum(), (each - low).sum(), low.sum()});
  const Tensor w = weights.view(targets.sizes()).select(1, 0);
  return torch::stack({each.sum(), (w * (each - low)).sum(), (w * low).sum()});
}

Assessment Loss::assessment(std::span<const double> sums, int64_t samples, int64_t outputs) const {
  const double c = scale(samples, outputs);
  return {c * sums[0], c * sums[1], c * (sums[1] + sums[2]), 2 * sums[1]};
}

Assessment assess(const Loss& loss, const Tensor& outputs, const Tensor& targets,
                  const Tensor& weights) {
  return loss.assessment(to_vector(loss.sums(outputs, targets, weights)), targets.size(0),
                         targets.size(1));
}

Tensor smoothed_targets(const Tensor& targets, double smoothing) {
  if (smoothing == 0) return targets;
  return (1 - smoothing) * targets + smoothing / static_cast<double>(targets.size(1));
}

std::string to_string(const LossPtr& loss) { return loss->name(); }

void require_targets(const Loss& loss, const Tensor& targets, std::string_view name) {
  const double least = loss.traits().least_target;
  if (!std::isfinite(least)) return;
  const Tensor below = (targets.reshape({targets.size(0), -1}) < least).any(1).nonzero();
  if (below.size(0) == 0) return;
  const auto row = below[0].item<int64_t>();
  throw InvalidArgument(c10::str(name, " must be ", least, " or more for the loss ", loss.name(),
                                 ", not ", targets[row].min().item<double>(), " in row ", row,
                                 " (from 0)"));
}

void require_quadratic(const Loss& loss, std::string_view who) {
  CDT_REQUIRE(loss.quadratic(), who, " needs a quadratic loss (sse, half-mse or mse), got ",
              loss.name());
}

double gradient_factor(const LossPtr& loss, int64_t n) {
  CDT_REQUIRE(n >= 1, "a loss needs at least one output, got ", n);
  require_quadratic(*loss, "the gradient's factor c_L");
  return loss->scale(n, 1);
}

double step_scale(double learning_rate, const LossPtr& loss, int64_t n) {
  require_non_negative(learning_rate, "learning_rate");
  return learning_rate * gradient_factor(loss, n);
}

double loss_value(const LossPtr& loss, const Tensor& error) {
  require_quadratic(*loss, "½c_L‖e‖²");
  require_floating(error, "error");
  require_finite(error, "error");
  return 0.5 * gradient_factor(loss, error.numel()) *
         error.to(torch::kFloat64).square().sum().item<double>();
}

}  // namespace cdt::loss
