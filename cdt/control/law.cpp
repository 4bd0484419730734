#include <cdt/control/law.h>
#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>
#include <fmt/format.h>

#include <cmath>

namespace cdt::control {
namespace {

using torch::Tensor;

/// The optimal feedback of independent modes, with the functions of Law.
struct ModeGains {
  Tensor w;
  Tensor gain;
  Tensor steering;
  Tensor closed_loop;
};

void require_mode_weights(const Tensor& weights, const Tensor& s, std::string_view name) {
  require_shape(weights, s.sizes(), name);
  CDT_REQUIRE(weights.scalar_type() == torch::kFloat64, name, " must be float64, got ",
              weights.scalar_type());
  require_finite(weights, name);
  const double lowest = weights.numel() > 0 ? weights.min().item<double>() : 1.0;
  CDT_REQUIRE(lowest > 0, name, " must be positive for every mode; its smallest value is ", lowest);
}

void require_mode_steps(const Tensor& s) {
  require_floating(s, "s");
  CDT_REQUIRE(s.scalar_type() == torch::kFloat64, "s must be float64, got ", s.scalar_type());
  require_finite(s, "s");
  const double lowest = s.numel() > 0 ? s.min().item<double>() : 0.0;
  CDT_REQUIRE(lowest >= 0, "s must not be negative; its smallest value is ", lowest);
  const double highest = s.numel() > 0 ? s.max().item<double>() : 0.0;
  CDT_REQUIRE(highest <= tol::kLargestEntry, "s must stay below ", tol::kLargestEntry,
              ", where its square overflows; its largest value is ", highest);
}

/// q·shape(s)
Tensor shaped_weight(double q, const std::function<Tensor(const Tensor&)>& shape, const Tensor& s) {
  Tensor uniform = torch::full_like(s, q);
  if (!shape) return uniform;
  const Tensor factor = shape(s);
  require_mode_weights(factor, s, "the shape of q");
  return uniform * factor;
}

ModeGains mode_gains(const Tensor& s, const Tensor& q, double effort) {
  require_mode_steps(s);
  require_mode_weights(q, s, "q");
  const Tensor p = torch::full_like(s, effort);
  // In units of √(qp), so that very different weights do not overflow: w² + βw − 1 = 0.
  const Tensor state = torch::sqrt(q) / torch::sqrt(p);
  const Tensor input = torch::sqrt(p) / torch::sqrt(q);
  const Tensor beta = input * (2 - s) - state * s;
  // √(β² + 4); LibTorch's hypot squares its arguments and overflows.
  const Tensor larger = beta.abs().clamp_min(2);
  const Tensor root = larger * (1 + (beta.abs().clamp_max(2) / larger).square()).sqrt();
  // Each form is exact where the other cancels.
  const Tensor w = torch::where(beta > 0, 2 / (beta + root), (root - beta) / 2);
  const Tensor below = input + s * w;
  ModeGains gains{w * torch::sqrt(q) * torch::sqrt(p), (1 - s) * (w / below), (input + w) / below,
                  (1 - s) * (input / below)};
  CDT_REQUIRE(torch::isfinite(gains.w + gains.gain + gains.steering).all().item<bool>(),
              "the weights q and p lie too far apart for these steps: numbers overflow");
  return gains;
}

/// w_N = s q, w = s q + (1 − s)²p w⁺/(p + s w⁺)
ModeGains receding_gains(const Tensor& s, double q, double effort, int64_t horizon) {
  require_mode_steps(s);
  const Tensor p = torch::full_like(s, effort);
  Tensor w = s * q;
  for (int64_t k = 1; k < horizon; ++k) {
    w = s * q + (1 - s).square() * (w * (p / (p + s * w)));
  }
  const Tensor below = p + s * w;
  return {w, (1 - s) * (w / below), (p + w) / below, (1 - s) * (p / below)};
}

}  // namespace

Law descent(double gain) {
  require_positive(gain, "gain");
  return {.name = gain == 1 ? "plain descent" : fmt::format("descent, {} times the rate", gain),
          .optimal = "",
          .steering = [gain](const Tensor& s) { return torch::full_like(s, gain); }};
}

Law lqr(double q, double p, std::function<Tensor(const Tensor& s)> shape) {
  require_positive(q, "q");
  require_positive(p, "p");
  const auto weight = [q, shape](const Tensor& s) { return shaped_weight(q, shape, s); };
  const auto gains = [weight, p](const Tensor& s) { return mode_gains(s, weight(s), p); };
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

Law receding(double q, double p, int64_t horizon) {
  require_positive(q, "q");
  require_positive(p, "p");
  CDT_REQUIRE(horizon >= 1, "the horizon must be at least one step, got ", horizon);
  const auto gains = [q, p, horizon](const Tensor& s) { return receding_gains(s, q, p, horizon); };
  return {.name = fmt::format("receding q={} p={}, {} steps", q, p, horizon),
          .optimal = fmt::format("the sum of q|e|^2 + p|y_u|^2 over the next {} steps", horizon),
          .steering = [gains](const Tensor& s) { return gains(s).steering; },
          .closed_loop = [gains](const Tensor& s) { return gains(s).closed_loop; },
          .gain = [gains](const Tensor& s) { return gains(s).gain; }};
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

double gain_of_slow_modes(double q, double p) {
  const double root = std::sqrt(q) / std::sqrt(p);
  return root * (root / (std::hypot(1, root) + 1));
}

}  // namespace cdt::control
