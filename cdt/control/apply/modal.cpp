#include <cdt/control/apply/modal_products.h>
#include <cdt/control/apply/steering.h>
#include <cdt/control/controller.h>
#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>

#include <algorithm>
#include <cmath>

namespace cdt::control {

using torch::Tensor;

namespace {

constexpr int64_t kResidualColumns = 512;

void require_steps(const Plant& plant) {
  const double fastest = plant.step_scale() * plant.modes().upper_bound();
  CDT_REQUIRE(fastest <= tol::kLargestEntry, "a learning rate with αc_L = ", plant.step_scale(),
              " makes steps αc_Lλ of up to ", fastest, "; beyond ", tol::kLargestEntry,
              " their squares overflow");
}

}  // namespace

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
  // The norms of P, A and A − BK = I − SG before cancellation. All terms below are divided by them
  // at once, so that no square overflows.
  const Tensor costs = reachable(w) / s;
  const double largest = costs.max().item<double>();
  const double cost = largest * (costs / largest).norm().item<double>();
  const double growth = 1 + (1 - s).abs().max().item<double>();
  const double loop = 1 + s.max().item<double>() * steering.max().item<double>();
  const Tensor p = costs / cost;
  const Tensor q = reachable(weights) / cost;
  // AV, with A computed from Θ; P, Q and G act on columns of V by their eigenvalues. Then the
  // columns of the residual times V:
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

ModalController::ModalController(Plant plant, Law law)
    : Controller(std::move(plant)), law_(std::move(law)), s_(plant_.steps()) {
  const dynamics::Modes& modes = plant_.modes();
  require_steps(plant_);
  steering_ = law_.steering(s_);
  require_shape(steering_, s_.sizes(), "the steering of a law");
  require_finite(steering_, "the steering of a law");
  closed_loop_ = law_.leaves(s_);
  if (modes.complete()) return;
  tail_step_ = plant_.step_scale() * modes.tail_bound + plant_.decay_step();
  tail_steering_ = law_.steering(torch::full({1}, tail_step_, s_.options())).item<double>();
}

Tensor ModalController::reachable(const Tensor& modal) const {
  return modal.narrow(0, plant_.modes().nullity(), plant_.modes().rank);
}

Tensor ModalController::steer(const Observation& at) const {
  require_error(at.x, plant_.size());
  return apply_modes(plant_.modes().vectors, steering_, tail_steering_, at.x);
}

Tensor ModalController::predict(const Observation& at) const {
  require_error(at.x, plant_.size());
  return apply_modes(plant_.modes().vectors, closed_loop_, 1, at.x);
}

Step ModalController::step(const Observation& at, double share) const {
  if (!plant_.modes().complete()) return Controller::step(at, share);
  const Tensor& V = plant_.modes().vectors;
  const Tensor modal = V.t().mv(at.x);
  const Tensor steered = steer_modes(modal);
  const Tensor left = torch::addcmul(modal, s_, steered, -share);
  return {.v = V.mv(steered),
          .left = V.mv(left),
          .merit = square(left),
          .augment = (steered - modal).norm().item<double>()};
}

Tensor ModalController::steer_modes(const Tensor& modal) const { return steering_ * modal; }

double ModalController::square(const Tensor& modal) const {
  const Tensor moved = reachable(modal);
  return torch::dot(moved, moved).item<double>();
}

double ModalController::merit(const Tensor& x) const {
  if (!plant_.modes().complete()) return Controller::merit(x);
  return square(plant_.modes().vectors.t().mv(x));
}

Tensor ModalController::matrix() const {
  return matrix_of_modes(plant_.modes().vectors, steering_, tail_steering_);
}

Tensor ModalController::gain_matrix() const {
  return matrix_of_modes(plant_.modes().vectors, law_.augments(s_), tail_steering_ - 1);
}

/// P's eigenvalues on reachable modes
Tensor ModalController::costs() const {
  return law_.cost ? reachable(law_.cost(s_) / s_) : Tensor();
}

Tensor ModalController::cost_matrix() const {
  const Tensor p = costs();
  if (!p.defined()) return {};
  const Tensor V = plant_.modes().reachable_vectors();
  return (V * p).mm(V.t());
}

double ModalController::optimal_cost(const Tensor& x) const {
  require_error(x, plant_.size());
  const Tensor p = costs();
  if (!p.defined()) return NAN;
  const dynamics::Modes& modes = plant_.modes();
  const Tensor modal = modes.vectors.t().mv(x);
  const Tensor moved = reachable(modal);
  const double known = moved.norm().item<double>();
  const double whole = x.norm().item<double>();
  const double stuck = modes.complete()
                           ? modal.narrow(0, 0, modes.nullity()).norm().item<double>()
                           : std::sqrt(std::max(0.0, (whole - known) * (whole + known)));
  if (stuck > tol::kUnreachableError * whole) return std::numeric_limits<double>::infinity();
  return 0.5 * torch::dot(moved.square(), p).item<double>();
}

double ModalController::riccati_residual(const Tensor& matrix) const {
  if (!law_.cost || !law_.weight) return NAN;
  return control::riccati_residual(plant_.modes(), s_, law_.cost(s_), steering_, law_.weight(s_),
                                   plant_.step_scale(), plant_.decay_step(), matrix);
}

double ModalController::closed_loop_radius() const {
  if (plant_.modes().rank == 0 || tail_step_ > 0) return 1;
  const double radius = reachable(closed_loop_).abs().max().item<double>();
  // A law that damps every mode leaves less than 1 where s > 0, before rounding.
  const bool damps = law_.cost || law_.damping;
  return damps ? std::min(radius, std::nextafter(1.0, 0.0)) : radius;
}

Certificate ModalController::certificate(const Tensor& matrix) const {
  const dynamics::Modes& modes = plant_.modes();
  Certificate found;
  found.controller = law_.name + ", mode by mode";
  found.optimal = law_.optimal;
  found.rate = plant_.rate();
  found.gain = law_.steering(torch::zeros({1}, s_.options())).item<double>();
  found.digest = digest_of({s_, steering_});
  const double radius = closed_loop_radius();
  if (tail_step_ > 0) {  // the slowest mode of the tail may hardly move
    found.radius = Known::within(reachable(closed_loop_).abs().max().item<double>(), radius);
  } else {
    found.radius = Known::exactly(radius);
  }
  if (modes.rank == 0) {  // nothing moves, whatever the kernel is scaled by
    found.kernel_margin = found.overshoot_margin =
        Known::exactly(std::numeric_limits<double>::infinity());
    return found;
  }
  // s grows with the kernel, except for the decay's part.
  const double decay = plant_.decay_step();
  const auto grows_until = [&](double most) {
    if (decay == 0) {
      const double fastest = (s_ * steering_).max().item<double>();
      return Known::exactly(most / std::max(fastest, tail_step_ * tail_steering_));
    }
    const Tensor limit = (most / reachable(steering_) - decay) / (reachable(s_) - decay);
    double least = limit.min().item<double>();
    if (tail_step_ > 0)
      least = std::min(least, (most / tail_steering_ - decay) / (tail_step_ - decay));
    return Known::exactly(std::max(least, 0.0));
  };
  found.kernel_margin = grows_until(2);
  found.overshoot_margin = grows_until(1);
  const Tensor gain = law_.augments(s_);
  if (tail_step_ == 0) found.gain_margin = augment_interval(reachable(s_), reachable(gain));
  if (law_.cost && law_.effort > 0) {
    const double p = law_.effort;
    const double a =
        torch::sqrt(p / (p + reachable(s_) * reachable(law_.cost(s_)))).min().item<double>();
    found.guaranteed_margin = Known::within(1 / (1 + a), 1 / (1 - a));
  }
  found.spectrum = torch::stack({modes.values, s_, gain, closed_loop_});
  if (matrix.defined()) found.residual = riccati_residual(matrix);
  return found;
}

std::unique_ptr<Controller> ModalController::redesigned(const Plant& plant) const {
  return std::make_unique<ModalController>(plant, law_);
}

}  // namespace cdt::control
