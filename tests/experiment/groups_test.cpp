// Which runs are trained as one.
#include <cdt/experiment/parts/groups.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiment/sample_plan.h"

namespace cdt::experiment {
namespace {

class Groups : public testing::Test {
 protected:
  Groups() {
    plan_.methods = {"gd", "cdt", "gd-matched", kGdBest, "guarded"};
    plan_.own_rate = {kPredict};
    like_.data.x = torch::zeros({20, 5});
    like_.data.y = torch::zeros({20, 1});
    like_.data.x_val = torch::zeros({10, 5});
  }
  /// Every case once; the groups of more than one.
  std::vector<std::vector<Case>> shared(int64_t most) const {
    const auto cases = cases_of(plan_);
    std::vector<std::vector<Case>> found;
    std::vector<size_t> seen, firsts;
    for (const auto& group : groups_of(plan_, cases, like_, most)) {
      EXPECT_LE(group.size(), static_cast<size_t>(most));
      seen.insert(seen.end(), group.begin(), group.end());
      firsts.push_back(std::ranges::min(group));
      if (group.size() == 1) continue;
      found.emplace_back();
      for (const size_t i : group) found.back().push_back(cases[i]);
    }
    EXPECT_TRUE(std::ranges::is_sorted(firsts)) << "the longest first";
    std::ranges::sort(seen);
    EXPECT_EQ(seen.size(), cases.size());
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
    return found;
  }
  Plan plan_ = test::sample_plan();
  study::Problem like_;
};

TEST_F(Groups, AreOfOneArchitectureAndKindOfMethod) {
  const auto groups = shared(100);
  EXPECT_EQ(groups.size(), 4U) << "two architectures, steered or not";
  for (const auto& group : groups) {
    for (const Case& what : group) {
      EXPECT_EQ(what.architecture, group.front().architecture);
      EXPECT_EQ(what.steps, group.front().steps);
      EXPECT_EQ(what.method == "cdt", group.front().method == "cdt");
      EXPECT_NE(what.method, "guarded");
      EXPECT_NE(what.method, kPredict);
      EXPECT_FALSE(what.traces);
    }
    EXPECT_TRUE(std::ranges::is_sorted(group, {}, &Case::lr));
  }
  EXPECT_TRUE(shared(1).empty());
}

TEST_F(Groups, HaveEqualSizesAndFitTheMemory) {
  plan_.samples.architecture = "";
  plan_.methods = {"cdt"};
  plan_.seeds = 5;  // 10 runs of each architecture
  for (const auto& group : shared(4)) EXPECT_GE(group.size(), 3U);
  EXPECT_EQ(shared(4).size(), 6U);
  EXPECT_EQ(shared(10).size(), 2U);
  plan_.memory_bytes = 80'000;  // the large network's run takes some 20 000
  const auto groups = shared(10);
  EXPECT_GT(groups.size(), 2U);
  plan_.memory_bytes = 1;
  EXPECT_TRUE(shared(10).empty());
}

TEST_F(Groups, TakeWhatCanBeStacked) {
  plan_.network.activation = nn::Activation::kGelu;
  EXPECT_TRUE(shared(10).empty());
  plan_.network.activation = nn::Activation::kTanh;
  EXPECT_FALSE(shared(10).empty());
  plan_.loss = loss::cross_entropy();
  EXPECT_TRUE(shared(10).empty());
  plan_.loss = loss::sse();
  for (Architecture& each : plan_.architectures) each.network = "alexnet";
  EXPECT_TRUE(shared(10).empty());
}

}  // namespace
}  // namespace cdt::experiment
