#include <cdt/control/apply/modal_products.h>
#include <cdt/control/spectral.h>
#include <cdt/control/steering.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cdt::control {
namespace {

using torch::Tensor;

constexpr int64_t kResidualColumns = 512;
constexpr double kLargestStep = tol::kLargestEntry;

void require_weights(const Tensor& weights, const Tensor& s, std::string_view name) {
  require_shape(weights, s.sizes(), name);
  CDT_REQUIRE(weights.scalar_type() == torch::kFloat64, name, " must be float64, not ",
              weights.scalar_type());
  require_finite(weights, name);
  const double lowest = weights.numel() > 0 ? weights.min().item<double>() : 1.0;
  CDT_REQUIRE(lowest > 0, name, " must be positive for every mode; its smallest value is ", lowest);
}

}  // namespace

Tensor shaped_weight(double weight, const std::function<Tensor(const Tensor&)>& shape,
                     const Tensor& s, std::string_view name) {
  require_positive(weight, name);
  Tensor uniform = torch::full_like(s, weight);
  if (!shape) return uniform;
  const Tensor factor = shape(s);
  require_weights(factor, s, c10::str("the shape of ", name));
  return uniform * factor;
}

void require_steps(double step_scale, const dynamics::Modes& modes) {
  const double fastest = step_scale * modes.upper_bound();
  CDT_REQUIRE(fastest <= kLargestStep, "a learning rate with αc_L = ", step_scale,
              " makes steps αc_Lλ of up to ", fastest, "; beyond ", kLargestStep,
              " their squares overflow");
}

ModeGains mode_gains(const Tensor& s, const Tensor& q, const Tensor& rho) {
  require_floating(s, "s");
  CDT_REQUIRE(s.scalar_type() == torch::kFloat64, "s must be float64, not ", s.scalar_type());
  require_finite(s, "s");
  const double lowest = s.numel() > 0 ? s.min().item<double>() : 0.0;
  CDT_REQUIRE(lowest >= 0, "s must not be negative; its smallest value is ", lowest);
  const double highest = s.numel() > 0 ? s.max().item<double>() : 0.0;
  CDT_REQUIRE(highest <= kLargestStep, "s must stay below ", kLargestStep,
              ", where its square overflows; its largest value is ", highest);
  require_weights(q, s, "q");
  require_weights(rho, s, "rho");

  // In units of √(qρ), so that weights far apart do not overflow: w² + βw − 1 = 0.
  const Tensor state = torch::sqrt(q) / torch::sqrt(rho);
  const Tensor input = torch::sqrt(rho) / torch::sqrt(q);
  const Tensor beta = input * (2 - s) - state * s;
  // √(β² + 4); LibTorch's hypot squares, and overflows.
  const Tensor larger = beta.abs().clamp_min(2);
  const Tensor root = larger * (1 + (beta.abs().clamp_max(2) / larger).square()).sqrt();
  // Either form is exact where the other cancels.
  const Tensor w = torch::where(beta > 0, 2 / (beta + root), (root - beta) / 2);
  const Tensor below = input + s * w;
  ModeGains gains{w * torch::sqrt(q) * torch::sqrt(rho), (1 - s) * (w / below), (input + w) / below,
                  (1 - s) * (input / below)};
  CDT_REQUIRE(torch::isfinite(gains.w + gains.gain + gains.steering).all().item<bool>(),
              "the weights q and rho lie too far apart for these steps: numbers overflow");
  return gains;
}

SpectralController design_spectral(const dynamics::Modes& modes, double step_scale,
                                   const SpectralWeights& weights) {
  require_positive(step_scale, "step_scale");
  SpectralController controller;
  controller.modes = modes;
  controller.step_scale = step_scale;
  require_steps(step_scale, modes);
  controller.s = modes.values * controller.step_scale;
  controller.q = shaped_weight(weights.q, weights.shape_q, controller.s, "q");
  controller.rho = shaped_weight(weights.rho, {}, controller.s, "rho");
  controller.gains = mode_gains(controller.s, controller.q, controller.rho);
  if (!modes.complete()) {
    controller.tail_step = step_scale * modes.tail_bound;
    const Tensor step = torch::full({1}, controller.tail_step, controller.s.options());
    controller.tail_steering =
        mode_gains(step, shaped_weight(weights.q, weights.shape_q, step, "q"),
                   shaped_weight(weights.rho, {}, step, "rho"))
            .steering.item<double>();
  }
  return controller;
}

SpectralController design_spectral(const Tensor& theta, double step_scale,
                                   const SpectralWeights& weights,
                                   torch::ScalarType network_dtype) {
  require_kernel(theta);
  const double tolerance = tol::rank_of_computed(theta.size(0), network_dtype);
  return design_spectral(dynamics::decompose(theta, tolerance), step_scale, weights);
}

Tensor SpectralController::steer(const Tensor& error) const {
  require_error(error, modes.size());
  return apply_modes(modes.vectors, gains.steering, tail_steering, error);
}

Tensor SpectralController::predict(const Tensor& error) const {
  require_error(error, modes.size());
  return apply_modes(modes.vectors, gains.closed_loop, 1, error);
}

Tensor SpectralController::augment(const Tensor& y_hat, const Tensor& y) const {
  return augmented_label(y_hat, y, modes.size(),
                         [this](const Tensor& e) { return steer(e.to(s.device())); });
}

Tensor SpectralController::gain_matrix() const {
  return matrix_of_modes(modes.vectors, gains.gain, tail_steering - 1);
}

Tensor SpectralController::steering_matrix() const {
  return matrix_of_modes(modes.vectors, gains.steering, tail_steering);
}

Tensor SpectralController::riccati_matrix() const {
  const int64_t first = modes.nullity();
  const Tensor p = (gains.w / s).narrow(0, first, modes.rank);
  const Tensor V = modes.reachable_vectors();
  return (V * p).mm(V.t());
}

double SpectralController::optimal_cost(const Tensor& error) const {
  require_error(error, modes.size());
  const Tensor modal = modes.vectors.t().mv(error);
  const int64_t first = modes.nullity();
  const double known = modal.narrow(0, first, modes.rank).norm().item<double>();
  const double whole = error.norm().item<double>();
  const double stuck = modes.complete()
                           ? modal.narrow(0, 0, first).norm().item<double>()
                           : std::sqrt(std::max(0.0, (whole - known) * (whole + known)));
  if (stuck > tol::kUnreachableError * whole) {
    return std::numeric_limits<double>::infinity();
  }
  const Tensor reachable = modal.narrow(0, first, modes.rank);
  const Tensor p = (gains.w / s).narrow(0, first, modes.rank);
  return 0.5 * torch::dot(reachable.square(), p).item<double>();
}

double SpectralController::closed_loop_radius() const {
  if (modes.rank == 0 || tail_step > 0) return 1;
  const double radius =
      gains.closed_loop.narrow(0, modes.nullity(), modes.rank).abs().max().item<double>();
  return std::min(radius, std::nextafter(1.0, 0.0));  // s > 0 makes it less than 1, before rounding
}

double riccati_residual(const SpectralController& controller, const Tensor& theta) {
  return riccati_residual(controller.modes, controller.s, controller.gains.w,
                          controller.gains.steering, controller.q, controller.step_scale, 0, theta);
}

double riccati_residual(const dynamics::Modes& modes, const Tensor& steps, const Tensor& w,
                        const Tensor& gain, const Tensor& weights, double step_scale,
                        double decay_step, const Tensor& theta) {
  require_kernel(theta);
  require_shape(theta, {modes.size(), modes.size()}, "kernel");
  const int64_t rank = modes.rank;
  if (rank == 0) return 0;
  const int64_t first = modes.nullity();
  const auto reachable = [&](const Tensor& t) { return t.narrow(0, first, rank); };
  const Tensor V = modes.reachable_vectors();
  const Tensor s = reachable(steps);
  const Tensor steering = reachable(gain);
  // The sizes of P, A and A − BK = I − SG before they cancel. What follows is divided by them at
  // once, so that no square overflows.
  const Tensor costs = reachable(w) / s;
  const double largest = costs.max().item<double>();
  const double cost = largest * (costs / largest).norm().item<double>();
  const double growth = 1 + (1 - s).abs().max().item<double>();
  const double loop = 1 + s.max().item<double>() * steering.max().item<double>();
  const Tensor p = costs / cost;
  const Tensor q = reachable(weights) / cost;
  // AV, with A from Θ; P, Q and G act on columns of V by their eigenvalues. Then the columns of the
  // residual times V:
  Tensor moved = theta.mm(V).mul_(step_scale);
  if (decay_step > 0) moved.add_(V, decay_step);
  const Tensor AV = (V - moved).div_(growth);
  double squares = 0;
  for (int64_t j = 0; j < rank; j += kResidualColumns) {
    const int64_t count = std::min(kResidualColumns, rank - j);
    const Tensor Vj = V.narrow(1, j, count);
    const Tensor g = steering.narrow(0, j, count) / loop;
    const Tensor closed = Vj * (1 / loop - g) + AV.narrow(1, j, count) * (g * growth);  // (I − SG)V
    const Tensor residual = Vj * ((p - q).narrow(0, j, count) / (growth * loop)) -
                            AV.mm(V.t().mm(closed).mul_(p.unsqueeze(1)));
    squares += residual.square().sum().item<double>();
  }
  return std::sqrt(squares);
}

double gain_of_slow_modes(double q, double rho) {
  const double root = std::sqrt(q) / std::sqrt(rho);
  return root * (root / (std::hypot(1, root) + 1));
}

}  // namespace cdt::control
