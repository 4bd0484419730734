/// Operators on many things at once that each have their own tensors: LibTorch's vmap.
#pragma once

#include <torch/types.h>

#include <memory>

namespace cdt::kernel {

/// While it lives, tensors that it has wrapped stand for `count` tensors each, along their first
/// dimension; operators of this thread work on all of them together. An operator that LibTorch
/// cannot batch is called for each one inside (`one_by_one`), or throws. A random one throws.
///
/// It is the interface below torch.func, exported by LibTorch 1.13 and 2.x alike, but internal to
/// it: whoever uses it has another way.
class BatchingScope {
 public:
  explicit BatchingScope(int64_t count);
  ~BatchingScope();
  BatchingScope(const BatchingScope&) = delete;
  BatchingScope& operator=(const BatchingScope&) = delete;

  /// A tensor [count, …] as count tensors […].
  torch::Tensor wrap(const torch::Tensor& stacked) const;
  /// [count, …] again; of a tensor that is the same for all, copies of it that take no memory.
  torch::Tensor unwrap(const torch::Tensor& tensor) const;
  /// Whether some operator was: slower than by calls of one's own, for its gradients above all.
  bool one_by_one() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cdt::kernel
