#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/operator.h>
#include <cdt/train/base_rate.h>
#include <cdt/train/method.h>

#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

/// Up to so many outputs the kernel itself gives λ_max; beyond, its operator.
constexpr int64_t kExactKernel = 4000;
constexpr double kMatrixTolerance = 1e-7;
/// A float32 network's operator has no more than some six digits.
constexpr double kOperatorTolerance = 1e-3;
constexpr int64_t kMostProducts = 100;
constexpr uint64_t kStartSeed = 1;

}  // namespace

LargestEigenvalue largest_eigenvalue(const std::function<Tensor(const Tensor&)>& product, int64_t n,
                                     const torch::TensorOptions& options, double tolerance,
                                     int64_t most_products) {
  const torch::NoGradGuard no_graph;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(kStartSeed);
  const int64_t most = std::min(n, most_products);
  Tensor basis = torch::empty({most, n}, options.dtype(torch::kFloat64));
  Tensor v = torch::randn({n}, generator, torch::kFloat64).to(basis.device());
  v = v / v.norm();
  std::vector<double> diagonal, beside;
  LargestEigenvalue found;
  while (found.products < most) {
    const int64_t k = found.products++;
    basis[k].copy_(v);
    Tensor w = product(v).to(torch::kFloat64);
    diagonal.push_back(torch::dot(w, v).item<double>());
    const Tensor before = basis.narrow(0, 0, k + 1);
    for (int twice = 0; twice < 2; ++twice) w = w - before.t().mv(before.mv(w));
    const double rest = w.norm().item<double>();
    Tensor small = torch::diag(torch::tensor(diagonal, torch::kFloat64));
    for (int64_t i = 0; i < k; ++i) {
      small[i][i + 1] = small[i + 1][i] = beside[static_cast<size_t>(i)];
    }
    const auto [values, vectors] = torch::linalg_eigh(small);
    found.value = std::max(0.0, values[k].item<double>());
    found.residual = rest * std::abs(vectors[k][k].item<double>());
    if (!(found.residual > tolerance * found.value)) break;  // zero operators end here, too
    beside.push_back(rest);
    v = w / rest;
  }
  return found;
}

double largest_kernel_eigenvalue(const kernel::Model& model, const Tensor& x, int64_t outputs,
                                 int64_t memory_bytes) {
  const auto options = x.options();
  const int64_t bytes = outputs * outputs * static_cast<int64_t>(sizeof(double));
  if (outputs <= kExactKernel && bytes <= memory_bytes) {
    kernel::NtkOptions ntk;
    ntk.memory_bytes = memory_bytes;
    const Tensor theta = kernel::empirical_ntk(model, x, ntk).theta;
    return largest_eigenvalue([&](const Tensor& v) { return theta.mv(v); }, theta.size(0), options,
                              kMatrixTolerance, kMostProducts)
        .value;
  }
  const kernel::NtkOperator theta(model, x);
  return largest_eigenvalue([&](const Tensor& v) { return theta.apply(v.to(model.dtype())); },
                            theta.size(), options, kOperatorTolerance, kMostProducts)
      .value;
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
    const double steepest =
        setup.objective.curvature(pass.labels.size(0), pass.labels.size(1)) * largest;
    if (steepest > 0) unit = 1 / steepest;
  }
  value_ = options.learning_rate.value_or(start_rate(options.method, unit)) * boost_;
  return value_;
}

}  // namespace cdt::train
