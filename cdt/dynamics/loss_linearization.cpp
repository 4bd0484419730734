#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/loss_linearization.h>

#include <cmath>

namespace cdt::dynamics {
namespace {

using torch::Tensor;

void require_matrix(const Tensor& values, std::string_view name) {
  require_floating(values, name);
  CDT_REQUIRE(values.dim() == 2 && values.numel() > 0, name,
              " must be [samples, outputs], not of shape ", values.sizes());
  CDT_REQUIRE(values.scalar_type() == torch::kFloat64, name, " must be float64, not ",
              values.scalar_type());
  require_finite(values, name);
}

void require_outputs(Loss loss, const Tensor& y_hat, const Tensor& y) {
  require_matrix(y_hat, "outputs");
  require_matrix(y, "labels");
  require_shape(y, y_hat.sizes(), "labels");
  if (loss == Loss::kNegativeLog) {
    const double lowest = y_hat.min().item<double>();
    CDT_REQUIRE(lowest > 0, "−yᵀlog ŷ needs probabilities above zero; the smallest is ", lowest,
                ". Use the cross entropy on logits");
  }
}

void require_away_from_kinks(const Tensor& y_hat, const Tensor& y) {
  CDT_REQUIRE((y_hat != y).all().item<bool>(),
              "the mean absolute error has no derivatives where an output equals its label, as one "
              "does here");
}

double samples(const Tensor& y) { return static_cast<double>(y.size(0)); }
double entries(const Tensor& y) { return static_cast<double>(y.numel()); }

[[noreturn]] void unknown(Loss loss) {
  throw InvalidArgument(c10::str("no loss has the number ", static_cast<int>(loss)));
}

}  // namespace

double output_loss(Loss loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y);
  if (is_quadratic(loss)) return loss_value(loss, y_hat - y);
  switch (loss) {
    case Loss::kMae:
      return (y_hat - y).abs().mean().item<double>();
    case Loss::kCrossEntropy:
      return -(y * torch::log_softmax(y_hat, 1)).sum().item<double>() / samples(y);
    case Loss::kNegativeLog:
      return -(y * y_hat.log()).sum().item<double>();
    default:
      unknown(loss);
  }
}

Tensor loss_gradient(Loss loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y);
  if (is_quadratic(loss)) {
    return gradient_factor(loss, y.numel()) * (y_hat - y);
  }
  switch (loss) {
    case Loss::kMae:
      require_away_from_kinks(y_hat, y);
      return (y_hat - y).sign() / entries(y);
    case Loss::kCrossEntropy:
      return (torch::softmax(y_hat, 1) - y) / samples(y);
    case Loss::kNegativeLog:
      return -y / y_hat;
    default:
      unknown(loss);
  }
}

Tensor softmax_hessian(const Tensor& p) {
  return torch::diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1);
}

Tensor loss_hessian(Loss loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y);
  if (is_quadratic(loss)) {
    return torch::diag_embed(torch::full_like(y, gradient_factor(loss, y.numel())));
  }
  switch (loss) {
    case Loss::kMae:
      require_away_from_kinks(y_hat, y);
      return torch::diag_embed(torch::zeros_like(y));
    case Loss::kCrossEntropy:
      return softmax_hessian(torch::softmax(y_hat, 1)) / samples(y);
    case Loss::kNegativeLog:
      return torch::diag_embed(y / y_hat.square());
    default:
      unknown(loss);
  }
}

Tensor label_influence(Loss loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y);
  if (is_quadratic(loss)) {
    return torch::diag_embed(torch::full_like(y, gradient_factor(loss, y.numel())));
  }
  switch (loss) {
    case Loss::kMae:
      require_away_from_kinks(y_hat, y);
      return torch::diag_embed(torch::zeros_like(y));  // a small augment does not turn a sign
    case Loss::kCrossEntropy:
      return torch::diag_embed(torch::full_like(y, 1 / samples(y)));
    case Loss::kNegativeLog:
      return torch::diag_embed(1 / y_hat);
    default:
      unknown(loss);
  }
}

Tensor third_derivative(Loss loss, const Tensor& y_hat, const Tensor& y, const Tensor& u,
                        const Tensor& v) {
  require_outputs(loss, y_hat, y);
  require_shape(u, y.sizes(), "u");
  require_shape(v, y.sizes(), "v");
  if (is_quadratic(loss)) return torch::zeros_like(y);
  switch (loss) {
    case Loss::kMae:
      require_away_from_kinks(y_hat, y);
      return torch::zeros_like(y);
    case Loss::kCrossEntropy: {
      // p ∘ ((u − ū)(v − v̄) − cov(u, v)), means under p
      const Tensor p = torch::softmax(y_hat, 1);
      const Tensor product = (u - (p * u).sum(1, true)) * (v - (p * v).sum(1, true));
      return p * (product - (p * product).sum(1, true)) / samples(y);
    }
    case Loss::kNegativeLog:
      return -2 * y / y_hat.pow(3) * u * v;
    default:
      unknown(loss);
  }
}

double third_derivative_bound(Loss loss, const Tensor& from, const Tensor& to, const Tensor& y) {
  require_outputs(loss, from, y);
  require_outputs(loss, to, y);
  if (is_quadratic(loss)) return 0;
  switch (loss) {
    case Loss::kMae:
      CDT_REQUIRE(((from - y) * (to - y) > 0).all().item<bool>(),
                  "between these outputs one equals its label, where the mean absolute error has "
                  "no derivatives");
      return 0;
    case Loss::kCrossEntropy:
      // Entries of a unit vector spread over at most √2, and a third central moment on an interval
      // of length d is at most d³/(6√3).
      return std::sqrt(2.0) / (3 * std::sqrt(3.0)) / samples(y);
    case Loss::kNegativeLog:
      return (2 * y.abs() / torch::minimum(from, to).pow(3)).max().item<double>();
    default:
      unknown(loss);
  }
}

Tensor times_blocks(const Tensor& X, const Tensor& blocks) {
  const int64_t r = blocks.size(0);
  const Tensor pieces = X.reshape({X.size(0), r, -1}).transpose(0, 1);  // [r, m, C]
  return torch::bmm(pieces, blocks).transpose(0, 1).reshape({X.size(0), -1});
}

ControlOrientedDynamics control_oriented_dynamics(Loss loss, const Tensor& theta,
                                                  double learning_rate, const Tensor& y_hat,
                                                  const Tensor& y) {
  CDT_REQUIRE(
      loss != Loss::kMae,
      "the mean absolute error has no curvature: its linearized gradient does not depend on "
      "the outputs, so no label augment can steer them. Use a quadratic loss or the cross "
      "entropy");
  require_non_negative(learning_rate, "learning_rate");
  require_kernel(theta);
  require_outputs(loss, y_hat, y);
  require_shape(theta, {y.numel(), y.numel()}, "kernel");
  const Tensor step = learning_rate * theta;
  const Tensor curved = times_blocks(step, loss_hessian(loss, y_hat, y));  // αΘH
  ControlOrientedDynamics dynamics;
  dynamics.A = torch::eye(theta.size(0), theta.options()) - curved;
  dynamics.B = times_blocks(step, label_influence(loss, y_hat, y));
  dynamics.bias =
      curved.mv(y_hat.reshape({-1})) - step.mv(loss_gradient(loss, y_hat, y).reshape({-1}));
  return dynamics;
}

}  // namespace cdt::dynamics
