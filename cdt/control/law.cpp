#include <cdt/control/law.h>
#include <cdt/control/spectral.h>
#include <cdt/core/check.h>
#include <fmt/format.h>

#include <cmath>

namespace cdt::control {

using torch::Tensor;

Law descent(double gain) {
  require_positive(gain, "gain");
  return {.name = gain == 1 ? "plain descent" : fmt::format("descent, {} times the rate", gain),
          .optimal = "",
          .steering = [gain](const Tensor& s) { return torch::full_like(s, gain); }};
}

Law lqr(double q, double p, std::function<Tensor(const Tensor& s)> shape) {
  require_positive(q, "q");
  require_positive(p, "p");
  const auto weight = [q, shape](const Tensor& s) { return shaped_weight(q, shape, s, "q"); };
  const auto gains = [weight, p](const Tensor& s) {
    return mode_gains(s, weight(s), torch::full_like(s, p));
  };
  return {.name = fmt::format("lqr q={} p={}{}", q, p, shape ? ", shaped" : ""),
          .optimal = shape ? "the sum of q(s)|e|^2 + p|y_u|^2 over all steps"
                           : "the sum of q|e|^2 + p|y_u|^2 over all steps",
          .steering = [gains](const Tensor& s) { return gains(s).steering; },
          .closed_loop = [gains](const Tensor& s) { return gains(s).closed_loop; },
          .gain = [gains](const Tensor& s) { return gains(s).gain; },
          .cost = [gains](const Tensor& s) { return gains(s).w; },
          .weight = weight,
          .effort = p};
}

Law damped(double nu) {
  require_positive(nu, "damping");
  return {.name = fmt::format("damped, nu={:.6g}", nu),
          .optimal = "|e|^2 + mu|step|^2 after one step",
          .steering = [nu](const Tensor& s) { return 1 / (s + nu); },
          .closed_loop = [nu](const Tensor& s) { return nu / (s + nu); },
          .damping = nu};
}

double damping_like(double q, double p) { return 1 / std::sqrt(1 + q / p); }

}  // namespace cdt::control
