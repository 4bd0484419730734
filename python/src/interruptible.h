/// Runs long work of the library on another thread, so that Ctrl-C is handled meanwhile.
#pragma once

#include "model.h"
// Python headers come first, as they require

#include <atomic>
#include <functional>
#include <memory>

#pragma GCC visibility push(hidden)
namespace cdt::python {

/// Set to true if the caller no longer wants the work.
using StopFlag = std::shared_ptr<std::atomic<bool>>;

/// Runs `work` with `threads` LibTorch threads, and waits for it without the interpreter lock.
/// Several times a second it calls `look` with the lock and handles signals. If one of them raises,
/// `stop` becomes true and the error is raised within a second, even if the work takes longer to
/// notice. The work then ends by itself, so it must own all that it uses, and must not touch Python
/// objects.
void run_interruptibly(const StopFlag& stop, int threads, std::function<void()> work,
                       const std::function<void()>& look = {});

/// Returns `work()`, which works on [n, n] matrices on this device. Call it with the interpreter
/// lock. The work must own all that it uses, and must not touch Python objects.
template <class Work>
auto decompose_interruptibly(const torch::Tensor& matrix, Work work) {
  const Unlocked working;
  return decompose_aside(matrix, std::move(work));
}

}  // namespace cdt::python
#pragma GCC visibility pop
