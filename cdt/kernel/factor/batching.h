/// Batched operators: LibTorch's vmap.
#pragma once

#include <torch/types.h>

#include <memory>

namespace cdt::kernel {

/// While it exists, tensors that it has wrapped stand for `count` tensors each, along their first
/// dimension, and operators of this thread process all of them together. An operator that LibTorch
/// cannot batch is called once per tensor (`one_by_one`), or throws; a random one throws.
///
/// It is the interface below torch.func, exported by LibTorch 1.13 and 2.x but internal to it, so
/// callers need an alternative.
class BatchingScope {
 public:
  explicit BatchingScope(int64_t count);
  ~BatchingScope();
  BatchingScope(const BatchingScope&) = delete;
  BatchingScope& operator=(const BatchingScope&) = delete;

  /// Wraps a tensor [count, …] as count tensors […].
  torch::Tensor wrap(const torch::Tensor& stacked) const;
  /// The inverse, [count, …]; a tensor equal for all is expanded without copying.
  torch::Tensor unwrap(const torch::Tensor& tensor) const;
  /// Whether some operator was called once per tensor: slower than separate calls, especially its
  /// gradients.
  bool one_by_one() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cdt::kernel
