// Threads of one program, each with a model of its own.
#include <cdt/kernel/ntk.h>
#include <cdt/loss/loss.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/plants.h"
#include "train/problem.h"

namespace cdt {
namespace {

using torch::Tensor;

struct ThreadedWork {
  train::TrainOptions options;
  train::TrainData data;
  nn::Mlp net;

  /// Kernel, gain, and the parameters after some steps.
  std::vector<Tensor> done() const {
    const Tensor theta = kernel::empirical_ntk(net, data.x).theta;
    const auto scale = loss::step_scale(0.1, options.loss, data.y.numel());
    std::vector<Tensor> found{theta, test::lqr_of(theta, scale).gain_matrix()};
    train::Trainer trainer(net, data, options);
    trainer.run();
    for (const Tensor& parameter : net->parameters()) found.push_back(parameter.detach().clone());
    return found;
  }
};

/// The same every time: drawn before the threads begin, since LibTorch's generator is all threads'.
std::vector<ThreadedWork> threaded_works() {
  using train::Method;
  std::vector<ThreadedWork> works;
  uint64_t seed = 1;
  for (const Method method :
       {"guarded", "cdt", "path", "adam", "guarded", "gd", "momentum", "lbfgs"}) {
    train::TrainOptions options;
    options.method = method;
    options.steps = 12;
    options.seed = seed;
    if (method == "adam") options.batch = 7;
    const auto dtype = seed % 2 == 0 ? torch::kFloat32 : torch::kFloat64;
    works.push_back(
        {options, test::smooth_data(20, 2, seed, dtype), test::small_network(4, 2, seed, dtype)});
    ++seed;
  }
  return works;
}

TEST(Threads, WithModelsOfTheirOwnGetTheBitsThatEachGetsAlone) {
  std::vector<std::vector<Tensor>> alone;
  for (const ThreadedWork& work : threaded_works()) {
    std::thread([&] { alone.push_back(work.done()); }).join();
  }
  for (int round = 0; round < 3; ++round) {
    const std::vector<ThreadedWork> works = threaded_works();
    std::vector<std::vector<Tensor>> together(works.size());
    std::vector<std::thread> threads;
    for (size_t k = 0; k < works.size(); ++k) {
      threads.emplace_back([&, k] { together[k] = works[k].done(); });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t k = 0; k < works.size(); ++k) {
      EXPECT_TRUE(test::same_bits(alone[k], together[k])) << "round " << round << ", thread " << k;
    }
  }
}

}  // namespace
}  // namespace cdt
