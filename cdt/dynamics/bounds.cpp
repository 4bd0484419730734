#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/bounds.h>

#include <cmath>
#include <limits>

namespace cdt::dynamics {

double lagrange_bound(double hessian_norm, double displacement_norm) {
  require_non_negative(hessian_norm, "hessian_norm");
  require_non_negative(displacement_norm, "displacement_norm");
  return 0.5 * hessian_norm * displacement_norm * displacement_norm;
}

double loss_gradient_bound(double third_norm, double output_displacement, double output_error) {
  require_non_negative(third_norm, "third_norm");
  require_non_negative(output_displacement, "output_displacement");
  require_non_negative(output_error, "output_error");
  const double reach = output_displacement + output_error;
  return 0.5 * third_norm * reach * reach;
}

double control_oriented_bound(double output_error, double contraction, double step_norm,
                              double gradient_error) {
  require_non_negative(output_error, "output_error");
  require_non_negative(contraction, "contraction");
  require_non_negative(step_norm, "step_norm");
  require_non_negative(gradient_error, "gradient_error");
  return contraction * output_error + step_norm * gradient_error;
}

double global_bound(double gamma, double kappa, int64_t steps, double initial_distance,
                    double lagrange) {
  require_non_negative(gamma, "gamma");
  require_non_negative(kappa, "kappa");
  CDT_REQUIRE(steps >= 0, "steps must be zero or more, got ", steps);
  require_non_negative(initial_distance, "initial_distance");
  require_non_negative(lagrange, "lagrange");
  return gamma * std::pow(kappa, static_cast<double>(steps)) * initial_distance + lagrange;
}

double robust_contraction(double kappa, double step_scale, double lambda_max, double hessian_norm,
                          double radius) {
  require_non_negative(kappa, "kappa");
  require_non_negative(step_scale, "step_scale");
  require_non_negative(lambda_max, "lambda_max");
  require_non_negative(hessian_norm, "hessian_norm");
  require_non_negative(radius, "radius");
  const double drift = hessian_norm * radius;  // ‖J − J₀‖
  return kappa + step_scale * (2 * std::sqrt(lambda_max) * drift + drift * drift);
}

double robust_radius(double kappa, double step_scale, double lambda_max, double hessian_norm) {
  robust_contraction(kappa, step_scale, lambda_max, hessian_norm, 0);  // for its argument checks
  require_positive(step_scale, "step_scale");
  if (kappa >= 1) return 0;
  // d² + 2√λ d = (1 − κ)/(αc_L) for the drift d, without cancellation.
  const double room = (1 - kappa) / step_scale;
  const double drift = room / (std::sqrt(lambda_max + room) + std::sqrt(lambda_max));
  return hessian_norm > 0 ? drift / hessian_norm : std::numeric_limits<double>::infinity();
}

}  // namespace cdt::dynamics
