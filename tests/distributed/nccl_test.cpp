// Ranks on GPUs, by NCCL: as many as there are GPUs.
#include <cdt/core/error.h>
#include <cdt/core/machine/device.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include "distributed/on_ranks.h"
#include "support/compare.h"
#include "train/problem.h"

namespace cdt::distributed {
namespace {

using testing::HasSubstr;
using torch::Tensor;

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "there is no CUDA device";
    if (!has_nccl()) GTEST_SKIP() << "this build has no NCCL";
    prepare_device(torch::kCUDA);
    options_.device = torch::kCUDA;
  }

  GroupOptions options_;
};

TEST_F(Nccl, SumsAndGathersOnTheGpu) {
  const auto size = static_cast<int64_t>(torch::cuda::device_count());
  const auto outcomes = test::outcomes_on_ranks(
      size,
      [&](const auto& group) {
        const torch::Device own(torch::kCUDA, static_cast<c10::DeviceIndex>(group->rank()));
        const Tensor part = torch::linspace(0, 1, 1001, torch::kFloat64) + group->rank();
        const Tensor total = group->sum(part.to(own));
        EXPECT_EQ(total.device(), own);
        Tensor wanted = torch::zeros_like(part);
        for (int64_t k = 0; k < size; ++k)
          wanted += torch::linspace(0, 1, 1001, torch::kFloat64) + k;
        EXPECT_LE((total.cpu() - wanted).abs().max().item<double>(), 1e-12);
        EXPECT_EQ(group->train::Ranks::sum(2.5), 2.5 * static_cast<double>(size));
        const Tensor rows = torch::full({group->rank() + 1, 3}, group->rank(), torch::kFloat32);
        const Tensor all = group->gather(rows.to(own));
        EXPECT_EQ(all.device(), own);
        EXPECT_EQ(all.size(0), size * (size + 1) / 2);
        EXPECT_EQ(all[all.size(0) - 1][0].item<float>(), static_cast<float>(size - 1));
      },
      options_);
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

/// The path of one GPU without ranks, by sums that went through NCCL.
TEST_F(Nccl, TrainsAsAloneDoes) {
  std::vector<Tensor> outputs;
  const auto train_with = [&](const std::shared_ptr<const train::Ranks>& ranks) {
    train::TrainData data = test::smooth_data(80, 1, 3);
    for (Tensor* each : {&data.x, &data.y, &data.x_val, &data.y_val}) *each = each->cuda();
    data.ranks = ranks;
    nn::Mlp net = test::small_network(4, 1, 5, torch::kFloat64, 10);
    net->to(torch::kCUDA);
    train::TrainOptions options;
    options.method = "path";
    options.form = "sketch";
    options.steps = 6;
    train::Trainer(net, data, options).run();
    outputs.push_back(net->forward(data.x_val).detach().cpu());
  };
  train_with(train::alone());
  const auto outcomes = test::outcomes_on_ranks(1, train_with, options_);
  EXPECT_EQ(outcomes[0], "");
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_LE(test::relative_error(outputs[1], outputs[0]), 1e-9);
}

TEST_F(Nccl, RefusesMoreRanksThanGpus) {
  const auto gpus = static_cast<int64_t>(torch::cuda::device_count());
  for (const std::string& outcome : test::outcomes_on_ranks(
           gpus + 1, [](const auto&) {}, options_)) {
    EXPECT_THAT(outcome, HasSubstr("NCCL refuses two ranks on one GPU"));
  }
}

TEST(Gpus, EachRankHasItsOwn) {
  Place place{.rank = 5, .size = 8, .local_size = 4};
  EXPECT_EQ(gpu_of(place, 4), 1);  // the sixth of all, the second of its machine
  place.local_rank = 3;
  EXPECT_EQ(gpu_of(place, 4), 3);
  EXPECT_EQ(gpu_of(place, 8), 3);
  EXPECT_THROW(gpu_of(place, 3), InvalidArgument);
  place.local_rank = 7;
  EXPECT_THROW(gpu_of(place, 4), InvalidArgument);
  EXPECT_THROW(gpu_of(place, 0), InvalidArgument);
  EXPECT_EQ(gpu_of(Place{}, 1), 0);
}

TEST(Gpus, WithoutNcclAreRefusedInWords) {
  if (has_nccl()) GTEST_SKIP() << "this build has NCCL";
  GroupOptions options;
  options.device = torch::kCUDA;
  EXPECT_THAT(test::outcomes_on_ranks(
                  1, [](const auto&) {}, options)[0],
              HasSubstr("this build has no NCCL"));
}

}  // namespace
}  // namespace cdt::distributed
