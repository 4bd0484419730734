// Work that is taken aside, and a device that is made ready: on the CPU, and a GPU where there is
// one.
#include <cdt/core/machine/device.h>
#include <cdt/core/machine/streams.h>
#include <cdt/core/text/numbers.h>
#include <gtest/gtest.h>

#include "support/compare.h"

namespace cdt {
namespace {

TEST(Device, WorkAsideIsDoneOnceItIsJoined) {
  for (const auto& name : test::devices()) {
    prepare_device(name);
    const torch::Tensor a = torch::eye(700, torch::kFloat64).to(name) * 2;
    torch::Tensor power = a.clone(), beside = a.clone();
    for (int step = 0; step < 5; ++step) {
      Aside aside(a.device(), 1);
      aside.run([&] { beside = power.mm(a); });  // what was there before
      power = power.mm(a);
      aside.join();
      EXPECT_TRUE(torch::equal(beside, power)) << name << " " << step;
    }
    EXPECT_EQ(to_vector(power.diagonal().narrow(0, 0, 2)), (std::vector<double>{64, 64}));
  }
}

TEST(Device, NumbersComeRowByRow) {
  const torch::Tensor table = torch::arange(6).view({2, 3});
  EXPECT_EQ(to_vector(table.t()), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(to_vector(torch::empty({0})).empty());
}

}  // namespace
}  // namespace cdt
