// The precision of products while kernels are computed, and the user's setting afterwards.
#include <ATen/Context.h>
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/kernel/record/precision_scope.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <atomic>
#include <random>
#include <thread>

#include "kernel/networks.h"

namespace cdt {
namespace {

using torch::Tensor;

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11)
bool convolutions_rounded() { return at::globalContext().allowTF32CuDNN(at::Float32Op::CONV); }
bool products_rounded() {
  return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
         at::Float32Precision::TF32;
}
#else
bool convolutions_rounded() { return at::globalContext().allowTF32CuDNN(); }
bool products_rounded() { return at::globalContext().allowTF32CuBLAS(); }
#endif

/// A user who wants TF32; the settings exist without a GPU, too.
class Precision : public testing::Test {
 protected:
  void SetUp() override {
    at::globalContext().setAllowTF32CuDNN(true);
    at::globalContext().setFloat32MatmulPrecision("medium");
  }
  void TearDown() override {
    at::globalContext().setAllowTF32CuDNN(true);
    at::globalContext().setFloat32MatmulPrecision("highest");
  }
  static void expect_as_set() {
    EXPECT_TRUE(convolutions_rounded());
    EXPECT_TRUE(products_rounded());
    EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::MEDIUM);
  }
};

TEST_F(Precision, TrainingIsRoundedOnlyWhereThatIsAllowed) {
  kernel::allow_tf32(false);
  EXPECT_FALSE(convolutions_rounded());
  EXPECT_FALSE(products_rounded());
  kernel::allow_tf32(true);
  EXPECT_TRUE(convolutions_rounded());
  EXPECT_TRUE(products_rounded());
  {
    const kernel::FullPrecisionScope full;
    EXPECT_FALSE(convolutions_rounded());
    EXPECT_FALSE(products_rounded());
  }
  EXPECT_TRUE(convolutions_rounded());
  EXPECT_TRUE(products_rounded());
}

TEST_F(Precision, OverlappingScopesOfManyThreadsAreFullAndRestoreTheSetting) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> rounded{0};
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 8; ++seed) {
      threads.emplace_back([&rounded, seed] {
        std::mt19937 random(seed);
        for (int i = 0; i < 50; ++i) {
          const kernel::FullPrecisionScope scope;
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
          if (convolutions_rounded() || products_rounded()) ++rounded;
          const kernel::FullPrecisionScope within;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(rounded, 0);
    expect_as_set();
  }
}

TEST_F(Precision, KernelsAreFullAndTrainingIsAsTheUserSaid) {
  torch::manual_seed(1);
  const Tensor weight = test::parameter({4, 2}, torch::kFloat32);
  int calls = 0;
  const kernel::Model model(
      [&](const Tensor& x) {
        ++calls;
        EXPECT_FALSE(convolutions_rounded());
        EXPECT_FALSE(products_rounded());
        return x.mm(weight).tanh();
      },
      {weight});
  const Tensor x = torch::randn({5, 4});
  kernel::empirical_ntk(model, x);
  kernel::NtkOperator(model, x).apply(torch::ones({10}));
  kernel::vector_jacobian_product(model, x, torch::ones({10}));
  EXPECT_GT(calls, 3);
  expect_as_set();
  const kernel::AutogradScope training;  // what the loop of training runs in
  expect_as_set();
}

TEST_F(Precision, AnExceptionRestoresTheSetting) {
  const Tensor weight = test::parameter({4, 2}, torch::kFloat32);
  const kernel::Model model([&](const Tensor& x) { return x.mm(weight); }, {weight});
  EXPECT_THROW(kernel::empirical_ntk(model, torch::full({3, 4}, NAN)), InvalidArgument);
  expect_as_set();
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11)
TEST_F(Precision, AUserOfBothInterfacesGetsHisSettingBack) {
  using at::Float32Backend;
  using at::Float32Op;
  auto& context = at::globalContext();
  context.setFloat32Precision(Float32Backend::CUDA, Float32Op::CONV, at::Float32Precision::IEEE);
  ASSERT_THROW(context.allowTF32CuDNN(), c10::Error);
  {
    const kernel::FullPrecisionScope scope;
    EXPECT_FALSE(products_rounded());
    EXPECT_FALSE(context.allowTF32CuDNN(Float32Op::RNN));
  }
  EXPECT_TRUE(products_rounded());
  EXPECT_FALSE(convolutions_rounded());
  EXPECT_TRUE(context.allowTF32CuDNN(Float32Op::RNN));
}
#endif

}  // namespace
}  // namespace cdt
