#include "bench/memory.h"

#include <cdt/control/controller.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/ntk.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "bench/pictures.h"

namespace cdt::bench {
namespace {

/// The peak of resident memory so far, in bytes.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::stod(line.substr(6));
  }
  return 0;
}

double design(int64_t n) {
  torch::manual_seed(1);
  torch::Tensor theta = torch::randn({n, n}, torch::kFloat64);
  theta.add_(theta.t().clone()).div_(2);
  theta.diagonal().add_(2 * static_cast<double>(n));  // diagonally dominant: positive definite
  const auto plant =
      control::Plant::of_kernel(theta, tol::rank_of_computed(n, torch::kFloat32), {.rate = 1e-4});
  const auto controller = control::design(plant);
  const torch::Tensor gain = controller->gain_matrix();
  return controller->certificate(theta).residual + 0 * gain[0][0].item<double>();
}

}  // namespace

int print_design_memory(int64_t n) {
  design(64);  // LibTorch's own share: libraries, thread pools, BLAS buffers
  const double before = peak_bytes();
  const double residual = design(n);
  const double matrices =
      (peak_bytes() - before) / (8.0 * static_cast<double>(n) * static_cast<double>(n));
  std::printf("{\"matrices\": %.3f, \"residual\": %.3e}\n", matrices, residual);
  return 0;
}

int print_kernel_memory(const std::string& architecture) {
  const PictureProblem pictures(architecture);
  const auto ntk = kernel::empirical_ntk(pictures.net, pictures.x);
  std::printf("{\"gib\": %.3f, \"self_check\": %.3e}\n", peak_bytes() / (1 << 30), ntk.self_check);
  return 0;
}

}  // namespace cdt::bench
