#include <cdt/control/apply/gain_loop.h>
#include <cdt/control/apply/steering.h>
#include <cdt/control/controller.h>
#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>

#include <algorithm>
#include <cmath>

namespace cdt::control {

using torch::Tensor;

GainLoop loop_of_gain(const Plant& plant, const Tensor& G) {
  const dynamics::Modes& modes = plant.modes();
  GainLoop loop;
  if (modes.rank == 0) {
    loop.radius = Known::exactly(1);
    return loop;
  }
  const Tensor s = plant.steps().narrow(0, modes.nullity(), modes.rank);
  const Tensor scaled = modes.reachable_vectors() * s.sqrt();
  const Tensor mu = torch::linalg_eigvals(scaled.t().mm(G).mm(scaled).cpu());
  loop.factors = std::get<0>(torch::abs(1 - mu).sort(0, /*descending=*/true));
  loop.radius = Known::exactly(loop.factors[0].item<double>());
  if (plant.options().decay > 0) return loop;  // the decay does not grow with the kernel
  const Tensor real = torch::real(mu);
  const double margin = (2 * real / torch::abs(mu).square()).min().item<double>();
  loop.kernel_margin = Known::exactly(std::max(0.0, margin));
  if (torch::imag(mu).abs().max().item<double>() <= 1e-12 * torch::abs(mu).max().item<double>()) {
    loop.overshoot_margin = Known::exactly(1 / std::max(real.max().item<double>(), 0.0));
  }
  return loop;
}

Tensor spectrum_of_gain(const Plant& plant, const GainLoop& loop) {
  const dynamics::Modes& modes = plant.modes();
  const Tensor values = modes.values.cpu();
  const Tensor unmoved = torch::ones({modes.nullity()}, values.options());
  const Tensor factors =
      loop.factors.defined() ? torch::cat({unmoved, loop.factors.to(values.options())}) : unmoved;
  return torch::stack({values, plant.steps().cpu(), torch::full_like(values, NAN), factors});
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

Tensor GainController::gain_matrix() const {
  return gain_.gain.defined() ? gain_.gain : Controller::gain_matrix();
}

double GainController::optimal_cost(const Tensor& x) const {
  require_error(x, plant_.size());
  if (!gain_.cost.defined()) return NAN;
  const dynamics::Modes& modes = plant_.modes();
  const int64_t covered = gain_.rank >= 0 ? gain_.rank : modes.rank;
  const Tensor unmoved = modes.vectors.narrow(1, 0, modes.count() - covered);
  const double stuck = unmoved.t().mv(x).norm().item<double>();
  if (stuck > tol::kUnreachableError * x.norm().item<double>()) {
    return std::numeric_limits<double>::infinity();
  }
  return 0.5 * torch::dot(x, gain_.cost.mv(x)).item<double>();
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
    const GainLoop loop = loop_of_gain(plant_, gain_.steering);
    if (matrix.defined()) found.spectrum = spectrum_of_gain(plant_, loop);
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

}  // namespace cdt::control
