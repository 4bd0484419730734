#include <cdt/core/error.h>
#include <cdt/kernel/factor/plan.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

/// A backward pass of fewer samples takes as long, since it is limited by reading the weights.
constexpr int64_t kWorthwhileSamples = 16;

int64_t share(int64_t whole, int64_t parts) { return (whole + parts - 1) / parts; }

}  // namespace

std::vector<Block> BlockPlan::blocks(int64_t all_samples, int64_t width) const {
  std::vector<Block> all;
  for (int64_t i = 0; i < all_samples; i += samples) {
    for (int64_t c = 0; c < width; c += outputs) {
      all.push_back({i, std::min(samples, all_samples - i), c, std::min(outputs, width - c)});
    }
  }
  return all;
}

BlockPlan plan_blocks(const FactorCost& cost, int64_t samples, int64_t memory_bytes,
                      int64_t at_a_time) {
  const int64_t width = cost.outputs.size(1);
  const auto fit = [&](int64_t outputs, int64_t blocks) {
    return memory_bytes / std::max<int64_t>(1, cost.bytes(outputs, blocks));
  };
  if (samples <= fit(width, 1)) return {samples, width};
  for (int64_t outputs = width; outputs >= 1; --outputs) {
    const int64_t fitting = fit(outputs, at_a_time);
    if (fitting < std::min({samples, outputs, kWorthwhileSamples})) continue;
    // As even as possible: a last block with few outputs would cost as much as the others.
    const int64_t even = share(width, share(width, outputs));
    return {std::min(fit(even, at_a_time), samples), even};
  }
  throw InvalidArgument(c10::str("a memory budget of ", memory_bytes,
                                 " bytes does not hold the Jacobian factors of one output of one "
                                 "sample, which need ",
                                 cost.bytes(1, at_a_time)));
}

}  // namespace cdt::kernel
