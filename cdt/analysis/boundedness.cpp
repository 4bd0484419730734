#include <cdt/analysis/boundedness.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>

#include <algorithm>

namespace cdt::analysis {

using torch::Tensor;

double mae_radius(const Tensor& theta, double learning_rate) {
  require_kernel(theta);
  require_non_negative(learning_rate, "learning_rate");
  return learning_rate / static_cast<double>(theta.size(0)) *
         theta.abs().sum(1).max().item<double>();
}

double lyapunov_lr_max(const Tensor& theta, const Tensor& gradient, const Tensor& error) {
  require_kernel(theta);
  for (const auto& [values, name] : {std::pair{gradient, "gradient"}, {error, "error"}}) {
    require_shape(values, {theta.size(0)}, name);
    CDT_REQUIRE(values.scalar_type() == torch::kFloat64, name, " must be float64, got ",
                values.scalar_type());
    require_finite(values, name);
  }
  const Tensor move = theta.mv(gradient);
  const double size = move.square().sum().item<double>();
  if (size == 0) return 0;
  return std::max(0.0, 2 * torch::dot(error, move).item<double>() / size);
}

}  // namespace cdt::analysis
