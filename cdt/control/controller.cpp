#include <cdt/control/apply/modal_products.h>
#include <cdt/control/controller.h>
#include <cdt/control/general.h>
#include <cdt/control/spectral.h>
#include <cdt/control/steering.h>
#include <cdt/core/check.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cdt::control {

using torch::Tensor;

namespace {

/// Errors of a plant whose gain is found by probing it, or whose eigenvalues are computed.
constexpr int64_t kMostProbed = 2000;
/// The same where nobody has asked for all that there is to know.
constexpr int64_t kMostUnasked = 300;
/// A function is called linear if doubling its input doubles its output up to this share.
constexpr double kLinear = 1e-9;

struct Loop {
  Known radius;
  Known kernel_margin;
  Known overshoot_margin;
  Tensor factors{};  ///< |1 − μ|, descending
};

/// Of v = Gx, by the eigenvalues μ of SG on what labels can reach: the loop has 1 − μ there, and |1
/// − δμ| < 1 while δ < 2 Re μ/|μ|².
Loop loop_of(const Plant& plant, const Tensor& G) {
  const dynamics::Modes& modes = plant.modes();
  Loop loop;
  if (modes.rank == 0) {
    loop.radius = Known::exactly(1);
    return loop;
  }
  const Tensor s = plant.steps().narrow(0, modes.nullity(), modes.rank);
  const Tensor scaled = modes.reachable_vectors() * s.sqrt();
  const Tensor mu = torch::linalg_eigvals(scaled.t().mm(G).mm(scaled).cpu());
  loop.factors = std::get<0>(torch::abs(1 - mu).sort(0, /*descending=*/true));
  loop.radius = Known::exactly(loop.factors[0].item<double>());
  if (plant.options().decay > 0) return loop;  // of which steps do not grow with the kernel
  const Tensor real = torch::real(mu);
  const double margin = (2 * real / torch::abs(mu).square()).min().item<double>();
  loop.kernel_margin = Known::exactly(std::max(0.0, margin));
  if (torch::imag(mu).abs().max().item<double>() <= 1e-12 * torch::abs(mu).max().item<double>()) {
    loop.overshoot_margin = Known::exactly(1 / std::max(real.max().item<double>(), 0.0));
  }
  return loop;
}

Tensor spectrum_of(const Plant& plant, const Loop& loop) {
  const dynamics::Modes& modes = plant.modes();
  const Tensor values = modes.values.cpu();
  const Tensor unmoved = torch::ones({modes.nullity()}, values.options());
  const Tensor factors =
      loop.factors.defined() ? torch::cat({unmoved, loop.factors.to(values.options())}) : unmoved;
  return torch::stack({values, plant.steps().cpu(), torch::full_like(values, NAN), factors});
}

/// The linear part of `steer` at rest, column by column; undefined if it has none, or too many
/// columns.
Tensor probed(const Controller& controller, int64_t most) {
  const int64_t n = controller.plant().size();
  if (n > most) return {};
  const Tensor none = torch::zeros({n}, controller.plant().modes().values.options());
  const Tensor at_rest = controller.steer(none);
  const Tensor both = torch::ones_like(none);
  const Tensor once = controller.steer(both) - at_rest;
  const Tensor twice = controller.steer(2 * both) - at_rest;
  if (!((twice - 2 * once).norm().item<double>() <= kLinear * once.norm().item<double>()))
    return {};
  Tensor G = torch::empty({n, n}, none.options());
  for (int64_t j = 0; j < n; ++j) {
    Tensor unit = none.clone();
    unit[j] = 1;
    G.select(1, j).copy_(controller.steer(unit) - at_rest);
  }
  return G;
}

class FunctionController : public Controller {
 public:
  FunctionController(Plant plant, std::function<Tensor(const Tensor&)> u)
      : Controller(std::move(plant)), u_(std::move(u)) {}

  Tensor steer(const Observation& at) const override {
    require_error(at.x, plant_.size());
    const Tensor u = u_(at.x);
    require_floating(u, "what the function of the controller returns");
    require_shape(u, {plant_.size()}, "what the function of the controller returns");
    return at.x - u.detach().to(at.x.options());
  }
  std::unique_ptr<Controller> redesigned(const Plant& plant) const override {
    return std::make_unique<FunctionController>(plant, u_);
  }

 private:
  std::function<Tensor(const Tensor&)> u_;
};

}  // namespace

Tensor Controller::predict(const Observation& at) const { return at.x - plant_.apply(steer(at)); }

Step Controller::step(const Observation& at, double share) const {
  Step step{.v = require_steered(steer(at), plant_.size())};
  const Tensor left = predict(at);
  step.left = share == 1 ? left : at.x + (left - at.x) * share;
  step.merit = merit(step.left);
  step.augment = (step.v - at.x).norm().item<double>();
  return step;
}

Tensor Controller::steer_modes(const Tensor& modal) const {
  const Tensor& V = plant_.modes().vectors;
  return V.t().mv(steer(V.mv(modal)));
}

double Controller::merit(const Tensor& x) const { return torch::dot(x, x).item<double>(); }

int64_t Controller::bytes() const {
  return 2 * plant_.size() * plant_.size() * static_cast<int64_t>(sizeof(double));
}

Certificate Controller::certificate(const Tensor& matrix) const {
  Certificate found;
  found.rate = plant_.rate();
  const Tensor G = probed(*this, matrix.defined() ? kMostProbed : kMostUnasked);
  if (!G.defined()) {
    found.controller = "a controller that is not linear, or of too many errors to probe";
    found.digest = digest_of({steer(torch::ones({plant_.size()}, plant_.matrix().options()))});
    return found;
  }
  const Loop loop = loop_of(plant_, G);
  found.controller = "a controller, by probing its first step";
  found.radius = loop.radius;
  found.kernel_margin = loop.kernel_margin;
  found.overshoot_margin = loop.overshoot_margin;
  found.digest = digest_of({G});
  if (matrix.defined()) found.spectrum = spectrum_of(plant_, loop);
  return found;
}

ModalController::ModalController(Plant plant, Law law)
    : Controller(std::move(plant)), law_(std::move(law)), s_(plant_.steps()) {
  const dynamics::Modes& modes = plant_.modes();
  require_steps(plant_.step_scale(), modes);
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

double ModalController::closed_loop_radius() const {
  if (plant_.modes().rank == 0 || tail_step_ > 0) return 1;
  const double radius = reachable(closed_loop_).abs().max().item<double>();
  // Of a law that damps every mode less than 1 is left where s > 0, before rounding.
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
  if (tail_step_ > 0) {  // whose slowest mode may hardly move
    found.radius = Known::within(reachable(closed_loop_).abs().max().item<double>(), radius);
  } else {
    found.radius = Known::exactly(radius);
  }
  if (modes.rank == 0) {  // nothing moves, whatever the kernel is multiplied by
    found.kernel_margin = found.overshoot_margin =
        Known::exactly(std::numeric_limits<double>::infinity());
    return found;
  }
  // s grows with the kernel but for the decay's share of it.
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
  if (law_.cost && law_.weight && matrix.defined()) {
    found.residual = riccati_residual(modes, s_, law_.cost(s_), steering_, law_.weight(s_),
                                      plant_.step_scale(), plant_.decay_step(), matrix);
  }
  return found;
}

std::unique_ptr<Controller> ModalController::redesigned(const Plant& plant) const {
  return std::make_unique<ModalController>(plant, law_);
}

GainController::GainController(Plant plant, Gain gain, std::function<Gain(const Plant&)> again)
    : Controller(std::move(plant)), gain_(std::move(gain)), again_(std::move(again)) {
  require_shape(gain_.steering, {plant_.size(), plant_.size()}, "the gain");
  CDT_REQUIRE(gain_.steering.scalar_type() == torch::kFloat64, "the gain must be float64, got ",
              gain_.steering.scalar_type());
  require_finite(gain_.steering, "the gain");
}

Tensor GainController::steer(const Observation& at) const {
  require_error(at.x, plant_.size());
  return gain_.steering.mv(at.x);
}

double GainController::merit(const Tensor& x) const {
  if (!gain_.cost.defined()) return Controller::merit(x);
  return torch::dot(x, gain_.cost.mv(x)).item<double>();
}

Certificate GainController::certificate(const Tensor& matrix) const {
  Certificate found;
  found.controller = gain_.name;
  found.optimal = gain_.optimal;
  found.rate = plant_.rate();
  found.residual = gain_.residual;
  found.digest =
      digest_of({torch::full({1}, plant_.step_scale(), torch::kFloat64), gain_.steering});
  if (plant_.size() <= (matrix.defined() ? kMostProbed : kMostUnasked)) {
    const Loop loop = loop_of(plant_, gain_.steering);
    if (matrix.defined()) found.spectrum = spectrum_of(plant_, loop);
    found.radius = loop.radius;
    found.kernel_margin = loop.kernel_margin;
    found.overshoot_margin = loop.overshoot_margin;
  }
  if (!std::isnan(gain_.radius)) found.radius = Known::exactly(gain_.radius);
  return found;
}

std::unique_ptr<Controller> GainController::redesigned(const Plant& plant) const {
  return std::make_unique<GainController>(plant, again_ ? again_(plant) : gain_, again_);
}

std::unique_ptr<Controller> from_gain(const Plant& plant, const Tensor& K) {
  const int64_t n = plant.size();
  require_shape(K, {n, n}, "a gain");
  require_floating(K, "a gain");
  const Tensor G = torch::eye(n, K.options().dtype(torch::kFloat64)) + K.to(torch::kFloat64);
  return std::make_unique<GainController>(plant, GainController::Gain{.steering = G});
}

std::unique_ptr<Controller> from_function(const Plant& plant,
                                          std::function<Tensor(const Tensor& x)> u) {
  CDT_REQUIRE(u, "a controller needs a function");
  return std::make_unique<FunctionController>(plant, std::move(u));
}

}  // namespace cdt::control
