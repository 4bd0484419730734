#include <cdt/control/apply/gain_loop.h>
#include <cdt/control/apply/steering.h>
#include <cdt/control/controller.h>
#include <cdt/core/check.h>

#include <cmath>

namespace cdt::control {

using torch::Tensor;

namespace {

/// A function counts as linear if doubling its input doubles its output up to this relative error.
constexpr double kLinear = 1e-9;

/// The linear part of `steer` at x = 0, column by column; undefined if `steer` is not linear or has
/// more than `most` columns.
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

Tensor Controller::augment(const Tensor& y_hat, const Tensor& y) const {
  require_floating(y_hat, "y_hat");
  if (const loss::ClassCoordinates* classes = plant_.classes()) {
    CDT_REQUIRE(!y.defined(), "a plant of classes has its labels: augment takes the logits alone");
    const Tensor label = classes->label(y_hat, steer(classes->state(y_hat)));
    return label.to(y_hat.device(), y_hat.scalar_type());
  }
  require_floating(y, "y");
  CDT_REQUIRE(y_hat.sizes() == y.sizes(), "outputs and labels must have one shape; they have ",
              y_hat.sizes(), " and ", y.sizes());
  CDT_REQUIRE(y.numel() == plant_.size(), "the controller was designed for ", plant_.size(),
              " outputs, these are ", y.numel());
  const Tensor outputs = y_hat.detach().to(torch::kFloat64).reshape({-1});
  const Tensor error = outputs - y.detach().to(outputs.options()).reshape({-1});
  require_finite(error, "y_hat − y");
  const Tensor steered = require_steered(steer(error.to(plant_.device())), plant_.size());
  return (outputs - steered.to(outputs.device())).view(y_hat.sizes()).to(y_hat.scalar_type());
}

Tensor Controller::gain_matrix() const {
  const Tensor G = matrix();
  return G.defined() ? G - torch::eye(G.size(0), G.options()) : G;
}

double Controller::optimal_cost(const Tensor& x) const {
  require_error(x, plant_.size());
  const Tensor P = cost_matrix();
  return P.defined() ? 0.5 * torch::dot(x, P.mv(x)).item<double>() : NAN;
}

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
  const GainLoop loop = loop_of_gain(plant_, G);
  found.controller = "a controller, by probing its first step";
  found.radius = loop.radius;
  found.kernel_margin = loop.kernel_margin;
  found.overshoot_margin = loop.overshoot_margin;
  found.digest = digest_of({G});
  if (matrix.defined()) found.spectrum = spectrum_of_gain(plant_, loop);
  return found;
}

std::unique_ptr<Controller> from_function(const Plant& plant,
                                          std::function<Tensor(const Tensor& x)> u) {
  CDT_REQUIRE(u, "a controller needs a function");
  return std::make_unique<FunctionController>(plant, std::move(u));
}

}  // namespace cdt::control
