/// Evaluates a model on rows block by block, so that intermediate tensors need the memory of one
/// block, for any number of rows.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <vector>

namespace cdt::kernel {

/// On the CPU. The activations of a layer with some hundred units then fit the caches, and memory
/// is reused.
inline constexpr int64_t kRowsAtATime = int64_t{1} << 14;

/// Applies `evaluate` to all rows [r, …] → [r, …], which must not influence each other; at once if
/// they are few, or on another device.
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
