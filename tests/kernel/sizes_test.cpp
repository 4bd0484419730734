// Norms of the self-checks: in float64 whatever the entries, on each device and for each length.
#include <cdt/kernel/product/sizes.h>
#include <gtest/gtest.h>

#include "support/compare.h"

namespace cdt::kernel {
namespace {

using torch::Tensor;

TEST(Sizes, AreSummedInFloat64) {
  torch::manual_seed(5);
  for (const auto& device : test::devices()) {
    for (const int64_t rows : {1, 7, 1100}) {
      const Tensor entries = torch::randn({rows, 1000}, torch::kFloat64);
      for (const double scale : {1e-30, 1.0, 1e30}) {  // squares are beyond float32
        SCOPED_TRACE(c10::str(device, " ", rows, " rows times ", scale));
        const Tensor t = (entries * scale).to(torch::kFloat32);
        const double expected = t.to(torch::kFloat64).norm().item<double>();
        const Tensor there = t.to(device);
        EXPECT_EQ(size_of(there).scalar_type(), torch::kFloat64);
        EXPECT_NEAR(size_of(there).item<double>() / expected, 1, 1e-12);
        EXPECT_NEAR(size_of(there.t()).item<double>() / expected, 1, 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace cdt::kernel
