// Kernels from C++: best wall and processor time of a call, in seconds, for bench/python.py and
// bench/gpu.py. The model is made once and asked again, as training does.
//
//   cdt_bench_kernel [REPETITIONS [THREADS [NETWORK [DEVICE]]]]
//
// Of a named network also the relative error against float64, the peak memory of a GPU in bytes
// and, all by turns, the seconds with products of layers together and one by one; on a GPU
// replayed, then asked for operation by operation.
#include <cdt/core/machine/memory.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/conv_net.h>
#include <cdt/nn/resnet.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

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
  if (name == "resnet18") {
    return {cdt::nn::ResNet18(cdt::nn::resnet18_options({3, 96, 96}, 2), 1),
            torch::randn({77, 3, 96, 96})};
  }
  throw std::invalid_argument("expected mlp3, mlp1, wide, cnn, alexnet or resnet18, got " + name);
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

constexpr int kWarmUp = 5;  // on a GPU the fourth kernel is recorded

/// A way to make the kernel of one network again and again.
struct Way {
  Problem problem;
  cdt::kernel::NtkOptions options;
  double wall = 1e9;
  double processor = 1e9;
  int made = 0;
  Tensor theta;

  void make() {
    const torch::Device device = problem.x.device();
    wait_for(device);
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t ticks = std::clock();
    theta = cdt::kernel::empirical_ntk(problem.model, problem.x, options).theta;
    wait_for(device);
    if (made++ < kWarmUp) return;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    wall = std::min(wall, taken.count());
    processor = std::min(processor, static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC);
  }
};

Way way_of(const std::string& name, torch::Device device) {
  Way way{problem_of(name), {}};
  way.problem.move_to(device, torch::kFloat32);
  way.options.replay = cdt::kernel::NtkOptions::Replay::kPromised;
  return way;
}

void print_turns(const std::string& name, torch::Device device, int repetitions) {
  using Options = cdt::kernel::NtkOptions;
  std::vector<Options::Replay> replays{Options::Replay::kPromised};
  if (device.is_cuda()) replays.push_back(Options::Replay::kNever);
  std::vector<Way> ways;
  for (const auto replay : replays) {
    for (const auto layers : {Options::Layers::kTogether, Options::Layers::kOneByOne}) {
      ways.push_back(way_of(name, device));
      ways.back().options.replay = replay;
      ways.back().options.layers = layers;
    }
  }
  for (int k = 0; k < repetitions + kWarmUp; ++k) {  // whatever each of them leaves to the next
    for (Way& way : ways) way.make();
    std::reverse(ways.begin(), ways.end());
  }
  if ((repetitions + kWarmUp) % 2 == 1) std::reverse(ways.begin(), ways.end());
  for (const Way& way : ways) std::printf(" %.6f", device.is_cuda() ? way.wall : way.processor);
}

int run(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 20;
  torch::set_num_threads(argc > 2 ? std::atoi(argv[2]) : 1);
  const std::string name = argc > 3 ? argv[3] : "mlp3";
  const torch::Device device(argc > 4 ? argv[4] : "cpu");
  Way way = way_of(name, device);
  for (int k = 0; k < repetitions + kWarmUp; ++k) way.make();
  std::printf("%.6f %.6f", way.wall, way.processor);
  if (argc > 3) {
    const int64_t peak = cdt::peak_memory_of(device);
    std::printf(" %.3e %lld", error_of(name, way.problem, way.theta), static_cast<long long>(peak));
    print_turns(name, device, repetitions);
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
