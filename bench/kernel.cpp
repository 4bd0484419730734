// Kernels from C++: best wall and processor time of a call, in seconds, for bench/python.py and
// bench/gpu.py. The model is made once and asked again, as training does.
//
//   cdt_bench_kernel [REPETITIONS [THREADS [NETWORK [DEVICE]]]]
//
// Of a named network also the relative error against float64 and the peak memory of a GPU in bytes.
#include <cdt/core/memory.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/conv_net.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>

namespace {

using torch::Tensor;
namespace layer = torch::nn;

struct Problem {
  std::shared_ptr<torch::nn::Module> net;
  cdt::kernel::Model model;
  Tensor x;

  template <class Net>
  Problem(Net module, Tensor samples) : net(module.ptr()), model(module), x(std::move(samples)) {}

  void move_to(torch::Device device, torch::ScalarType dtype) {
    net->to(device, dtype);
    x = x.to(device, dtype);
  }
};

layer::Sequential dense(const std::vector<int64_t>& widths) {
  layer::Sequential net;
  for (size_t k = 0; k + 1 < widths.size(); ++k) {
    if (k > 0) net->push_back(layer::ReLU());
    net->push_back(layer::Linear(widths[k], widths[k + 1]));
  }
  return net;
}

Problem problem_of(const std::string& name) {
  torch::manual_seed(1);
  if (name == "mlp3") return {dense({79, 500, 500, 500, 1}), torch::rand({358, 79}) - 0.5};
  if (name == "mlp1") return {dense({79, 1500, 1}), torch::rand({358, 79}) - 0.5};
  if (name == "wide") return {dense({784, 1024, 1024, 10}), torch::rand({1000, 784}) - 0.5};
  if (name == "cnn") {  // of PyTorch's tutorial on tangent kernels
    return {layer::Sequential(layer::Conv2d(3, 32, 3), layer::ReLU(), layer::Conv2d(32, 32, 3),
                              layer::ReLU(), layer::Conv2d(32, 32, 3), layer::Flatten(),
                              layer::Linear(21632, 10)),
            torch::randn({100, 3, 32, 32})};
  }
  if (name == "alexnet") {
    return {cdt::nn::ConvNet(cdt::nn::alexnet_options({3, 96, 96}, 2), 1),
            torch::randn({77, 3, 96, 96})};
  }
  throw std::invalid_argument("expected mlp3, mlp1, wide, cnn or alexnet, but came " + name);
}

void wait_for(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize();
}

/// Of the same network in float64: by rows of the Jacobian where they fit.
double error_of(const std::string& name, Problem& problem, const Tensor& theta) {
  problem.move_to(theta.device(), torch::kFloat64);
  cdt::kernel::NtkOptions options;
  if (name == "mlp1" || name == "mlp3") options.path = cdt::kernel::NtkOptions::Path::kJacobian;
  const Tensor exact = cdt::kernel::empirical_ntk(problem.model, problem.x, options).theta;
  return ((theta - exact).norm() / exact.norm()).item<double>();
}

int run(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 20;
  torch::set_num_threads(argc > 2 ? std::atoi(argv[2]) : 1);
  const std::string name = argc > 3 ? argv[3] : "mlp3";
  const torch::Device device(argc > 4 ? argv[4] : "cpu");
  Problem problem = problem_of(name);
  problem.move_to(device, torch::kFloat32);
  cdt::kernel::NtkOptions options;
  options.replay = cdt::kernel::NtkOptions::Replay::kPromised;
  double wall = 1e9, processor = 1e9;
  Tensor theta;
  constexpr int kWarmUp = 5;  // on a GPU the fourth one is recorded
  for (int k = 0; k < repetitions + kWarmUp; ++k) {
    wait_for(device);
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t ticks = std::clock();
    theta = cdt::kernel::empirical_ntk(problem.model, problem.x, options).theta;
    wait_for(device);
    if (k < kWarmUp) continue;
    const double used = static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    wall = std::min(wall, taken.count());
    processor = std::min(processor, used);
  }
  std::printf("%.6f %.6f", wall, processor);
  if (argc > 3) {
    const int64_t peak = cdt::peak_memory_of(device);
    std::printf(" %.3e %lld", error_of(name, problem, theta), static_cast<long long>(peak));
  }
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cdt_bench_kernel: %s\n", error.what());
    return 1;
  }
}
