#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/loss_linearization.h>

namespace cdt::dynamics {
namespace {

using loss::derivative;
using loss::LossPtr;
using loss::Order;
using torch::Tensor;

void require_matrix(const Tensor& values, std::string_view name) {
  require_floating(values, name);
  CDT_REQUIRE(values.dim() == 2 && values.numel() > 0, name,
              " must be [samples, outputs], got shape ", values.sizes());
  CDT_REQUIRE(values.scalar_type() == torch::kFloat64, name, " must be float64, got ",
              values.scalar_type());
  require_finite(values, name);
}

void require_outputs(const LossPtr& loss, const Tensor& y_hat, const Tensor& y, Order order) {
  require_matrix(y_hat, "outputs");
  require_matrix(y, "labels");
  require_shape(y, y_hat.sizes(), "labels");
  loss->require_defined(y_hat, y, order);
}

}  // namespace

double output_loss(const LossPtr& loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y, Order::kValue);
  return loss::assess(*loss, y_hat, y).loss;
}

Tensor loss_gradient(const LossPtr& loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y, Order::kDerivatives);
  return loss->gradient(y_hat, y);
}

Tensor loss_hessian(const LossPtr& loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y, Order::kDerivatives);
  return loss->hessian(y_hat, y);
}

Tensor label_influence(const LossPtr& loss, const Tensor& y_hat, const Tensor& y) {
  require_outputs(loss, y_hat, y, Order::kDerivatives);
  const torch::AutoGradMode with_graph(true);
  const Tensor at = y_hat.detach().requires_grad_();
  const Tensor labels = y.detach().requires_grad_();
  const Tensor first = loss->gradient(at, labels);
  std::vector<Tensor> rows;
  for (int64_t k = 0; k < y.size(1); ++k) {
    rows.push_back(-derivative(first.select(1, k).sum(), labels));
  }
  return torch::stack(rows, 1).detach();
}

Tensor third_derivative(const LossPtr& loss, const Tensor& y_hat, const Tensor& y, const Tensor& u,
                        const Tensor& v) {
  require_outputs(loss, y_hat, y, Order::kDerivatives);
  require_shape(u, y.sizes(), "u");
  require_shape(v, y.sizes(), "v");
  const torch::AutoGradMode with_graph(true);
  const Tensor at = y_hat.detach().requires_grad_();
  const Tensor first = loss->gradient(at, y);
  const Tensor second = derivative((first * u).sum(), at);
  return derivative((second * v).sum(), at).detach();
}

double third_derivative_bound(const LossPtr& loss, const Tensor& from, const Tensor& to,
                              const Tensor& y) {
  require_outputs(loss, from, y, Order::kValue);
  require_outputs(loss, to, y, Order::kValue);
  return loss->third_derivative_bound(from, to, y);
}

ControlOrientedDynamics control_oriented_dynamics(const LossPtr& loss, const Tensor& theta,
                                                  double learning_rate, const Tensor& y_hat,
                                                  const Tensor& y) {
  CDT_REQUIRE(loss->traits().has_curvature(), "the loss ", loss->name(),
              " has no curvature: its linearized gradient does not depend on "
              "the outputs, so no label augment can steer them. Use a quadratic loss or the cross "
              "entropy");
  require_non_negative(learning_rate, "learning_rate");
  require_kernel(theta);
  require_outputs(loss, y_hat, y, Order::kDerivatives);
  require_shape(theta, {y.numel(), y.numel()}, "kernel");
  const Tensor step = learning_rate * theta;
  const Tensor curved = times_blocks(step, loss->hessian(y_hat, y));  // αΘH
  ControlOrientedDynamics dynamics;
  dynamics.A = torch::eye(theta.size(0), theta.options()) - curved;
  dynamics.B = times_blocks(step, label_influence(loss, y_hat, y));
  dynamics.bias = curved.mv(y_hat.reshape({-1})) - step.mv(loss->gradient(y_hat, y).reshape({-1}));
  return dynamics;
}

}  // namespace cdt::dynamics
