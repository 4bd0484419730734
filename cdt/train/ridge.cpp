#include <ATen/CPUGeneratorImpl.h>
#include <cdt/kernel/ntk.h>
#include <cdt/train/ridge.h>

#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

/// Probabilities below this count as this much in 1/√p: what such a sample asks for is more than a
/// step can give.
constexpr double kLeastProbability = 1e-12;

/// Of the effective number of parameters.
constexpr int64_t kMostExact = 500;
constexpr int64_t kProbes = 32;

/// S and e of one linearization, and D with S_i = D·diag(scale_i) where there is one.
struct Residuals {
  Tensor S;      ///< [r, n_L, k]
  Tensor e;      ///< [r, k]
  Tensor D;      ///< [n_L, k]
  Tensor scale;  ///< [r, k]
};

Residuals quadratic_residuals(const Tensor& outputs, const Tensor& labels, const Tensor& weights) {
  Residuals found;
  found.D = torch::eye(labels.size(1), labels.options());
  found.scale = weights.defined() ? weights.sqrt().view(labels.sizes()) : torch::ones_like(labels);
  found.S = torch::diag_embed(found.scale);
  found.e = found.scale * (outputs - labels);
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
    found.e = w * (p - labels).narrow(1, 0, 1) / spread;
    return found;
  }
  found.S = w.unsqueeze(2) * (torch::diag_embed(root) - p.unsqueeze(2) * root.unsqueeze(1));
  found.e = w * (p - labels) / root;
  return found;
}

}  // namespace

RidgeProblem::RidgeProblem(const kernel::Model& model, const Tensor& x, const Objective& objective,
                           const Tensor& outputs, const Tensor& labels, const Tensor& weights,
                           const RidgeOptions& options)
    : options_(options), dtype_(model.dtype()) {
  const bool classes = objective.loss() == dynamics::Loss::kCrossEntropy;
  const Residuals found = classes ? class_residuals(outputs, labels, weights)
                                  : quadratic_residuals(outputs, labels, weights);
  S_ = found.S;
  residual_ = found.e.reshape({-1});
  if (found.D.defined() && residual_.numel() <= options.largest_matrix) {
    const Tensor D = found.D.to(model.dtype());
    const kernel::Model reduced(
        [&model, D](const Tensor& samples) {
          const Tensor y = model.forward(samples);
          return y.reshape({samples.size(0), -1}).matmul(D);
        },
        model.parameters());
    kernel::NtkOptions ntk;
    ntk.memory_bytes = options.memory_bytes;
    ntk.accumulate = options.accumulate;
    const Tensor scale = found.scale.reshape({-1});
    K_ = kernel::empirical_ntk(classes ? reduced : model, x, ntk).theta.to(torch::kFloat64);
    K_ *= scale.unsqueeze(0);
    K_ *= scale.unsqueeze(1);
    mean_eigenvalue_ = K_.diagonal().mean().item<double>();
    return;
  }
  operator_.emplace(model, x, kernel::OperatorOptions{.memory_bytes = options.memory_bytes});
  mean_eigenvalue_ = operator_->trace() / static_cast<double>(outputs.numel()) *
                     S_.square().sum().item<double>() / static_cast<double>(residual_.numel());
}

Tensor RidgeProblem::to_outputs(const Tensor& u) const {
  return S_.matmul(u.view({S_.size(0), S_.size(2), 1})).reshape({-1});
}

Tensor RidgeProblem::to_residuals(const Tensor& v) const {
  const Tensor columns = v.to(torch::kFloat64).view({S_.size(0), S_.size(1), 1});
  return S_.transpose(1, 2).matmul(columns).reshape({-1});
}

Tensor RidgeProblem::solve(const Tensor& b, double lambda) const {
  if (!has_matrix()) return conjugate_gradients(b, lambda);
  const Tensor& L = factor(lambda);
  return L.defined() ? torch::cholesky_solve(b.unsqueeze(1), L).squeeze(1) : Tensor();
}

const Tensor& RidgeProblem::factor(double lambda) const {
  if (factored_ == lambda) return factor_;
  Tensor shifted = K_.clone();
  shifted.diagonal().add_(lambda);
  const auto [L, info] = torch::linalg_cholesky_ex(shifted);
  factor_ = info.item<int64_t>() == 0 ? L : Tensor();
  factored_ = lambda;
  return factor_;
}

Tensor RidgeProblem::conjugate_gradients(const Tensor& b, double lambda) const {
  const double least = options_.tolerance * b.norm().item<double>();
  Tensor u = torch::zeros_like(b);
  Tensor r = b.clone();
  Tensor direction = r.clone();
  double square = r.square().sum().item<double>();
  for (int64_t k = 0; k < options_.products && std::sqrt(square) > least; ++k) {
    const Tensor pushed = operator_->apply(to_outputs(direction).to(dtype_));
    const Tensor product = to_residuals(pushed) + lambda * direction;
    const double step = square / torch::dot(direction, product).item<double>();
    if (!std::isfinite(step)) return {};
    u += step * direction;
    r -= step * product;
    const double next = r.square().sum().item<double>();
    direction = r + (next / square) * direction;
    square = next;
  }
  return u;
}

double RidgeProblem::freedom(double tau) const {
  if (!has_matrix()) return kUnknown;
  const Tensor& L = factor(tau);
  if (!L.defined()) return kUnknown;
  const int64_t m = residual_.numel();
  if (m <= kMostExact) {
    return static_cast<double>(m) -
           tau * torch::cholesky_inverse(L).diagonal().sum().item<double>();
  }
  const auto generator = at::detail::createCPUGenerator(/*seed=*/1);
  const Tensor signs = torch::randint(0, 2, {m, kProbes}, generator, torch::kFloat64);
  const Tensor probes = (2 * signs - 1).to(L.device());
  const double square =
      torch::linalg_solve_triangular(L, probes, /*upper=*/false).square().sum().item<double>();
  return static_cast<double>(m) - tau * square / kProbes;
}

}  // namespace cdt::train
