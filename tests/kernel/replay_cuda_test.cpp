// Kernels that a GPU computes again and again: each is what it would be if it were made anew.
#include <cdt/core/error.h>
#include <cdt/core/machine/device.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/playback.h>
#include <cdt/kernel/record/precision_scope.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include <thread>

#include "kernel/operator_networks.h"
#include "support/compare.h"

namespace cdt::kernel {
namespace {

using test::relative_error;
using torch::Tensor;

constexpr int kUntilReplayed =
    6;  // made (twice without a promise), rehearsed twice, recorded, replayed

class ReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no CUDA device";
    prepare_device(torch::kCUDA);
    torch::manual_seed(1);
  }

  static torch::TensorOptions on_gpu() {
    return torch::dtype(torch::kFloat64).device(torch::kCUDA);
  }

  Tensor replayed(const Model& model, const Tensor& x) const {
    return empirical_ntk(model, x, options_).theta;
  }

  /// By nothing that was kept.
  static void expect_kernel(const Tensor& theta, const test::Network& net, const Tensor& x) {
    const Tensor j = test::brute_force_jacobian(net, x);
    EXPECT_LT(relative_error(theta, j.mm(j.t())), 1e-12);
  }

  NtkOptions options_;
};

/// With a promise and without one.
class Replay : public ReplayTest, public testing::WithParamInterface<NtkOptions::Replay> {
 protected:
  Replay() { options_.replay = GetParam(); }
};

/// Of a model that has promised nothing.
class CheckedReplay : public ReplayTest {
 protected:
  CheckedReplay() { options_.replay = NtkOptions::Replay::kChecked; }
};

TEST_P(Replay, FollowsParametersAndInputs) {
  for (const int64_t outputs : {1, 3}) {
    const auto net = test::mlp(3, outputs, true, false, false, on_gpu());
    const Model model = net.model();
    const Tensor x = test::inputs(6, net, on_gpu());
    for (int k = 0; k < kUntilReplayed; ++k) expect_kernel(replayed(model, x), net, x);
    for (int k = 0; k < 3; ++k) {
      test::shift(model, torch::randn({model.parameter_count()}, on_gpu()), 0.1);
      expect_kernel(replayed(model, x), net, x);
      const Tensor other = test::inputs(6, net, on_gpu());
      expect_kernel(replayed(model, other), net, other);
    }
    const Tensor fewer = test::inputs(4, net, on_gpu());
    for (int k = 0; k < kUntilReplayed; ++k) expect_kernel(replayed(model, fewer), net, fewer);
    expect_kernel(replayed(model, x), net, x);
  }
}

TEST_P(Replay, OperatorsThatNoRuleKnows) {
  for (const auto& net : test::operator_networks(on_gpu())) {
    SCOPED_TRACE(net.name);
    const Model model = net.model();
    const Tensor x = test::inputs(6, net, on_gpu());
    for (int k = 0; k < kUntilReplayed; ++k) expect_kernel(replayed(model, x), net, x);
    test::shift(model, torch::randn({model.parameter_count()}, on_gpu()), 0.1);
    expect_kernel(replayed(model, x), net, x);
  }
}

TEST_P(Replay, AKernelIsTheCallersOwn) {
  const auto net = test::mlp(3, 2, true, false, false, on_gpu());
  const Model model = net.model();
  const Tensor x = test::inputs(6, net, on_gpu());
  for (int k = 0; k < kUntilReplayed; ++k) replayed(model, x);
  const Tensor kept = replayed(model, x);
  const Tensor copy = kept.clone();
  test::shift(model, torch::randn({model.parameter_count()}, on_gpu()), 0.1);
  replayed(model, x);
  EXPECT_TRUE(torch::equal(kept, copy));
}

/// Parameters that lie elsewhere than where they were recorded.
TEST_P(Replay, FollowsParametersThatWereReplaced) {
  const auto net = test::mlp(3, 1, true, false, false, on_gpu());
  const Model model = net.model();
  const Tensor x = test::inputs(6, net, on_gpu());
  for (int k = 0; k < kUntilReplayed; ++k) replayed(model, x);
  for (Tensor p : net.parameters) p.set_data(p.detach() * 1.5);
  expect_kernel(replayed(model, x), net, x);
}

/// Large inputs are mixed with each other: the recording's own checks see it.
TEST_P(Replay, ChecksAreMadeEachTime) {
  const Tensor weight = test::parameter({2, 4}, on_gpu());
  const Model model(
      [&](const Tensor& samples) {
        const Tensor y = samples.mm(weight.t());
        return y + y.mean(0) * (samples.amax() > 10).to(torch::kFloat64);
      },
      {weight});
  const Tensor x = torch::rand({6, 4}, on_gpu());
  for (int k = 0; k < kUntilReplayed; ++k) replayed(model, x);
  EXPECT_THROW(replayed(model, x * 100), InvalidArgument);
  EXPECT_LT(relative_error(replayed(model, x), empirical_ntk(model, x).theta), 1e-14);
}

/// Threads, each with a model of its own, beside others that record nothing.
TEST_P(Replay, ThreadsThatRecordNothingDisturbNobody) {
  const NoRecordingScope nothing;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      const auto net = test::mlp(3, 1, true, false, false, on_gpu());
      const Model model = net.model();
      const Tensor x = test::inputs(6, net, on_gpu());
      for (int k = 0; k < kUntilReplayed; ++k) expect_kernel(replayed(model, x), net, x);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Cuda, Replay,
                         testing::Values(NtkOptions::Replay::kPromised,
                                         NtkOptions::Replay::kChecked));

/// The function changes; evaluations are counted.
TEST_F(CheckedReplay, SeesThatTheModelIsWhatItWas) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    const auto net = test::mlp(3, 2, true, false, false, on_gpu().dtype(dtype));
    const Tensor x = test::inputs(6, net, on_gpu().dtype(dtype));
    double scale = 1;
    int64_t passes = 0;
    const auto forward = [&](const Tensor& samples) {
      ++passes;
      return net.forward(net.parameters, samples) * scale;
    };
    const Model model(forward, net.parameters);
    const auto fresh = [&] { return empirical_ntk(Model(forward, net.parameters), x).theta; };
    for (int k = 0; k < kUntilReplayed; ++k) replayed(model, x);
    passes = 0;
    const Tensor again = replayed(model, x);
    EXPECT_EQ(passes, 1);  // to compare; made, it would be all and the last one alone
    EXPECT_LT(relative_error(again, fresh()), tol::epsilon(dtype));
    for (const double next : {1.001, 2.0, 1.0, 3.0, 1.0}) {
      scale = next;
      for (int k = 0; k < kUntilReplayed; ++k) {
        EXPECT_LT(relative_error(replayed(model, x), fresh()), 1e2 * tol::epsilon(dtype)) << next;
      }
    }
    passes = 0;
    replayed(model, x);
    EXPECT_EQ(passes, 2);  // it has changed too often
  }
}

/// Memory that the recording reads outlives what the model has put in its place.
TEST_F(CheckedReplay, ConstantsMayBeReplaced) {
  const auto net = test::mlp(3, 2, true, false, false, on_gpu());
  const Tensor x = test::inputs(6, net, on_gpu());
  Tensor gain = torch::rand({2}, on_gpu());
  const auto forward = [&](const Tensor& samples) {
    return net.forward(net.parameters, samples) * gain;
  };
  const Model model(forward, net.parameters);
  for (int k = 0; k < 2 * kUntilReplayed; ++k) {
    if (k % kUntilReplayed == 0) {
      gain = torch::rand({2}, on_gpu());
      const Tensor over = torch::full({1 << 20}, NAN, on_gpu());
    }
    const Tensor fresh = empirical_ntk(Model(forward, net.parameters), x).theta;
    EXPECT_LT(relative_error(replayed(model, x), fresh), 1e-14) << k;
  }
}

}  // namespace
}  // namespace cdt::kernel
