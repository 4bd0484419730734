#include <cdt/core/check.h>
#include <cdt/dynamics/lanczos.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/operator.h>
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/method.h>

#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Up to so many outputs the kernel itself gives λ_max; beyond, its operator.
constexpr int64_t kExactKernel = 4000;
/// Up to so many rows of a matrix on a GPU, squaring it takes less time than Lanczos, which asks
/// for many small things one after the other.
constexpr int64_t kSquaredRows = 2000;
/// Squarings at most, and how many go by before their size is put right, or looked at: a matrix of
/// trace 1 has an eigenvalue of 1/n at least, whose 16th power is far from underflow.
constexpr int kMostSquarings = 40;
constexpr int kSquaringsBetweenScales = 4;
constexpr int kSquaringsBetweenLooks = 8;
/// Of λ_max, by which its estimate may fall short.
constexpr double kSquaringTolerance = 1e-10;
/// Of the residual; the eigenvalue errs by its square.
constexpr double kMatrixTolerance = 1e-7;
/// A float32 network's operator has no more than some six digits, and its trace likewise.
constexpr double kOperatorTolerance = 1e-3;

dynamics::LanczosOptions one_mode(torch::Device device) {
  dynamics::LanczosOptions options;
  options.modes = 1;
  options.block = 4;
  options.device = device;
  return options;
}

}  // namespace

double largest_eigenvalue_by_squaring(const Tensor& theta) {
  Tensor power = theta / at::linalg_vector_norm(theta);
  double largest = 0;
  for (int k = 1; k <= kMostSquarings; ++k) {
    power = power.mm(power);
    if (k % kSquaringsBetweenScales == 0) power = power / power.trace();
    if (k % kSquaringsBetweenLooks != 0) continue;
    const Tensor found =
        torch::stack({at::linalg_vector_norm(power), torch::sum(power * theta)}).cpu();
    const double* values = found.data_ptr<double>();
    largest = values[1];
    if (1 - values[0] * values[0] <= kSquaringTolerance || std::isnan(largest)) break;
  }
  if (!std::isnan(largest)) return largest;
  require_finite(theta, "the matrix");
  return 0;  // 0/0: it is zero
}

double largest_eigenvalue(const Tensor& theta) {
  if (theta.is_cuda() && theta.size(0) <= kSquaredRows)
    return largest_eigenvalue_by_squaring(theta);
  dynamics::LanczosOptions lanczos = one_mode(theta.device());
  lanczos.tolerance = kMatrixTolerance;
  lanczos.trace = theta.trace().item<double>();
  const auto product = [&](const Tensor& columns) { return theta.mm(columns); };
  return dynamics::leading_modes(product, theta.size(0), lanczos).modes.largest();
}

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
  if (!options.learning_rate && traits_of(options.method).by_curvature) {
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
