#include <cdt/core/check.h>
#include <cdt/core/interrupt.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/modes.h>
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/loop/ridge_feedback.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::train {

using torch::Tensor;

namespace {

constexpr const char* kKernel = "kernel";
/// Growth of μ where rounding, or a kernel that is none, leaves no positive definite matrix: once
/// it exceeds the norm, there is one.
constexpr double kMore = 4;

}  // namespace

RidgeFeedback::RidgeFeedback(Tensor kernel, Tensor labels, const Options& options)
    : kernel_(std::move(kernel)),
      labels_(std::move(labels)),
      scale_(options.weights.defined() ? options.weights.sqrt() : Tensor()),
      options_(options),
      gradient_factor_(loss::gradient_factor(options.loss, kernel_.size(0))) {
  require_kernel(kernel_);
}

void RidgeFeedback::design(double rate) {
  rate_ = rate;
  damping_ = 1 / (rate * gradient_factor_ * std::sqrt(1 + options_.q / options_.p));
  for (;; damping_ *= kMore) {
    Tensor shifted = kernel_.clone();
    shifted.diagonal().add_(damping_);
    const auto [factor, info] =
        decompose_aside(shifted, [shifted] { return torch::linalg_cholesky_ex(shifted); });
    factor_ = factor;
    if (info.item<int64_t>() == 0) return;
  }
}

double RidgeFeedback::largest() const {
  if (largest_ < 0) largest_ = largest_eigenvalue(kernel_);
  return largest_;
}

const Tensor& RidgeFeedback::eigenvalues() const {
  if (!eigenvalues_.defined()) {
    eigenvalues_ = decompose_aside(
        kernel_, [kernel = kernel_] { return torch::linalg_eigvalsh(kernel).clamp_min(0); });
  }
  return eigenvalues_;
}

double RidgeFeedback::unit_rate() const {
  return largest() > 0 ? 1 / (gradient_factor_ * largest()) : 1;
}

control::Certificate RidgeFeedback::certificate(const Tensor& theta) const {
  using control::Known;
  const auto n = static_cast<double>(kernel_.size(0));
  control::Certificate found;
  if (theta.defined() || eigenvalues_.defined()) {
    const Tensor& all = eigenvalues();
    const double least = options_.rank_tolerance * all[all.numel() - 1].item<double>();
    found = control::damped_certificate(damping_, all, (all <= least).sum().item<int64_t>(),
                                        rate_ * gradient_factor_);
  } else {
    found = control::damped_certificate(damping_, Known::exactly(largest()), {});
  }
  found.controller = "damped, by a Cholesky factor of the kernel";
  found.rate = rate_;
  found.gain = 1 / (rate_ * gradient_factor_ * damping_);
  const Tensor x = last_error_.defined() ? last_error_ : torch::ones_like(labels_) / std::sqrt(n);
  const Tensor u = solve(x);
  found.residual = (kernel_.mv(u).add_(u, damping_) - x).norm().item<double>() /
                   std::max(x.norm().item<double>(), std::numeric_limits<double>::min());
  found.digest =
      control::digest_of({torch::tensor({rate_, damping_}, torch::kFloat64), kernel_.diagonal()});
  return found;
}

Tensor RidgeFeedback::state(const Tensor& outputs) const {
  return scaled(outputs.reshape({-1}) - labels_);
}

Tensor RidgeFeedback::solve(const Tensor& error) const {
  return torch::cholesky_solve(error.unsqueeze(1), factor_).squeeze(1);
}

Proposal RidgeFeedback::propose(const Tensor& error, double rate) const {
  const double share = rate / rate_;
  const Tensor u = solve(error);
  last_error_ = error;
  Proposal proposal;
  proposal.seed = scaled(u) * share;
  proposal.augment_norm = (u / (rate_ * gradient_factor_) - error).norm().item<double>();
  proposal.prediction = error * (1 - share) + u * (share * damping_);  // Θu = e − μu
  return proposal;
}

Steered RidgeFeedback::steer(const Tensor& outputs) {
  const Tensor error = state(outputs);
  const Tensor seed = scaled(solve(error)) / rate_;
  const Tensor gradient = scaled(error);
  return {seed, [seed, gradient, c = gradient_factor_] { return seed / c - gradient; }};
}

double RidgeFeedback::merit(const Tensor& error) const {
  return torch::dot(error, error).item<double>();
}

double RidgeFeedback::distance(const Tensor& error) const { return error.norm().item<double>(); }

bool RidgeFeedback::settled(const Tensor& error, double rounding) const {
  const dynamics::Modes modes = dynamics::decompose(kernel_, options_.rank_tolerance);
  const Tensor modal = modes.vectors.t().mv(error);
  const double left = modal.narrow(0, modes.nullity(), modes.rank).norm().item<double>();
  return left <= rounding || left * left <= tol::kUnreachableError * merit(error);
}

int64_t RidgeFeedback::bytes() const { return 2 * static_cast<int64_t>(kernel_.nbytes()); }

void RidgeFeedback::save(SavedState& state) const { state.tensors[kKernel] = kernel_; }

Tensor RidgeFeedback::saved_kernel(const SavedState& state, int64_t n, torch::Device device) {
  const Tensor kernel = state.tensor(kKernel, {n, n});
  require_symmetric(kernel, "the checkpoint's kernel", tol::symmetry(torch::kFloat64));
  return kernel.to(device);
}

}  // namespace cdt::train
