/// Rows through a model a block at a time, so that what lies between its layers takes the memory
/// of a block, however many rows there are.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <vector>

namespace cdt::kernel {

/// On the CPU; what a layer of some hundred units makes of them stays in the caches, and in memory
/// that the process has already.
inline constexpr int64_t kRowsAtATime = int64_t{1} << 14;

/// `evaluate` of all rows [r, …] → [r, …], whose samples must not influence each other; all at once
/// where they are few, or lie on another device.
template <class Evaluate>
torch::Tensor in_blocks(const torch::Tensor& x, const Evaluate& evaluate) {
  const int64_t rows = x.size(0);
  if (rows <= kRowsAtATime || !x.device().is_cpu()) return evaluate(x);
  torch::Tensor all;
  for (int64_t first = 0; first < rows; first += kRowsAtATime) {
    const int64_t count = std::min(kRowsAtATime, rows - first);
    const torch::Tensor some = evaluate(x.narrow(0, first, count));
    if (!all.defined()) {
      std::vector<int64_t> shape = some.sizes().vec();
      shape[0] = rows;
      all = torch::empty(shape, some.options().requires_grad(false));
    }
    all.narrow(0, first, count).copy_(some);
  }
  return all;
}

}  // namespace cdt::kernel
