// The kernel of the paper's architecture 2 from C++: best wall and processor time of a call, in
// seconds, for bench/python.py.
#include <cdt/kernel/ntk.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 20;
  torch::set_num_threads(argc > 2 ? std::atoi(argv[2]) : 1);
  torch::manual_seed(1);
  torch::nn::Sequential net(
      torch::nn::Linear(79, 500), torch::nn::ReLU(), torch::nn::Linear(500, 500), torch::nn::ReLU(),
      torch::nn::Linear(500, 500), torch::nn::ReLU(), torch::nn::Linear(500, 1));
  const auto x = torch::rand({358, 79}) - 0.5;
  double wall = 1e9, processor = 1e9;
  for (int k = 0; k <= repetitions; ++k) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t ticks = std::clock();
    cdt::kernel::empirical_ntk(net, x);
    if (k == 0) continue;  // the first one warms up
    const double used = static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    wall = std::min(wall, taken.count());
    processor = std::min(processor, used);
  }
  std::printf("%.6f %.6f\n", wall, processor);
}
