#include <cdt/core/machine/speed.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

namespace cdt {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double gemm_rate(torch::ScalarType dtype, torch::Device device, double seconds) {
  constexpr int64_t kSize = 768;
  // Not random, since drawing on a GPU fails while another thread records a CUDA graph.
  const auto a = torch::full({kSize, kSize}, 0.5, torch::TensorOptions(dtype).device(device));
  auto out = torch::empty_like(a);
  const auto multiply = [&] {
    torch::mm_out(out, a, a);
    if (device.is_cuda()) torch::cuda::synchronize();
  };
  multiply();  // warm-up
  const auto start = Clock::now();
  double count = 0;
  for (; seconds_since(start) < seconds; ++count) multiply();
  return 2e-9 * std::pow(double{kSize}, 3) * count / seconds_since(start);
}

}  // namespace cdt
