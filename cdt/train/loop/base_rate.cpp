#include <cdt/dynamics/lanczos.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/method.h>

#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Up to this many outputs, λ_max is computed from the kernel itself; beyond, from its operator.
constexpr int64_t kExactKernel = 4000;
/// The operator of a float32 network, and its trace, have at most about six digits.
constexpr double kOperatorTolerance = 1e-3;

dynamics::LanczosOptions one_mode(torch::Device device) {
  dynamics::LanczosOptions options;
  options.modes = 1;
  options.block = 4;
  options.device = device;
  return options;
}

}  // namespace

double largest_kernel_eigenvalue(const kernel::Model& model, const Tensor& x, int64_t outputs,
                                 int64_t memory_bytes) {
  const int64_t bytes = outputs * outputs * static_cast<int64_t>(sizeof(double));
  if (outputs <= kExactKernel && bytes <= memory_bytes) {
    kernel::NtkOptions options;
    options.memory_bytes = memory_bytes;
    return largest_eigenvalue(kernel::empirical_ntk(model, x, options).theta);
  }
  dynamics::LanczosOptions lanczos = one_mode(x.device());
  kernel::OperatorOptions options;
  options.memory_bytes = memory_bytes;
  const kernel::NtkOperator theta(model, x, options);
  lanczos.tolerance = kOperatorTolerance;
  lanczos.max_restarts = 10;
  lanczos.trace = theta.trace() * (1 + kOperatorTolerance);
  const auto product = [&](const Tensor& columns) { return theta.apply(columns); };
  return dynamics::leading_modes(product, theta.size(), lanczos).modes.largest();
}

double BaseRate::at(const Setup& setup, const Pass& pass) {
  if (!std::isnan(value_)) return value_;
  const TrainOptions& options = setup.options;
  double unit = 1;  // 1/(c_L λ_max)
  if (!options.learning_rate && options.method->by_curvature) {
    const double largest = largest_
                               ? *largest_
                               : largest_kernel_eigenvalue(setup.model, pass.x, pass.labels.numel(),
                                                           options.memory_bytes);
    const double steepest = setup.loss->scale(pass.labels.size(0), pass.labels.size(1)) *
                            setup.loss->traits().curvature_bound * largest;
    if (steepest > 0) unit = 1 / steepest;
  }
  value_ = options.learning_rate.value_or(start_rate(options.method, unit)) * boost_;
  return value_;
}

}  // namespace cdt::train
